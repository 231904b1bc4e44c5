// AllenNLP's gated convolutions, 1.18 M weights: a layer multiplies the concatenated vectors of the last words, 15 words in
// all (Dauphin et al. 2017); text and order are those of lstm.jsonnet.
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
