// Layer weights drawn once and never trained: the control for learned weights.
(import '../lib/task.libsonnet') { elmo+:: { mix: { type: 'frozen_random', seed: 1 } } }
