// A small biLM that reads characters, 128/64, trained on the text of reviews. A review is one line of any length; it is
// read in windows, and each window starts from the final state of the previous one.
(import '../../lib/pretrain.libsonnet') {
  options:: (import '../../lib/bilms.libsonnet').imdb_characters.options,
  vocabulary_size:: 20000,
  softmax:: { type: 'adaptive', cutoffs: [2000, 8000], div_value: 2 },
  batches:: self.streams(64, 40),
  precision:: 'auto',
  warmup_steps:: 100,
  batches_per_epoch:: 460,  // a fifth of a pass over 21,650 reviews
  epochs:: 5,
}
