// The mean of all layers; nothing is learned.
(import '../lib/task.libsonnet') { elmo+:: { mix: 'average' } }
