// λ = 1 (paper, §3.2 and Table 2): λ‖w‖² joins the loss, so that the layers' weights stay near an average.
(import '../lib/task.libsonnet') { layer_weights_l2:: 1 }
