// What the LSTMs start a sentence from, zero, seen at its clearest: ELMo alone, no x.
(import '../ud_pos.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').from_environment,
  x:: {},
  elmo+:: { initial_state: 'zero' },
}
