// ELMo at both ends of AllenNLP's `simple_tagger`; the model is unchanged, `elmo_enhanced` wraps its task RNN.
local bilm = (import '../../lib/bilms.libsonnet').default;
local words = (import '../../lib/text.libsonnet').words(20);
local data = (import '../../lib/data.libsonnet').demo_tags;

(import '../demo.jsonnet') {
  model: {
    type: 'simple_tagger',
    label_encoding: data.label_encoding,
    text_field_embedder: {
      token_embedders: {
        elmo: { type: 'elmo', bilm: bilm.keys, mix: 'concatenate', dropout: 0 },
        tokens: words.embedder,
      },
    },
    encoder: {
      type: 'elmo_enhanced',
      bilm: bilm.keys,
      encoder: { type: 'lstm', input_size: words.dim + bilm.layer_dim, hidden_size: 50, bidirectional: true },
    },
  },
}
