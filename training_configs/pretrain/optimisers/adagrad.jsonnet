// A million tokens with Adagrad as bilm-tf trains: rate 0.2, accumulators from 1, gradients clipped to 10.
(import '../bilm_tiny.jsonnet') {
  optimizer:: self.adagrad,
  batches_per_epoch:: 80,
  epochs:: 5,
}
