"""Patches without which AllenNLP 2.10.1 fails, or gives wrong results, on current libraries or with our components.

AllenNLP has no more releases, and the libraries that it uses have changed. The docstring of each repair says what a
user sees without it (symptom), why (cause), and when the repair does nothing (guard). Most repairs replace one function
of AllenNLP in place, so that configs, Python code and subclasses all get the repaired one. What works without them is
not changed. `replaced.py` lists everything that is replaced, also by `elmo`, `pretraining` and `commands`.

ELMo, training and the commands need `configs`, `models`, `training` and `workers`; only other tools of AllenNLP need
`others`. `docs/guides/allennlp-tools.md` lists which of them work with the models of this package, and what is not
repaired.
"""

from elmo_plugin.compat.before_allennlp import import_by_full_names, restore_removed_names

restore_removed_names()  # AllenNLP imports two of them

from allennlp.common import util  # noqa: E402

from elmo_plugin.compat import configs, models, others, training, workers  # noqa: E402, F401  (each repairs something)
from elmo_plugin.compat.patching import Function, replaces  # noqa: E402

import_by_full_names(util)
training.trust_numpy_scalars()

__all__ = ["Function", "replaces"]
