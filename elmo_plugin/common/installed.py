"""The pages and configs that come with the package."""

from pathlib import Path


def installed(name: str) -> Path:
    """Return the path of a page or config, such as `docs/extend.md`: in the package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / name if (package / name).exists() else package.parent / name
