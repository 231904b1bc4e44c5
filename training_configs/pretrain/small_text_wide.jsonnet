// `small_text` with the sizes of english-tiny, twice as wide: what the width of `small_text_from` does without its start.
(import 'small_text.jsonnet') + {
  options:: (import 'bilm_tiny.jsonnet').options,
}
