{
  dataset_reader: {
    type: 'column_tags',
    coding_scheme: null,
    token_indexers: {
      words: { type: 'single_id' },
      elmo: { type: 'elmo_characters' },
    },
  },
  train_data_path: 'train.conll',
  validation_data_path: 'dev.conll',
  model: {
    type: 'elmo_tagger',
    elmo: { bilm: 'runs/bilm/model.tar.gz' },
    elmo_at: ['input', 'output'],
    text_field_embedder: { token_embedders: { words: { type: 'embedding', embedding_dim: 20 } } },
    encoder: { type: 'lstm', input_size: 20 + 64, hidden_size: 30, bidirectional: true },
  },
  data_loader: { batch_size: 4, shuffle: true },
  trainer: { optimizer: { type: 'adam', lr: 0.01 }, num_epochs: 15, validation_metric: '+accuracy', cuda_device: -1 },
}
