// Phrase chunks of CoNLL-2000. CONLL2000: a folder with train.txt and dev.txt.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').conll2000,
  epochs:: 8,
  patience:: 3,
  grid+:: { train: 1500, dev: 894, epochs: 6, patience: 3 },
}
