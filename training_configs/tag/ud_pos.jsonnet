// Universal part-of-speech tags of UD English-EWT. UD_EWT: a folder with train.conllu and dev.conllu.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').ud_pos,
  epochs:: 6,
  patience:: 2,
  grid+:: { train: 2000, dev: 1000, epochs: 6, patience: 3 },
}
