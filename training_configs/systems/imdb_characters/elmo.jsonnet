// Sentiment of whole reviews, with the frozen biLM of pretrain.jsonnet. No review is cut: memory hardly grows with its
// length. IMDB: a folder with train.jsonl and dev.jsonl. ELMO_BILM: the folder of the pretraining run. SEED: a number.
(import '../../classify/imdb.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').imdb_characters,
  elmo:: { projection_dim: 64 },
  hidden_size:: 50,
  batch_size:: 32,
  seed:: std.parseInt(std.extVar('SEED')),
}
