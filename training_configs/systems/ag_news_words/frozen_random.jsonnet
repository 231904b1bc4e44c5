// Layer weights drawn once, from the run's seed, and never trained.
(import 'scalar.jsonnet') { elmo:: { mix: { type: 'frozen_random', seed: $.seed } } }
