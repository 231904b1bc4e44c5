// A million tokens with Muon for the matrices, warm-up and a cosine schedule; text and order are those of adagrad.jsonnet.
(import 'adamw.jsonnet') {
  optimizer:: self.muon,
}
