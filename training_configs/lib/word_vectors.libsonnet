// Frozen word vectors beside what a task reads: WORD_VECTORS, a word and its WORD_VECTORS_DIM numbers per line. Words of the data
// that the file lacks get random vectors.
{
  local dim = std.parseInt(std.extVar('WORD_VECTORS_DIM')),
  x+:: {
    word_vectors: {
      indexer: { type: 'single_id', namespace: 'word_vectors' },
      embedder: {
        type: 'embedding',
        embedding_dim: dim,
        pretrained_file: std.extVar('WORD_VECTORS'),
        vocab_namespace: 'word_vectors',
        trainable: false,
      },
      dim: dim,
    },
  },
}
