// Train the biLM of bilm_tiny.jsonnet further on the same text in another order. ELMO_BILM is its archive. The learning rate
// rises and falls once more.
(import 'bilm_tiny.jsonnet') {
  local start = std.extVar('ELMO_BILM'),
  bilm:: { pretrained: start },
  softmax:: null,  // the archive's
  vocabulary: { type: 'pretrained_bilm', pretrained: start, files: $.train, max_size: $.vocabulary_size },
  seed:: 13371,
  batches_per_epoch:: 1150,
}
