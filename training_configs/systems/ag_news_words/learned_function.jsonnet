// A learned function of the layers in place of λ.
(import 'scalar.jsonnet') { elmo:: { mix: 'learned_function' } }
