// A small biLM of characters, 128/64, on the text of reviews. A review is one line of the text, however long:
// it is read in windows, and each window goes on from the state that the last one ended with.
(import '../../lib/pretrain.libsonnet') {
  options:: (import '../../lib/bilms.libsonnet').imdb_characters.options,
  vocabulary_size:: 20000,
  softmax:: { type: 'adaptive', cutoffs: [2000, 8000], div_value: 2 },
  batches:: self.streams(64, 40),
  precision:: 'auto',
  warmup_steps:: 100,
  batches_per_epoch:: 460,  // one pass over 21,650 reviews, in five parts
  epochs:: 5,
}
