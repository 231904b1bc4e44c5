local tagger = import 'tagger.jsonnet';
tagger {
  dataset_reader+: { token_indexers: { words: { type: 'single_id' }, characters: { type: 'characters', min_padding_length: 3 } } },
  model+: { elmo: null, encoder+: { input_size: 20 + 50 } },
}
