// A million tokens with AdamW, up and then down along a cosine; adagrad.jsonnet has the same text in the same order.
(import '../bilm_tiny.jsonnet') {
  optimizer:: self.adamw,
  warmup_steps:: 40,
  batches_per_epoch:: 80,
  epochs:: 5,
}
