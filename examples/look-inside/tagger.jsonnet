{
  dataset_reader: { type: 'column_tags', token_indexers: { elmo: { type: 'elmo_characters' } }, coding_scheme: null },
  train_data_path: 'train.conll',
  validation_data_path: 'dev.conll',
  model: {
    type: 'elmo_tagger',
    elmo: { bilm: 'english-tiny' },
    elmo_at: ['input', 'output'],
    encoder: { type: 'lstm', input_size: 512, hidden_size: 20, bidirectional: true },
  },
  data_loader: { batch_size: 8, shuffle: true },
  trainer: { optimizer: { type: 'adam', lr: 0.01 }, num_epochs: 5, validation_metric: '+accuracy', cuda_device: -1 },
}
