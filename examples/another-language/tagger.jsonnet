{
  dataset_reader: {
    type: 'column_tags',
    conllu: true,
    tag_column: 5,  // the features
    token_indexers: {
      words: { type: 'single_id' },
      characters: { type: 'characters', min_padding_length: 3 },
      elmo: { type: 'elmo_characters' },
    },
  },
  train_data_path: 'train.conllu',
  validation_data_path: 'dev.conllu',
  model: {
    type: 'elmo_tagger',
    elmo: { bilm: 'runs/bilm/model.tar.gz' },
    text_field_embedder: {
      token_embedders: {
        words: { type: 'embedding', embedding_dim: 20 },
        characters: {
          type: 'character_encoding',
          embedding: { embedding_dim: 16 },
          encoder: { type: 'cnn', embedding_dim: 16, num_filters: 50, ngram_filter_sizes: [3] },
        },
      },
    },
    encoder: { type: 'lstm', input_size: 20 + 50 + 64, hidden_size: 30, bidirectional: true },
  },
  data_loader: { batch_size: 4, shuffle: true },
  trainer: { optimizer: { type: 'adam', lr: 0.005 }, num_epochs: 15, validation_metric: '+accuracy', cuda_device: -1 },
}
