// 1024/128, the sizes of the published `small` (13.6 M weights): for about 100 M tokens and one GPU.
(import '../lib/pretrain.libsonnet') {
  options:: self.published(1024, 128, n_highway=1),
  vocabulary_size:: 100000,
  softmax:: { type: 'adaptive', div_value: 2 },
  batches:: self.sentences(10240),
  precision:: 'auto',
  epochs:: 5,
}
