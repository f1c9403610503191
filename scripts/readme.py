"""The README as a package index shows it. In: README.md, and [project.urls] Source of pyproject.toml. Out: text of the metadata.

An index has no files beside the text, so a relative link leads nowhere there. Where the project has an address, links become
absolute, those of pictures to the files themselves. Where it has none, what they say stays and the links go, pictures with them.
The build calls this (tool.hatch.metadata.hooks.custom); README.md itself stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface  # pyright: ignore[reportMissingImports]
except ImportError:  # the tests need no builder
    MetadataHookInterface: Any = object

BRANCH = "HEAD"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def shown(text: str, source: str | None) -> str:
    """The text with absolute links only. source: the address of the repository, such as https://host/owner/name."""

    def absolute(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        if source:
            return f"{picture}[{label}]({source.rstrip('/')}/{'raw' if picture else 'blob'}/{BRANCH}/{target})"
        return "" if picture else label

    text = LINK.sub(absolute, text)
    # without its pictures, a table of them is none
    return text if source else re.sub(r"^\|[ |]*\|\n\|[-|]+\|\n\|.*\|\n\n?", "", text, flags=re.M)


class ReadmeHook(MetadataHookInterface):
    """Gives the build its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": shown(text, source)}
