// A feed-forward network over the layers in place of their weighted sum.
(import '../lib/task.libsonnet') { elmo+:: { mix: 'learned_function' } }
