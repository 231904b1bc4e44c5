// A million tokens with Adagrad as in bilm-tf (`adagrad` in ../../lib); the text is that of adamw.jsonnet.
(import '../../lib/comparison.libsonnet') {
  optimizer:: self.adagrad,
  batches_per_epoch:: 80,
  epochs:: 5,
}
