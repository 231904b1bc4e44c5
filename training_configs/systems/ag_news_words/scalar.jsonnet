// Topics of AG News from ELMo alone. The biLM reads words; the layer weights are learned.
// AG_NEWS: a folder with train.csv and dev.csv. ELMO_BILM: the folder of the pretraining run. SEED: a number.
(import '../../classify/ag_news.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').ag_news_words,
  x:: {},
  elmo_at:: ['input'],
  elmo:: { mix: 'scalar' },
  learning_rate:: 0.003,
  seed:: std.parseInt(std.extVar('SEED')),
  dataset_reader+: { token_indexers: { elmo: { type: 'single_id' } } },
  // Words keep the ids of pretraining, and the task adds no words.
  vocabulary: { type: 'extend', directory: std.extVar('ELMO_BILM') + '/vocabulary', min_count: { tokens: 1000000000 } },
}
