// Emerging and rare entities of WNUT-17. WNUT17: a folder with train.conll and dev.conll.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').wnut17,
  epochs:: 12,
  patience:: 4,
  grid+:: { train: 3394, dev: 1009, epochs: 6, patience: 3 },
}
