// Word vectors of your own in place of ELMo: WORD_VECTORS, WORD_VECTORS_DIM.
(import 'without_elmo.jsonnet') + (import '../lib/word_vectors.libsonnet')
