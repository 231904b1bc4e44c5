// ELMo at both ends of the RNN of `coref` (Lee et al. 2017): which mentions of a document name the same thing.
// The model also attends over the words of a mention; there it reads all layers, without a mix.
(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'coref', max_span_width: $.max_span_width },
    train: 'training_configs/models/data/coref/train.gold_conll',
    dev: 'training_configs/models/data/coref/dev.gold_conll',
  },
  metric:: '+coref_f1',
  sorting_keys:: ['text'],
  batch_size:: 1,  // documents
  max_span_width:: 10,
  feature_size:: 20,
  local span_size = 2 * $.output_size + $.feature_size + $.embedder_size,  // both ends, the width, the words
  local feedforward(input) =
    { input_dim: input, num_layers: 2, hidden_dims: 150, activations: 'relu', dropout: 0.2 },
  model+: {
    type: 'coref',
    context_layer: $.enhanced($.lstm($.input_size)),
    mention_feedforward: feedforward(span_size),
    antecedent_feedforward: feedforward(3 * span_size + $.feature_size),  // both, their product, the distance
    feature_size: $.feature_size,
    max_span_width: $.max_span_width,
    spans_per_word: 0.4,
    max_antecedents: 100,
    lexical_dropout: 0,  // it would apply to the layers; each mix has its own
  },
}
