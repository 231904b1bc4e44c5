// A biLM that reads words. Input and softmax share their word vectors (bilm-tf's `share_embedding_softmax`).
(import '../lib/pretrain.libsonnet') {
  options:: { lstm: (import '../lib/bilms.libsonnet').english_tiny.options.lstm { dim: 384 } },
  vocabulary_size:: 32000,
  model+: { share_embedding_softmax: true },
  precision:: 'auto',
  epochs:: 3,
}
