// 2.3 million tokens with LSTMs, 1.18 M weights in both directions: the baseline of transformer.jsonnet and gated_cnn.jsonnet.
(import '../../lib/comparison.libsonnet') {
  local narrow = (import '../../lib/bilms.libsonnet').ag_news_words.options.lstm,
  options+:: { lstm: narrow },
  warmup_steps:: 100,
  batches_per_epoch:: 300,
  epochs:: 3,
}
