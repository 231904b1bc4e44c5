// Six million tokens with LSTMs, 1.18 M weights in both directions: the baseline of transformer.jsonnet and gated_cnn.jsonnet.
(import '../bilm_tiny.jsonnet') {
  local narrow = (import '../../lib/bilms.libsonnet').ag_news_words.options.lstm,
  options+:: { lstm: narrow },
  batches_per_epoch:: 800,
  epochs:: 3,
}
