// The initial state of the LSTMs: zero. ELMo alone, without x, shows its effect most clearly.
(import '../ud_pos.jsonnet') {
  bilm:: (import '../../lib/bilms.libsonnet').from_environment,
  x:: {},
  elmo+:: { initial_state: 'zero' },
}
