// The same task RNN without ELMo.
(import 'elmo.jsonnet') { bilm:: null }
