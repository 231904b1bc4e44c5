"""The old name of `elmo_plugin.integrations`, for imports and for pickled scikit-learn pipelines that name it."""

import sys
import warnings

from elmo_plugin import integrations
from elmo_plugin.integrations import ElmoComponent, ElmoVectorizer

__all__ = ["ElmoComponent", "ElmoVectorizer"]
__path__: list[str] = []  # a package, so that pickles find the submodule
sys.modules[f"{__name__}.scikit_learn"] = sys.modules[integrations.ElmoVectorizer.__module__]
warnings.warn(f"'{__name__}' is now '{integrations.__name__}'", DeprecationWarning, stacklevel=2)
