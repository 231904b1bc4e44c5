// 256/128, 1.5 M weights: for a text of 0.1 to 1 M words, on a CPU. A word that occurs once is `<UNK>` to the softmax, so that the
// biLM learns to expect words that it has not seen. Dropout, and the pass with the best held-out perplexity of ten, keep it from
// learning the text by heart.
(import 'bilm_tiny.jsonnet') + {
  options:: super.options {
    lstm+: { dim: 256, projection_dim: 128 },
    char_cnn+: { filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 128]] },
  },
  vocabulary+: { min_count: 2 },
  dropout:: 0.2,
  precision:: 'float32',  // faster than bfloat16 at these sizes: 0.50 and 0.68 s a batch (Xeon with AVX-512 and bfloat16)
  batches:: self.sentences(1280),
  epochs:: 10,
}
