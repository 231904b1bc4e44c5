// ELMo at the output alone (paper, Table 3).
(import '../lib/task.libsonnet') { elmo_at:: ['output'] }
