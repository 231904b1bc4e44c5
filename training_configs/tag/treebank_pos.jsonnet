// Universal part-of-speech tags of any UD treebank. TREEBANK: a folder with train.conllu and dev.conllu.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').treebank_pos,
  epochs:: 10,
  learning_rate:: 0.002,
}
