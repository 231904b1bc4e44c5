// Without ELMo, the same task RNN.
(import 'elmo.jsonnet') { bilm:: null }
