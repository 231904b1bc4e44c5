// `small_text` that reads several languages: LM_SHARED is a pattern for the texts of all of them, and LM_HELDOUT is of one.
(import '../training_configs/pretrain/small_text.jsonnet') + { train:: std.extVar('LM_SHARED') }
