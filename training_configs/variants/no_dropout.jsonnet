// No dropout on the ELMo vectors (paper, §3.3); the task RNN keeps its own.
(import '../lib/task.libsonnet') { elmo+:: { dropout: 0 } }
