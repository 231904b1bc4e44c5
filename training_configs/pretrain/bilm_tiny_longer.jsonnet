// Train the biLM of bilm_tiny.jsonnet further on the same text in another order. ELMO_BILM is its archive. The learning rate
// rises and falls once more.
(import 'bilm_tiny.jsonnet') + (import '../lib/pretrained.libsonnet') {
  seed:: 13371,
}
