// Pretraining of a biLM: text shards, batches, softmax, optimizer, perplexity on held-out text.
// A config sets the fields with `::`; AllenNLP reads the others.
// LM_TRAIN: text shards, a path or a pattern, one tokenized sentence per line; LM_HELDOUT: the same, for evaluation.
// Training uses a GPU if there is one; `-o '{"trainer.cuda_device": -1}'` selects the CPU.
{
  options:: error 'pretraining needs `options`, the sizes of a biLM as in an options.json',
  bilm:: { options: $.options, seed: $.seed },
  train:: std.extVar('LM_TRAIN'),
  heldout:: std.extVar('LM_HELDOUT'),
  vocabulary_size:: 50000,
  softmax:: { type: 'full' },
  dropout:: 0.1,
  precision:: 'float32',
  epochs:: 10,
  learning_rate:: 0.003,
  matrix_learning_rate:: 0.005,  // for the matrices that Muon trains
  warmup_steps:: 0.05,  // a share of the run, or a number of batches
  batches_per_epoch:: null,  // null: an epoch is a pass; with fewer batches, perplexity is evaluated more often
  seed:: 13370,

  // The sizes of the published models: Peters et al. 2018 §3.4, and the options files of their weights.
  published(dim, projection_dim, n_highway):: {
    lstm: {
      dim: dim,
      projection_dim: projection_dim,
      n_layers: 2,
      cell_clip: 3,
      proj_clip: 3,
      use_skip_connections: true,
    },
    char_cnn: {
      embedding: { dim: 16 },
      filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
      n_highway: n_highway,
    },
  },

  // Whole sentences, as in use; or streams that are cut into windows, as in bilm-tf.
  batches:: self.sentences(2560),
  sentences(max_tokens):: { type: 'sentence_batches', max_tokens: max_tokens },
  streams(streams, window):: { type: 'unrolled_streams', streams: streams, window: window },

  // AdamW or Muon, with warm-up and a cosine schedule to zero; or Adagrad as in bilm-tf's training.py: accumulators start at
  // 1 and gradients are clipped to 10. It multiplies the loss by the window's 20 words, so here it is 1 / 20² and 10 / 20.
  optimizer:: self.adamw,
  adamw:: self.scheduled({ type: 'adamw', lr: $.learning_rate, betas: [0.9, 0.98], weight_decay: 0.01 }),
  muon:: self.scheduled({ type: 'muon', lr: $.matrix_learning_rate, adamw_lr: $.learning_rate }),
  scheduled(optimizer):: {
    optimizer: optimizer,
    learning_rate_scheduler: { type: 'warmup_cosine', warmup_steps: $.warmup_steps },
    grad_norm: 1.0,
  },
  adagrad:: {
    optimizer: { type: 'adagrad', lr: 0.2, initial_accumulator_value: 0.0025 },
    grad_norm: 0.5,
  },

  random_seed: $.seed,
  numpy_seed: $.seed,
  pytorch_seed: $.seed,
  dataset_reader: { type: 'text_shards' },
  vocabulary: { type: 'text_shards', files: $.train, max_size: $.vocabulary_size },
  train_data_path: $.train,
  validation_data_path: $.heldout,
  model: {
    type: 'bilm',
    bilm: $.bilm,
    softmax: $.softmax,
    dropout: $.dropout,
    precision: $.precision,
  },
  data_loader: $.batches { shuffle: true, seed: $.seed, batches_per_epoch: $.batches_per_epoch },
  validation_data_loader: $.batches { shuffle: false },
  trainer: {
    num_epochs: $.epochs,
    validation_metric: '-perplexity',
    // With --recover, a killed run ends as if it had not been killed.
    callbacks: [{ type: 'exact_resume' }],
    checkpointer: { type: 'atomic', save_every_num_minutes: 10, keep_most_recent_by_count: 2 },
  } + $.optimizer,
}
