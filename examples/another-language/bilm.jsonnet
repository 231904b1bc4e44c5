{
  dataset_reader: { type: 'text_shards' },
  vocabulary: { type: 'text_shards', files: 'text/train-*' },
  train_data_path: 'text/train-*',
  validation_data_path: 'text/heldout.txt.gz',
  model: {
    type: 'bilm',
    bilm: {
      options: {
        lstm: { dim: 128, projection_dim: 32, n_layers: 2, cell_clip: 3, proj_clip: 3, use_skip_connections: true },
        char_cnn: { embedding: { dim: 16 }, filters: [[1, 16], [2, 16], [3, 32]], n_highway: 1 },
      },
      seed: 1,
    },
    softmax: 'full',
  },
  data_loader: { type: 'sentence_batches', max_tokens: 512, shuffle: true },
  validation_data_loader: { type: 'sentence_batches', max_tokens: 512, shuffle: false },
  trainer: {
    num_epochs: 4,
    optimizer: { type: 'adamw', lr: 0.004 },
    learning_rate_scheduler: { type: 'warmup_cosine', warmup_steps: 50 },
    grad_norm: 1.0,
    validation_metric: '-perplexity',
    callbacks: ['exact_resume'],
    checkpointer: { type: 'atomic', save_every_num_minutes: 5 },
    cuda_device: -1,
  },
}
