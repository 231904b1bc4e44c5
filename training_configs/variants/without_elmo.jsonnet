// The baseline: the same task RNN without ELMo (paper, Tables 1 and 2).
(import '../lib/task.libsonnet') { bilm:: null }
