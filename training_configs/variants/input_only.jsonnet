// ELMo at the input alone (paper, Table 3).
(import '../lib/task.libsonnet') { elmo_at:: ['input'] }
