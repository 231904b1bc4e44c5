// λ = 1 on layer weights that learn fast enough to feel it.
(import 'fast_layer_weights.jsonnet') { layer_weights_l2:: 1 }
