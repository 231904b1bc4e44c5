// 512/256, 5 M weights and 3 M in the softmax: trains on a CPU, and on a text of any size. With bilm_tiny_longer.jsonnet it
// made `english-tiny`; the card of that biLM says for how many batches.
(import '../lib/pretrain.libsonnet') {
  options:: (import '../lib/bilms.libsonnet').english_tiny.options,
  vocabulary_size:: 32000,
  softmax:: { type: 'adaptive', div_value: 2 },  // cutoffs by the size of the vocabulary
  dropout:: 0,
  precision:: 'auto',
  optimizer:: self.muon,
  warmup_steps:: 0.1,
  batches:: self.sentences(5120),
  epochs:: 4,
}
