// x: the token representations beside ELMo, and the indexers of both.
{
  // Word vectors, and a character CNN (Chiu & Nichols 2016), both trained with the task.
  words(dim):: {
    indexer: { type: 'single_id', lowercase_tokens: true },
    embedder: { type: 'embedding', embedding_dim: dim },
    dim: dim,
  },
  characters(filters, width=3, dim=16):: {
    indexer: { type: 'characters', min_padding_length: width },
    embedder: {
      type: 'character_encoding',
      embedding: { embedding_dim: dim, vocab_namespace: 'token_characters' },
      encoder: { type: 'cnn', embedding_dim: dim, num_filters: filters, ngram_filter_sizes: [width] },
      dropout: 0.3,
    },
    dim: filters,
  },

  // Convert { key: part } to the keys of AllenNLP's readers and models.
  indexers(x, bilm):: { [key]: x[key].indexer for key in std.objectFields(x) }
                      + (if bilm == null then {} else { elmo: { type: 'elmo_characters' } }),
  embedder(x):: if x == {} then null else { token_embedders: { [key]: x[key].embedder for key in std.objectFields(x) } },
  dim(x):: std.foldl(function(total, key) total + x[key].dim, std.objectFields(x), 0),
}
