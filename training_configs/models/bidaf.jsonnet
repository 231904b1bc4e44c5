// ELMo at both ends of the phrase layer of `bidaf` (Seo et al. 2017): find the answer in a passage.
(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'squad', tokenizer: 'spacy_blank' },
    train: 'training_configs/models/data/squad/train.json',
    dev: 'training_configs/models/data/squad/dev.json',
  },
  metric:: '+f1',
  sorting_keys:: ['passage', 'question'],
  local merged = 4 * $.output_size,  // the passage, its attention over the question, and their products
  model+: {
    type: 'bidaf',
    num_highway_layers: 0,  // they precede the phrase layer, and would mix the layers with the words
    phrase_layer: $.enhanced($.lstm($.input_size)),
    matrix_attention: {
      type: 'linear',
      combination: 'x,y,x*y',
      tensor_1_dim: $.output_size,
      tensor_2_dim: $.output_size,
    },
    modeling_layer: $.lstm(merged) { num_layers: 2, dropout: 0.2 },
    span_end_encoder: $.lstm(merged + 3 * 2 * $.hidden_size),
  },
}
