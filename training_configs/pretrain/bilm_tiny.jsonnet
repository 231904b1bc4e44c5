// 512/256, 5 M weights and 3 M in the softmax: trains on a CPU. With bilm_tiny_longer.jsonnet it made `english-tiny` from 24 M
// tokens, each in two processes (-o '{"distributed": {"cuda_devices": [-1, -1]}}').
(import '../lib/pretrain.libsonnet') {
  options:: (import '../lib/bilms.libsonnet').english_tiny.options,
  vocabulary_size:: 32000,
  softmax:: { type: 'adaptive', cutoffs: [2000, 10000], div_value: 2 },
  dropout:: 0,
  precision:: 'auto',
  optimizer:: self.muon,
  warmup_steps:: 200,
  batches:: self.sentences(5120),
  batches_per_epoch:: 575,
  epochs:: 4,
}
