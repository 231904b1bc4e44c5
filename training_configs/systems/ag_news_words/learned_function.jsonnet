// A learned function of the layers instead of layer weights.
(import 'scalar.jsonnet') { elmo:: { mix: 'learned_function' } }
