// The control: a biLM of the same sizes that has learned nothing, drawn anew for each seed.
(import '../lib/task.libsonnet') { bilm:: (import '../lib/bilms.libsonnet').random { keys+: { seed: $.seed } } }
