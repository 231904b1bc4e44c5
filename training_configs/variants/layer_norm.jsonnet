// Each layer normalized before it is weighted (paper, §3.2).
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'scalar', do_layer_norm: true } } }
