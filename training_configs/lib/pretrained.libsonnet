// Start from the biLM ELMO_BILM. It keeps its vocabulary and softmax if the files have them; otherwise the text's words get a
// new softmax. Add it to a config of pretraining.
{
  local start = std.extVar('ELMO_BILM'),
  bilm:: { pretrained: start },
  softmax:: null,
  vocabulary: { type: 'pretrained_bilm', pretrained: start, files: $.train, max_size: $.vocabulary_size },
}
