// A biLSTM text classifier: words beside ELMo, the mean over tokens, a softmax over labels.
(import 'experiment.libsonnet') {
  metric:: '+accuracy',
  grid+:: { separator: '\n' },
  model+: {
    type: 'elmo_classifier',
    seq2vec_encoder: { type: 'boe', embedding_dim: $.output_size, averaged: true },
  },
}
