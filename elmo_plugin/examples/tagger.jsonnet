{
  dataset_reader: {
    type: 'column_tags',
    token_indexers: { elmo: { type: 'elmo_characters' } },
    coding_scheme: 'BIO',
  },
  train_data_path: 'train.conll',
  validation_data_path: 'train.conll',
  model: {
    type: 'elmo_tagger',
    elmo: { bilm: 'english-tiny' },
    elmo_at: ['input', 'output'],
    encoder: { type: 'lstm', input_size: 512, hidden_size: 50, bidirectional: true },
    label_encoding: 'BIO',
    crf: true,
  },
  data_loader: { batch_size: 2, shuffle: true },
  trainer: {
    optimizer: { type: 'adam', lr: 0.01 },
    num_epochs: 15,
    validation_metric: '+f1-measure-overall',
    cuda_device: -1,
  },
}
