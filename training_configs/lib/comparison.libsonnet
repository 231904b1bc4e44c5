// Pretraining of the sizes in which optimizers and contextualizers are compared, 384/256.
local bilms = import 'bilms.libsonnet';
(import 'pretrain.libsonnet') {
  options:: bilms.ag_news_characters.options { lstm: bilms.english_tiny.options.lstm { dim: 384 } },
  vocabulary_size:: 32000,
  softmax:: { type: 'adaptive', cutoffs: [2000, 10000], div_value: 3 },
  dropout:: 0,
  precision:: 'auto',
}
