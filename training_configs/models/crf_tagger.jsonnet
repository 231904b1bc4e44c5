// ELMo at both ends of the RNN of `crf_tagger` (Lample et al. 2016): tag spans, here people and places.
(import '../lib/enhanced.libsonnet') {
  data:: (import '../lib/data.libsonnet').demo_tags,
  metric:: '+f1-measure-overall',
  model+: {
    type: 'crf_tagger',
    label_encoding: $.data.label_encoding,
    encoder: $.enhanced($.lstm($.input_size)),
  },
}
