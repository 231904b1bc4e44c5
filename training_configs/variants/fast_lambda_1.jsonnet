// λ = 1 with a learning rate at which it has an effect.
(import 'fast_layer_weights.jsonnet') { layer_weights_l2:: 1 }
