// λ drawn once, from the run's seed, and never learned.
(import 'scalar.jsonnet') { elmo:: { mix: { type: 'frozen_random', seed: $.seed } } }
