// 4096/512, the published recipe: 10 epochs of the 1 Billion Word Benchmark, perplexity 39.7, 3 GPUs with 128 streams each
// (-o '{"distributed": {"cuda_devices": [0, 1, 2]}}'). Sources: Peters et al. 2018 §3.4; bin/train_elmo.py (vocabulary,
// batch_size, unroll_steps, n_negative_samples_batch, n_epochs) and bilm/training.py (Adagrad, clips, start) of bilm-tf.
(import '../lib/pretrain.libsonnet') {
  options:: self.published(4096, 512, n_highway=2),
  vocabulary_size:: 793471,
  softmax:: { type: 'sampled', n_samples: 8192 },
  dropout:: 0.1,
  batches:: self.streams(128, 20),
  optimizer:: self.adagrad,
  epochs:: 10,
}
