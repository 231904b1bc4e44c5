// Sentiment of whole reviews, with the frozen biLM of pretrain.jsonnet. None is cut: a review
// is read whole, in memory that hardly grows with it. IMDB: train.jsonl and dev.jsonl. ELMO_BILM: the folder of the run
// of pretrain.jsonnet. SEED: a number.
(import '../../classify/imdb.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').imdb_characters,
  elmo:: { projection_dim: 64 },
  hidden_size:: 50,
  batch_size:: 32,
  seed:: std.parseInt(std.extVar('SEED')),
}
