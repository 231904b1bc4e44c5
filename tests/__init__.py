"""A package, so that `tests` is this folder and not that of flair, which installs its own under this name.

`elmoformanylangs`, an oracle, marks methods with `overrides`, of which no release serves: those before 4 cannot be
imported on Python 3.13, the others reject the marked methods. A decorator that does nothing stands in for it.
"""

import sys
from types import ModuleType

_stand_in = ModuleType("overrides")
_stand_in.overrides = lambda method: method  # type: ignore[attr-defined]
sys.modules["overrides"] = _stand_in
