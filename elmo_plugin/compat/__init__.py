"""Patches without which AllenNLP 2.10.1 fails, or gives wrong results, on current libraries or with our components.

AllenNLP has no more releases, and the libraries that it uses have changed. The docstring of each repair says what a
user sees without it (symptom), why (cause), and when the repair does nothing (guard). Most repairs replace one function
of AllenNLP in place, so that configs, Python code and subclasses all get the repaired one. What works without them is
not changed. `replaced.py` lists everything that is replaced, also by `elmo`, `pretraining` and `commands`.

Not repaired: `push-to-hf` was written for an older huggingface_hub; `find-lr` needs matplotlib, which AllenNLP does not
declare; `TensorCache` cannot read its own files with torch 2.6 or later; `hf://` paths need cached-path 1.7 or later.
`docs/guides/allennlp-tools.md` lists which of AllenNLP's tools work with the models of this package.
"""

from elmo_plugin.compat.removed_names import restore_removed_names

restore_removed_names()  # AllenNLP imports two of them

from elmo_plugin.compat.configs import (  # noqa: E402
    check_keys_of_components,
    include_without_extras,
    repair_pretrained_modules,
)
from elmo_plugin.compat.initializers import (  # noqa: E402
    keep_weights_of_bilms,
    warn_of_regexes_without_parameters,
)
from elmo_plugin.compat.interpret import repair_hotflip, repair_influence, repair_saliency  # noqa: E402
from elmo_plugin.compat.libraries import (  # noqa: E402
    check_width_of_rnns,
    import_rouge,
    repair_archives,
    repair_confidence_checks,
    repair_cut_off_checkpoints,
    repair_half_precision,
    repair_moving_average,
    repair_multitask,
    repair_pretrained_transformers,
    repair_recovery_after_the_last_epoch,
    repair_reduce_on_plateau,
    repair_token_ids_of_elmo,
    repair_wandb_callback,
    say_where_elmo_embedder_is,
    trust_numpy_scalars,
)
from elmo_plugin.compat.patching import Function, replace_name, replace_once  # noqa: E402
from elmo_plugin.compat.replaced import REPLACED  # noqa: E402
from elmo_plugin.compat.validation import check_validation  # noqa: E402
from elmo_plugin.compat.workers import repair_workers  # noqa: E402

__all__ = ["REPLACED", "Function", "apply_repairs", "replace_name", "replace_once"]


def apply_repairs() -> None:
    """Apply every repair of this package. Calling it again changes nothing."""
    trust_numpy_scalars()
    repair_reduce_on_plateau()
    repair_workers()
    repair_wandb_callback()
    repair_confidence_checks()
    repair_pretrained_transformers()
    import_rouge()
    say_where_elmo_embedder_is()
    repair_token_ids_of_elmo()
    repair_archives()
    repair_moving_average()
    check_width_of_rnns()
    repair_half_precision()
    repair_multitask()
    repair_recovery_after_the_last_epoch()
    repair_cut_off_checkpoints()
    check_keys_of_components()
    repair_pretrained_modules()
    check_validation()
    keep_weights_of_bilms()
    warn_of_regexes_without_parameters()
    include_without_extras()
    repair_saliency()
    repair_hotflip()
    repair_influence()
