// Five degrees of sentiment. SST: a folder with stsa.fine.train and stsa.fine.dev.
(import '../lib/classifier.libsonnet') {
  data:: (import '../lib/data.libsonnet').sst5,
  epochs:: 10,
  grid+:: { train: 3000, dev: 1101, epochs: 6, patience: 3 },
}
