// 384/256, 4 M weights and 1.8 M in the softmax: trains on a CPU. It made `english-tiny` from 13 M tokens.
(import '../lib/pretrain.libsonnet') {
  options:: (import '../lib/bilms.libsonnet').english_tiny.options,
  vocabulary_size:: 32000,
  softmax:: { type: 'adaptive', cutoffs: [2000, 10000], div_value: 3 },
  dropout:: 0,
  precision:: 'auto',
  batches_per_epoch:: 1900,
  epochs:: 5,
}
