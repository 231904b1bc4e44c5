// The mean of all layers, nothing learned.
(import '../lib/task.libsonnet') { elmo+:: { mix: 'average' } }
