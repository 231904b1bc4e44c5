local input = import 'input.jsonnet';
input {
  model+: {
    text_field_embedder+: {
      token_embedders+: {
        elmo: { type: 'elmo', bilm: 'english-tiny', mix: 'concatenate', dropout: 0 },
      },
    },
    encoder: {
      type: 'elmo_enhanced',
      bilm: 'english-tiny',
      encoder: { type: 'lstm', input_size: 20 + 512, hidden_size: 25, bidirectional: true },
    },
  },
}
