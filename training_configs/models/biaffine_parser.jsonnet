// ELMo at both ends of the RNN of `biaffine_parser` (Dozat & Manning 2017): dependencies between words.
// It gets no part-of-speech tags, only words and their characters.
local text = import '../lib/text.libsonnet';

(import '../lib/enhanced.libsonnet') {
  data:: {
    reader: { type: 'universal_dependencies' },
    train: 'training_configs/models/data/ud/train.conllu',
    dev: 'training_configs/models/data/ud/dev.conllu',
  },
  metric:: '+LAS',
  sorting_keys:: ['words'],
  x:: { tokens: text.words(100), tokens_characters: text.characters(50) },
  hidden_size:: 200,
  model+: {
    type: 'biaffine_parser',
    encoder: $.enhanced($.lstm($.input_size) { num_layers: 2, dropout: 0.3 }),
    arc_representation_dim: 200,
    tag_representation_dim: 50,
    use_mst_decoding_for_validation: false,  // it scores the relation of every pair of words: minutes on a CPU
    dropout: 0.3,
    input_dropout: 0,  // it would apply to the layers; each mix has its own
  },
}
