// Any task with a biLSTM over the frozen vectors of a file and nothing else. VECTORS: the folder of a tool's files.
(import '../../training_configs/lib/task.libsonnet') {
  local file = std.extVar('VECTORS') + '/' + std.extVar('TASK') + '.h5',
  bilm:: null,
  x:: {
    tokens: {
      indexer: { type: 'elmo_characters' },
      embedder: { type: 'vectors_of_file', file: file },
      dim: std.parseInt(std.extVar('VECTORS_DIM')),
    },
  },
}
