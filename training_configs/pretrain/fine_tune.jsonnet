// Go on from any biLM, ELMO_BILM, on the text of a domain (Peters et al. 2018, supplement: perplexity falls, on most texts
// by half or more).
// Its own vocabulary and softmax are taken up where the files hold them; else words are counted, and a softmax is begun.
(import '../lib/pretrain.libsonnet') {
  local start = std.extVar('ELMO_BILM'),
  bilm:: { pretrained: start },
  softmax:: null,
  vocabulary: { type: 'pretrained_bilm', pretrained: start, files: $.train, max_size: $.vocabulary_size },
  learning_rate:: 0.001,
  warmup_steps:: 50,
  epochs:: 3,
}
