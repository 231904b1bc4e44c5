// Corpora: a reader and two paths each. An environment variable names each folder; jsonnet reports a missing one.
local columns(folder, suffix, reader) = {
  reader: { type: 'column_tags' } + reader,
  train: folder + '/train.' + suffix,
  dev: folder + '/dev.' + suffix,
};
local texts(folder, files, reader) = {
  reader: { type: 'text_classification_csv' } + reader,
  train: folder + '/' + files[0],
  dev: folder + '/' + files[1],
};

{
  // Tagging. `label_encoding` is null if tags are not spans.
  ud_pos:: columns(std.extVar('UD_EWT'), 'conllu', { conllu: true, token_column: 1, tag_column: 3 })
           { label_encoding: null },
  treebank_pos:: columns(std.extVar('TREEBANK'), 'conllu', { conllu: true, token_column: 1, tag_column: 3 })
                 { label_encoding: null },
  treebank_features:: columns(std.extVar('TREEBANK'), 'conllu', { conllu: true, token_column: 1, tag_column: 5 })
                      { label_encoding: null },
  conll2000:: columns(std.extVar('CONLL2000'), 'txt', { tag_column: 2, coding_scheme: 'BIO' })
              { label_encoding: 'BIO' },
  conll2003:: columns(std.extVar('CONLL2003'), 'txt',
                      { tag_column: 3, coding_scheme: 'IOB1', convert_to_coding_scheme: 'BIOUL' })
              { label_encoding: 'BIOUL' },
  wnut17:: columns(std.extVar('WNUT17'), 'conll',
                   { tag_column: 1, delimiter: '\t', coding_scheme: 'BIO', convert_to_coding_scheme: 'BIOUL' })
           { label_encoding: 'BIOUL' },
  litbank_events:: columns(std.extVar('LITBANK'), 'tsv', { tag_column: 1, delimiter: '\t' })
                   { label_encoding: null },
  demo_tags:: columns('training_configs/tag/demo', 'conll', { tag_column: 1, coding_scheme: 'BIO' })
              { label_encoding: 'BIO' },

  // Dependencies: heads and relations.
  ud_dependencies:: {
    reader: { type: 'universal_dependencies' },
    train: std.extVar('UD_EWT') + '/train.conllu',
    dev: std.extVar('UD_EWT') + '/dev.conllu',
  },

  // Classification.
  ag_news:: texts(std.extVar('AG_NEWS'), ['train.csv', 'dev.csv'], {}),
  imdb:: texts(std.extVar('IMDB'), ['train.jsonl', 'dev.jsonl'], {
    type: 'text_classification_json',
    tokenizer: { type: 'spacy_blank' },
  }),
  sst5:: texts(std.extVar('SST'), ['stsa.fine.train', 'stsa.fine.dev'], {
    delimiter: ' ',
    quote_char: null,
    max_splits: 1,
    tokenizer: 'just_spaces',
  }),
  demo_reviews:: texts('training_configs/classify/demo', ['train.csv', 'dev.csv'], {}),
}
