// Fine-tune the biLM ELMO_BILM on the text of a domain (Peters et al. 2018, supplement: perplexity falls, on most texts by
// half or more). It keeps its vocabulary and softmax if the files have them; otherwise the text's words get a new softmax.
(import '../lib/pretrain.libsonnet') {
  local start = std.extVar('ELMO_BILM'),
  bilm:: { pretrained: start },
  softmax:: null,
  vocabulary: { type: 'pretrained_bilm', pretrained: start, files: $.train, max_size: $.vocabulary_size },
  learning_rate:: 0.001,
  warmup_steps:: 50,
  epochs:: 3,
}
