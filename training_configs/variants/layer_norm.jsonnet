// Layer normalization before the weighted sum (paper, §3.2).
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'scalar', do_layer_norm: true } } }
