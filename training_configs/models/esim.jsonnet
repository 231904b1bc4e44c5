// ELMo at both ends of the first encoder of `esim` (Chen et al. 2017): textual entailment.
(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'snli', tokenizer: 'spacy_blank' },
    train: 'training_configs/models/data/snli/train.jsonl',
    dev: 'training_configs/models/data/snli/dev.jsonl',
  },
  metric:: '+accuracy',
  sorting_keys:: ['premise', 'hypothesis'],
  local feedforward(input, output, activation='relu', dropout=0) =
    { input_dim: input, num_layers: 1, hidden_dims: output, activations: activation, dropout: dropout },
  model+: {
    type: 'esim',
    dropout: 0,  // it would apply to the layers; each mix has its own
    encoder: $.enhanced($.lstm($.input_size)),
    matrix_attention: 'dot_product',
    projection_feedforward: feedforward(4 * $.output_size, $.hidden_size, dropout=0.5),
    inference_encoder: $.lstm($.hidden_size),
    output_feedforward: feedforward(4 * 2 * $.hidden_size, $.hidden_size, dropout=0.5),
    output_logit: feedforward($.hidden_size, 3, 'linear'),
  },
}
