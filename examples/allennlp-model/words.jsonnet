{
  dataset_reader: {
    type: 'column_tags',
    token_indexers: { tokens: { type: 'single_id' } },
  },
  train_data_path: 'tags.conll',
  validation_data_path: 'tags.conll',
  model: {
    type: 'simple_tagger',
    text_field_embedder: {
      token_embedders: { tokens: { type: 'embedding', embedding_dim: 20 } },
    },
    encoder: { type: 'lstm', input_size: 20, hidden_size: 25, bidirectional: true },
  },
  data_loader: { batch_size: 2, shuffle: true },
  trainer: { optimizer: { type: 'adam', lr: 0.01 }, num_epochs: 3, cuda_device: -1 },
}
