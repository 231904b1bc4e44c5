// `small_text` that starts from another biLM, ELMO_BILM, with any size and of any language: all are read as bytes. The
// vocabulary and the softmax are those of the text.
(import 'small_text.jsonnet') + {
  bilm:: { pretrained: std.extVar('ELMO_BILM') },
}
