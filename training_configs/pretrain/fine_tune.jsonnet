// Fine-tune the biLM ELMO_BILM on the text of a domain (Peters et al. 2018, supplement: perplexity falls, on most texts by
// half or more).
(import '../lib/pretrain.libsonnet') + (import '../lib/pretrained.libsonnet') {
  learning_rate:: 0.001,
  warmup_steps:: 0.25,
  epochs:: 3,
}
