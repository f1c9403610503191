"""The documentation as a site: python scripts/site.py [FOLDER]; `make docs`. Any warning is an error.

In: the repository's pages, which link to each other and to sources by relative paths. Out: a folder of HTML. The pages are copied as
they lie, with what they link to, so that their links hold; a page of reference is written from the docstrings.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import shadergrad as sg
from shadergrad import config

ROOT = Path(__file__).parents[1]
REFERENCE = "docs/reference.md"
MODULES = (
    "",
    "nn",
    "nn.functional",
    "optim",
    "optim.lr_scheduler",
    "data",
    "train",
    "recipes",
    "logic",
    "logic.circuit",
    "extend",
)
NAVIGATION: dict[str, str | dict[str, str]] = {
    "Home": "README.md",
    "Guides": {
        "From PyTorch": "docs/pytorch.md",
        "Examples": "examples/README.md",
        "Training": "docs/training.md",
        "Data and recipes": "docs/data.md",
        "Compiling": "docs/compile.md",
        "Logic": "docs/logic.md",
        "Coevolution": "docs/coevolution.md",
        "GPT-2": "docs/gpt.md",
        "In the browser": "docs/browser.md",
        "Backward engines": "docs/backward.md",
        "Differences from PyTorch": "docs/differences.md",
        "Kernels of your own": "docs/extend.md",
        "Environment variables": "docs/variables.md",
    },
    "Reference": REFERENCE,
    "Inside": {
        "Architecture": "docs/architecture.md",
        "Conformance": "docs/conformance.md",
        "Conformance of the browser": "docs/conformance-browser.md",
        "Rejected": "docs/rejected.md",
        "Glossary": "docs/glossary.md",
        "Contributing": "CONTRIBUTING.md",
    },
    "Results": "benchmarks/RESULTS.md",
    "Changes": "CHANGELOG.md",
    "Roadmap": "docs/roadmap.md",
}


def main(folder: Path) -> None:
    """Write the site. Raises CalledProcessError where a page has a warning."""
    with tempfile.TemporaryDirectory() as name:
        pages = Path(name) / "pages"
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for path in map(Path, listed.splitlines()):
            if path.suffix in (".md", ".png", ".gif", ".py", ".wgsl") or path.name in ("LICENSE", "Makefile"):
                (pages / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, pages / path)
        (pages / REFERENCE).write_text(reference())
        (pages / "docs/variables.md").write_text(variables())
        configuration = Path(name) / "mkdocs.yml"
        configuration.write_text(settings(pages, folder.resolve()))
        subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration], check=True)


def settings(pages: Path, folder: Path) -> str:
    """The configuration of mkdocs; JSON is YAML."""
    nav = [
        {title: [{k: v} for k, v in where.items()] if isinstance(where, dict) else where}
        for title, where in NAVIGATION.items()
    ]
    return json.dumps(
        {
            "site_name": "shadergrad",
            "docs_dir": str(pages),
            "site_dir": str(folder),
            "use_directory_urls": False,
            "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "content.code.copy"]},
            "markdown_extensions": ["tables", "fenced_code", "toc", "pymdownx.highlight", "pymdownx.superfences"],
            "plugins": ["search"],
            "validation": {"nav": {"omitted_files": "ignore"}},
            "nav": nav,
        }
    )


def reference() -> str:
    """All public names with their docstrings."""
    lines = ["# Reference", ""]
    for module in MODULES:
        found: Any = sg
        for part in filter(None, module.split(".")):
            found = getattr(found, part)
        lines += [f"## {'sg.' + module if module else 'sg'}", ""]
        for name in getattr(found, "__all__", ()):
            value = getattr(found, name)
            if inspect.ismodule(value) or not inspect.getdoc(value):
                continue
            lines += [f"### {name}", "", "```text", _signature(name, value), "", str(inspect.getdoc(value)), "```", ""]
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", f"{name}{inspect.signature(value)}")
    except (TypeError, ValueError):
        return name


def variables() -> str:
    """The table of environment variables, as config.py reads them."""
    return f"# Environment variables\n\n{inspect.getdoc(config)}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site"))
