local words = import 'words.jsonnet';
words {
  dataset_reader+: {
    token_indexers+: { elmo: { type: 'elmo_characters' } },
  },
  model+: {
    text_field_embedder+: {
      token_embedders+: { elmo: { type: 'elmo', bilm: 'english-tiny' } },
    },
    encoder+: { input_size: 20 + 512 },
  },
}
