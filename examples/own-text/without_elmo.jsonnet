local tagger = import 'tagger.jsonnet';
tagger {
  dataset_reader+: { token_indexers: { words: { type: 'single_id' } } },
  model+: { elmo: null, encoder+: { input_size: 20 } },
}
