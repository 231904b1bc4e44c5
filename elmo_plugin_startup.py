"""What runs before AllenNLP and before `elmo_plugin`, and imports neither.

`elmo_plugin.pth`, installed beside this file, imports it whenever Python starts, in about a millisecond. It then
waits until AllenNLP is imported. It gives transformers and huggingface-hub back the names that AllenNLP 2.10.1 imports
and that their current releases no longer have, and lets AllenNLP import the modules of a package by their full names.
So `import allennlp` may come before `import elmo_plugin`, and the program `allennlp` works. Without AllenNLP nothing
happens; `ELMO_PLUGIN_STARTUP=off` switches it off.
"""

import os
import sys

WAITED_FOR = "allennlp.common.util"
"""The module that is repaired. AllenNLP imports it before all that needs a repair."""


class BeforeAllenNlp:
    """A finder of modules that finds `WAITED_FOR` as the others do, and lets it be repaired when it is run."""

    is_asking = False
    """Whether it asks the others, of which a tool may have wrapped this one, too."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]  # `typing` would take longer
        """Return the spec of `WAITED_FOR`, and `None` for every other module."""
        if name != WAITED_FOR or self.is_asking:
            return None
        self.is_asking = True
        try:
            spec = next(filter(None, (each.find_spec(name, path, target) for each in sys.meta_path)), None)
        finally:
            self.is_asking = False
        run = getattr(spec and spec.loader, "exec_module", None)
        if run:

            def exec_module(module):  # type: ignore[no-untyped-def]
                repair = restore_removed_names()
                run(module)
                if repair:
                    repair(module)

            spec.loader.exec_module = exec_module
        return spec


def restore_removed_names():  # type: ignore[no-untyped-def]
    """Restore the names, and return the function that repairs `WAITED_FOR`, of `elmo_plugin/compat/before_allennlp.py`.

    A failure is one warning; AllenNLP then fails as without this file.
    """
    import importlib.util

    try:
        name = "elmo_plugin.compat.before_allennlp"
        # By its path: an import would run `elmo_plugin/__init__.py`, which imports AllenNLP.
        (folder,) = importlib.util.find_spec("elmo_plugin").submodule_search_locations  # type: ignore
        spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "compat", "before_allennlp.py"))
        module = importlib.util.module_from_spec(spec)  # type: ignore
        spec.loader.exec_module(module)  # type: ignore
        module.restore_removed_names()
        sys.modules[name] = module
        return module.import_by_full_names
    except Exception as error:
        import warnings

        warnings.warn(f"elmo_plugin_startup: {type(error).__name__}: {error}", stacklevel=1)


if os.environ.get("ELMO_PLUGIN_STARTUP") != "off" and WAITED_FOR not in sys.modules:
    sys.meta_path.insert(0, BeforeAllenNlp())


def run() -> None:
    """Run the program `elmo-plugin`. It answers help and mistakes in options before it imports torch and AllenNLP."""
    import gc
    import importlib.util

    gc.disable()  # while modules are imported, which leave little to collect; see `elmo_plugin.__main__.run`

    # The package without its `__init__.py`, so that its commands can be imported first.
    spec = importlib.util.find_spec("elmo_plugin")
    sys.modules["elmo_plugin"] = package = importlib.util.module_from_spec(spec)  # type: ignore
    try:
        from elmo_plugin.commands.command_line import answer

        answer("elmo-plugin", sys.argv[1:])
        spec.loader.exec_module(package)  # type: ignore
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        sys.exit(f"elmo-plugin: {error}")

    try:
        from elmo_plugin.__main__ import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
