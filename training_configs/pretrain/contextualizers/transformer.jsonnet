// Two layers of AllenNLP's bidirectional Transformer, 1.18 M weights; text and order are those of lstm.jsonnet.
(import 'lstm.jsonnet') {
  model+: {
    contextualizer: {
      type: 'bidirectional_language_model_transformer',
      input_dim: $.options.lstm.projection_dim,
      hidden_dim: 888,
      num_layers: 2,
      dropout: 0,
    },
  },
}
