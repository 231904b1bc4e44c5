// ELMo at both ends of the encoder of `bcn` (McCann et al. 2017): five degrees of sentiment.
// The feedforward layer between embedder and encoder is an identity and is not trained, so that all layers of the biLM
// reach the encoder. `bcn` rejects an embedder named `elmo`: it has other keys for AllenNLP's ELMo.
(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'sst_tokens' },
    train: 'training_configs/models/data/sst/train.txt',
    dev: 'training_configs/models/data/sst/dev.txt',
  },
  metric:: '+accuracy',
  elmo_key:: 'bilm',
  local linear(input, output) = { input_dim: input, num_layers: 1, hidden_dims: output, activations: 'linear' },
  model+: {
    type: 'bcn',
    embedding_dropout: 0,  // it would apply to the layers; each mix has its own
    pre_encode_feedforward: linear($.embedder_size, $.embedder_size),
    initializer: { regexes: [['_pre_encode_.*weight', 'eye'], ['_pre_encode_.*bias', 'zero']] },
    encoder: $.enhanced($.lstm($.input_size)),
    integrator: $.lstm(3 * $.output_size),
    integrator_dropout: 0.1,
    output_layer: linear(4 * 2 * $.hidden_size, 5),
  },
  trainer+: { no_grad: ['_pre_encode_feedforward'] },
}
