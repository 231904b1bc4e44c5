// The demo: classify reviews, written for this project, as glad or sour.
(import '../lib/classifier.libsonnet') {
  data:: (import '../lib/data.libsonnet').demo_reviews,
  hidden_size:: 50,
  batch_size:: 8,
  epochs:: 10,
  patience:: 10,
  learning_rate:: 0.005,
}
