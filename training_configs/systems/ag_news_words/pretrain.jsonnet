// A biLM of words, 256/128, on the text of AG News: one table of vectors reads and predicts.
(import '../../lib/pretrain.libsonnet') {
  options:: (import '../../lib/bilms.libsonnet').ag_news_words.options,
  vocabulary_size:: 20000,
  model+: { share_embedding_softmax: true },
  softmax:: { type: 'sampled', n_samples: 2048 },
  precision:: 'auto',
  warmup_steps:: 100,
  epochs:: 5,
}
