// The task that the environment variable TASK names, for configs that extend any task (../variants).
// jsonnet imports no path that it computes, so each config has a line. `experiments` writes its own import of a config,
// extends it by a variant, and leaves TASK empty.
{
  '': {},
  ag_news: import '../classify/ag_news.jsonnet',
  conll2000_chunking: import '../tag/conll2000_chunking.jsonnet',
  conll2003_ner: import '../tag/conll2003_ner.jsonnet',
  demo: import '../tag/demo.jsonnet',
  demo_reviews: import '../classify/demo.jsonnet',
  imdb: import '../classify/imdb.jsonnet',
  litbank_events: import '../tag/litbank_events.jsonnet',
  sst5: import '../classify/sst5.jsonnet',
  treebank_features: import '../tag/treebank_features.jsonnet',
  treebank_pos: import '../tag/treebank_pos.jsonnet',
  ud_parsing: import '../parse/ud_parsing.jsonnet',
  ud_pos: import '../tag/ud_pos.jsonnet',
  wnut17_ner: import '../tag/wnut17_ner.jsonnet',
}[std.extVar('TASK')]
