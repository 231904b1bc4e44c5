// AllenNLP's gated convolutions (Dauphin et al. 2017), 1.18 M weights: each layer reads the last four or five words, which
// makes 15 words in total. Text and order are those of lstm.jsonnet.
(import 'lstm.jsonnet') {
  local width = $.options.lstm.projection_dim,
  model+: {
    contextualizer: {
      type: 'gated-cnn-encoder',
      input_dim: width,
      layers: [[[n_words, width]] for n_words in [4, 4, 5, 5]],
    },
  },
}
