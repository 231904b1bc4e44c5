// A biLSTM tagger: words and characters beside ELMo; a CRF if the tags are spans, else a softmax.
local text = import 'text.libsonnet';

(import 'experiment.libsonnet') {
  x:: { tokens: text.words(100), characters: text.characters(50) },
  metric:: if $.data.label_encoding == null then '+accuracy' else '+f1-measure-overall',
  model+: {
    type: 'elmo_tagger',
    crf: $.data.label_encoding != null,
    label_encoding: $.data.label_encoding,
  },
}
