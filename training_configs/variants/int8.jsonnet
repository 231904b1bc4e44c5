// The biLM's weights in 8 bits: half the time for a sentence on a processor without AVX-512, a third of the memory.
(import '../lib/task.libsonnet') { elmo+:: { precision: 'int8' } }
