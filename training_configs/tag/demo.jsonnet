// The demo: frozen ELMo at the input and the output of a biLSTM-CRF; tag people and places in made-up sentences.
(import '../lib/tagger.libsonnet') {
  data:: (import '../lib/data.libsonnet').demo_tags,
  x:: { tokens: (import '../lib/text.libsonnet').words(20) },
  hidden_size:: 50,
  batch_size:: 8,
  epochs:: 12,
  patience:: 12,
  learning_rate:: 0.005,
}
