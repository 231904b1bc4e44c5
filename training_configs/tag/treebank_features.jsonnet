// Morphology of any UD treebank: all features of a word are one tag, such as Case=Gen|Gender=Fem|Number=Sing.
(import 'treebank_pos.jsonnet') {
  data:: (import '../lib/data.libsonnet').treebank_features,
}
