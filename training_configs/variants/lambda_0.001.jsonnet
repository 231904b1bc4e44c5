// λ = 0.001 (paper, §3.2 and Table 2): the layer weights may differ.
(import '../lib/task.libsonnet') { layer_weights_l2:: 0.001 }
