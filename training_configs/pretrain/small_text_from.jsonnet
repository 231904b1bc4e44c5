// `small_text` that starts from ELMO_BILM, a biLM that reads bytes, of any size and any language. The vocabulary and the softmax
// are those of the text.
(import 'small_text.jsonnet') + {
  bilm:: { pretrained: std.extVar('ELMO_BILM') },
}
