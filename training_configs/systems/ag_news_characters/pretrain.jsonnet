// As in ../ag_news_words, but the biLM reads characters.
(import '../ag_news_words/pretrain.jsonnet') {
  options:: (import '../../lib/bilms.libsonnet').ag_news_characters.options,
  model+: { share_embedding_softmax: false },
}
