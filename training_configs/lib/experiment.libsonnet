// A whole experiment around a model: data, batches by length, Adam, the best epoch by one metric.
// A config sets the fields with `::`; AllenNLP reads the others.
// Training runs on the CPU; `-o '{"trainer.cuda_device": 0}'` selects the first GPU.
local text = import 'text.libsonnet';

{
  data:: error 'an experiment needs `data`, one of lib/data.libsonnet',
  metric:: error 'an experiment needs `metric`, such as "+accuracy"',
  bilm:: (import 'bilms.libsonnet').default,  // null for the baseline without ELMo
  elmo_at:: ['input', 'output'],
  elmo:: {},  // further keys of `elmo`: mix, dropout, sentence_cache, …
  layer_weights_l2:: 0,  // the paper's λ (§3.2): λ‖w‖² is added to the loss for each mix's weights w before softmax
  x:: { tokens: text.words(100) },
  hidden_size:: 100,
  batch_size:: 32,
  epochs:: 30,
  patience:: 5,
  learning_rate:: 0.001,
  seed:: 13370,

  // The protocol of `experiments`: the first `train` and `dev` sentences or texts of the corpus (null: all), for at most
  // so many epochs. `separator` is what ends a sentence or text in the training file.
  grid:: { train: null, dev: null, epochs: $.epochs, patience: $.patience, separator: '\n\n' },

  // Derived sizes.
  elmo_dim(place):: if $.bilm == null || !std.member($.elmo_at, place) then 0
  else if std.objectHas($.elmo, 'projection_dim') then $.elmo.projection_dim else $.bilm.layer_dim,
  input_size:: text.dim($.x) + $.elmo_dim('input'),
  output_size:: 2 * $.hidden_size + $.elmo_dim('output'),

  random_seed: $.seed,
  numpy_seed: $.seed,
  pytorch_seed: $.seed,
  dataset_reader: $.data.reader { token_indexers: text.indexers($.x, $.bilm) },
  train_data_path: $.data.train,
  validation_data_path: $.data.dev,
  model: {
    elmo: if $.bilm == null then null else { bilm: $.bilm.keys } + $.elmo,
    elmo_at: $.elmo_at,
    text_field_embedder: text.embedder($.x),
    encoder: { type: 'lstm', input_size: $.input_size, hidden_size: $.hidden_size, bidirectional: true },
    dropout: 0.5,
    [if $.layer_weights_l2 > 0 then 'regularizer']:
      { regexes: [['scalar_parameters', { type: 'l2', alpha: $.layer_weights_l2 }]] },
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: $.batch_size, sorting_keys: ['tokens'] } },
  validation_data_loader: { batch_sampler: { type: 'bucket', batch_size: 2 * $.batch_size, sorting_keys: ['tokens'] } },
  trainer: {
    optimizer: { type: 'adam', lr: $.learning_rate },
    num_epochs: $.epochs,
    patience: $.patience,
    validation_metric: $.metric,
    grad_norm: 5.0,
    cuda_device: -1,
    checkpointer: { type: 'atomic', keep_most_recent_by_count: 1 },  // stays intact when the run is killed, for --recover
  },
}
