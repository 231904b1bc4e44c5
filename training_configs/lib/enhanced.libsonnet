// ELMo in any AllenNLP model: `embedder` concatenates all layers with the words; an encoder wrapped by `enhanced` splits
// them again, runs on [x; ELMo] and returns [h; ELMo]. With `bilm:: null`, both do without ELMo.
local text = import 'text.libsonnet';

(import 'experiment.libsonnet') {
  x:: { tokens: text.words(100) },  // keys that sort after elmo_key, so that the layers come first
  elmo_key:: 'elmo',
  sorting_keys:: ['tokens'],

  local elmo_key = if $.bilm == null then null else $.elmo_key,  // jsonnet leaves out a field whose name is null
  indexers:: text.indexers($.x, null) { [elmo_key]: { type: 'elmo_characters' } },
  embedder:: {
    token_embedders: text.embedder($.x).token_embedders {
      [elmo_key]: { type: 'elmo', bilm: $.bilm.keys, mix: 'concatenate', dropout: 0 } + $.elmo,
    },
  },
  embedder_size:: text.dim($.x) + if $.bilm == null then 0 else $.bilm.num_layers * $.bilm.layer_dim,

  // `encoder` reads $.input_size numbers per token. `enhanced($.lstm(…))` returns $.output_size.
  enhanced(encoder):: if $.bilm == null then encoder else {
    type: 'elmo_enhanced',
    bilm: $.bilm.keys,
    [if std.member($.elmo_at, 'input') then null else 'input_mix']: null,
    [if std.member($.elmo_at, 'output') then null else 'output_mix']: null,
    encoder: encoder,
  },
  lstm(input_size):: { type: 'lstm', input_size: input_size, hidden_size: $.hidden_size, bidirectional: true },

  local inherited = super.model,  // only its regularizer of layer weights is kept
  model: {
    text_field_embedder: $.embedder,
    [if std.objectHas(inherited, 'regularizer') then 'regularizer']: inherited.regularizer,
  },
  dataset_reader: $.data.reader { token_indexers: $.indexers },
  data_loader+: { batch_sampler+: { sorting_keys: $.sorting_keys } },
  validation_data_loader+: { batch_sampler+: { sorting_keys: $.sorting_keys } },
}
