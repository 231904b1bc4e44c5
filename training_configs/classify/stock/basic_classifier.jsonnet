// ELMo at both ends of AllenNLP's `basic_classifier`; the model is unchanged.
local bilm = (import '../../lib/bilms.libsonnet').default;
local words = (import '../../lib/text.libsonnet').words(20);

(import '../demo.jsonnet') {
  words_dim:: words.dim,
  model: {
    type: 'basic_classifier',
    text_field_embedder: {
      token_embedders: {
        elmo: { type: 'elmo', bilm: bilm.keys, mix: 'concatenate', dropout: 0 },
        [if $.words_dim > 0 then 'tokens']: words.embedder,
      },
    },
    seq2seq_encoder: {
      type: 'elmo_enhanced',
      bilm: bilm.keys,
      encoder: { type: 'lstm', input_size: $.words_dim + bilm.layer_dim, hidden_size: 50, bidirectional: true },
    },
    seq2vec_encoder: { type: 'boe', embedding_dim: 2 * 50 + bilm.layer_dim, averaged: true },
  },
}
