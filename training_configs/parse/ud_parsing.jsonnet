// Dependencies of UD English-EWT. UD_EWT: a folder with train.conllu and dev.conllu.
(import '../models/biaffine_parser.jsonnet') {
  data:: (import '../lib/data.libsonnet').ud_dependencies,
  grid+:: { train: 2000, dev: 2001, epochs: 15, patience: 3 },
}
