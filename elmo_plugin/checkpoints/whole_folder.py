"""Files that belong together, written so that either all of them are there or those that were before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from allennlp.common.checks import ConfigurationError


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into; its files are renamed into `target` at the end, if nothing was raised until then.

    Raises `ConfigurationError` naming `target` where it cannot be written.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=target) as partial:
            yield Path(partial)
            for file in Path(partial).iterdir():
                file.replace(target / file.name)
    except OSError as error:
        raise ConfigurationError(f"'{target}' cannot be written: {error}") from error
