// A million tokens with Adagrad as bilm-tf trains, see `adagrad` in the template; adamw.jsonnet has the same text.
(import '../bilm_tiny.jsonnet') {
  optimizer:: self.adagrad,
  batches_per_epoch:: 80,
  epochs:: 5,
}
