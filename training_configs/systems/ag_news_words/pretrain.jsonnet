// A biLM that reads words, 256/128, trained on the text of AG News. Input and softmax share their word vectors.
(import '../../lib/pretrain.libsonnet') {
  options:: (import '../../lib/bilms.libsonnet').ag_news_words.options,
  vocabulary_size:: 20000,
  model+: { share_embedding_softmax: true },
  softmax:: { type: 'sampled', n_samples: 2048 },
  precision:: 'auto',
  warmup_steps:: 100,
  epochs:: 5,
}
