// Layer weights drawn once and never learned: the control of a learned mix.
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'frozen_random', seed: 1 } } }
