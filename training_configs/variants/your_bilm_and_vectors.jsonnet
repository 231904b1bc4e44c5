// A biLM of your own and word vectors beside it.
(import 'your_bilm.jsonnet') + (import '../lib/word_vectors.libsonnet')
