// ELMo at both ends of the RNN of `srl` (He et al. 2017): semantic roles.
// The verb indicator comes after the word vectors.
(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'srl' },
    train: 'training_configs/models/data/srl/train',
    dev: 'training_configs/models/data/srl/dev',
  },
  metric:: '+f1-measure-overall',
  verb_dim:: 100,
  model+: {
    type: 'srl',
    binary_feature_dim: $.verb_dim,
    encoder: $.enhanced({
      type: 'alternating_lstm',
      input_size: $.input_size + $.verb_dim,
      hidden_size: $.hidden_size,
      num_layers: 8,
      recurrent_dropout_probability: 0.1,
    }),
  },
}
