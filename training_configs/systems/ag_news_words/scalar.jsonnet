// Topics of AG News from ELMo alone, of a biLM that reads words; λ, the layer weights, is learned.
// AG_NEWS: train.csv and dev.csv. ELMO_BILM: the folder of the run of pretrain.jsonnet. SEED: a number.
(import '../../classify/ag_news.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').ag_news_words,
  x:: {},
  elmo_at:: ['input'],
  elmo:: { mix: 'scalar' },
  learning_rate:: 0.003,
  seed:: std.parseInt(std.extVar('SEED')),
  dataset_reader+: { token_indexers: { elmo: { type: 'single_id' } } },
  // Words have the ids that they were pretrained with, and no word of the task's joins them.
  vocabulary: { type: 'extend', directory: std.extVar('ELMO_BILM') + '/vocabulary', min_count: { tokens: 1000000000 } },
}
