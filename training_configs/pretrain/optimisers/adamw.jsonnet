// A million tokens with AdamW, warm-up and a cosine schedule; text and order are those of adagrad.jsonnet.
(import '../../lib/comparison.libsonnet') {
  optimizer:: self.adamw,
  warmup_steps:: 40,
  batches_per_epoch:: 80,
  epochs:: 5,
}
