// 3.8 million tokens with LSTMs, 1.18 M weights in both directions: the baseline of transformer.jsonnet and gated_cnn.jsonnet.
(import '../bilm_tiny.jsonnet') {
  local narrow = (import '../../lib/bilms.libsonnet').ag_news_words.options.lstm,
  options+:: { lstm: narrow },
  warmup_steps:: 150,
  batches_per_epoch:: 500,
  epochs:: 3,
}
