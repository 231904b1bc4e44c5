// ELMo alone: no other token indexer and no other embedder.
(import 'basic_classifier.jsonnet') {
  x:: {},
  words_dim:: 0,
}
