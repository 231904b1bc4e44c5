// A feed-forward network over the layers instead of their weighted sum.
(import '../lib/task.libsonnet') { elmo+:: { mix: 'learned_function' } }
