// 2048/256, the sizes of the published `medium` (28.0 M weights): for about 300 M tokens and one GPU.
(import '../lib/pretrain.libsonnet') {
  options:: self.published(2048, 256, n_highway=1),
  vocabulary_size:: 200000,
  softmax:: { type: 'adaptive', div_value: 4 },
  batches:: self.sentences(20480),
  precision:: 'auto',
  learning_rate:: 0.002,
  epochs:: 5,
}
