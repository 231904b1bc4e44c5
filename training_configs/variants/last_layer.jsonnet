// The top layer alone (paper, Table 2).
(import '../lib/task.libsonnet') { elmo+:: { mix: 'last' } }
