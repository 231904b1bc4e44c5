"""Hatchling's hook for the metadata: the project's addresses, all made from the one in pyproject.toml."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!\[[^]]*\]|\])\((?!\w+:|#)([^)]+)\)")
"""A link or a picture of Markdown that is relative: what stands before the parentheses, and the path in them."""


class Addresses(MetadataHookInterface):
    """Fills `project.urls`, and makes the links of the README absolute, because PyPI shows it by itself."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata. The links lead to the files of this version."""
        repository, tag = self.config["repository"], f"v{metadata['version']}"
        metadata["urls"] = {
            "Source": repository,
            "Documentation": f"{repository}/blob/{tag}/docs/index.md",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
            "Security": f"{repository}/security/policy",
        }

        def absolute(link: re.Match[str]) -> str:
            kind = "raw" if link[1].startswith("!") else "blob"
            return f"{link[1]}({repository}/{kind}/{tag}/{link[2]})"

        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": RELATIVE.sub(absolute, readme)}
