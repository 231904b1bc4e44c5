// Train the biLM of bilm_tiny_longer.jsonnet a third time, now with 1024 cells: ELMO_BILM is what
// `python -m experiments.widen` made of it.
(import 'bilm_tiny.jsonnet') + (import '../lib/pretrained.libsonnet') {
  seed:: 13372,
  matrix_learning_rate:: 0.004,
  learning_rate:: 0.0024,
  warmup_steps:: 100,
  batches_per_epoch:: 1090,
  epochs:: 3,
}
