// The control: an untrained biLM of the same sizes, with other random weights for each seed.
(import '../lib/task.libsonnet') { bilm:: (import '../lib/bilms.libsonnet').random { keys+: { seed: $.seed } } }
