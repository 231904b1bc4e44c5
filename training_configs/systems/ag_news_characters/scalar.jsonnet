// Topics of AG News from ELMo alone. The biLM reads characters; the layer weights are learned.
// AG_NEWS, ELMO_BILM and SEED as in ../ag_news_words.
(import '../../classify/ag_news.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').ag_news_characters,
  x:: {},
  elmo_at:: ['input'],
  elmo:: { mix: 'scalar' },
  learning_rate:: 0.003,
  seed:: std.parseInt(std.extVar('SEED')),
}
