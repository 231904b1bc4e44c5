// λ = 1 (paper, §3.2 and Table 2): λ‖w‖² is added to the loss, so that the mix stays near an average.
(import '../lib/task.libsonnet') { layer_weights_l2:: 1 }
