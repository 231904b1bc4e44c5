// Topics of AG News. AG_NEWS: a folder with train.csv and dev.csv, the class before the text.
(import '../lib/classifier.libsonnet') {
  data:: (import '../lib/data.libsonnet').ag_news,
  elmo:: { projection_dim: 64 },  // so that ELMo does not outweigh the words
  epochs:: 4,
  patience:: 2,
  grid+:: { train: 1000, dev: 2000, epochs: 15, patience: 5 },
}
