// Extends any task: a biLSTM over frozen vectors of files and nothing else. VECTORS: { tool: { file, dim } }.
{
  bilm:: null,
  x:: std.mapWithKey(
    function(tool, vectors) {
      indexer: { type: 'elmo_characters' },
      embedder: { type: 'vectors_of_file', file: vectors.file },
      dim: vectors.dim,
    },
    std.parseJson(std.extVar('VECTORS')),
  ),
}
