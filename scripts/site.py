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
REFERENCE = "docs/reference"
MODULES = (  # of each a page
    "sg",
    "sg.Tensor",
    "sg.nn",
    "sg.nn.functional",
    "sg.nn.init",
    "sg.nn.utils",
    "sg.nn.utils.rnn",
    "sg.nn.utils.parametrize",
    "sg.nn.utils.parametrizations",
    "sg.nn.parallel",
    "sg.optim",
    "sg.optim.lr_scheduler",
    "sg.autograd",
    "sg.autograd.functional",
    "sg.func",
    "sg.linalg",
    "sg.fft",
    "sg.special",
    "sg.signal.windows",
    "sg.random",
    "sg.distributions",
    "sg.data",
    "sg.train",
    "sg.recipes",
    "sg.interop",
    "sg.interop.torch",
    "sg.web",
    "sg.logic",
    "sg.logic.circuit",
    "sg.models.coevolution",
    "sg.models.gpt",
    "sg.devices",
    "sg.accelerator",
    "sg.profiling",
    "sg.extend",
    "sg.testing",
    "sg.utils",
    "sg.utils.checkpoint",
    "sg.utils.dlpack",
    "sg.utils.tensorboard",
    "sg.amp",
    "sg.compiler",
    "sg.cuda",
    "sg.distributed",
    "sg.jit",
)
NAVIGATION: dict[str, str | dict[str, str]] = {
    "Home": "README.md",
    "Tutorial": "docs/tutorial.md",
    "Notebooks": {
        "First steps": "docs/notebooks/first-steps.ipynb",
        "An automaton": "docs/notebooks/automaton.ipynb",
        "From PyTorch": "docs/notebooks/from-pytorch.ipynb",
    },
    "Guides": {
        "Examples": "examples/README.md",
        "Training": "docs/training.md",
        "Data and recipes": "docs/data.md",
        "Compiling": "docs/compile.md",
        "Devices": "docs/devices.md",
        "Profiling": "docs/profiling.md",
        "Logic": "docs/logic.md",
        "Coevolution": "docs/coevolution.md",
        "GPT-2": "docs/gpt.md",
        "In the browser": "docs/browser.md",
        "Backward engines": "docs/backward.md",
        "Coming from PyTorch": "docs/from-pytorch.md",
        "Kernels of your own": "docs/extend.md",
        "Environment variables": "docs/variables.md",
    },
    "Gallery": "docs/gallery.md",
    "Reference": {name: f"{REFERENCE}/{name}.md" for name in MODULES},
    "Inside": {
        "Architecture": "docs/architecture.md",
        "Conformance": "docs/conformance.md",
        "Conformance of the browser": "docs/conformance-browser.md",
        "Glossary": "docs/glossary.md",
        "Contributing": "CONTRIBUTING.md",
    },
    "Results": "benchmarks/RESULTS.md",
    "Experiments": {
        "Overview": "docs/experiments/README.md",
        "Matrix multiplication": "docs/experiments/matrix-multiplication.md",
        "Small matrices": "docs/experiments/small-matrices.md",
        "Machine code": "docs/experiments/machine-code.md",
        "Attention": "docs/experiments/attention.md",
        "Convolution": "docs/experiments/convolution.md",
        "Reductions and sorting": "docs/experiments/reductions-and-sorting.md",
        "Training steps": "docs/experiments/training-steps.md",
        "Host time": "docs/experiments/host-time.md",
        "Memory": "docs/experiments/memory.md",
        "Compile time": "docs/experiments/compile-time.md",
        "Software adapters": "docs/experiments/software-adapters.md",
        "The cpu device": "docs/experiments/cpu-device.md",
        "Browser": "docs/experiments/browser.md",
        "Logic": "docs/experiments/logic.md",
        "Trainings": "docs/experiments/trainings.md",
    },
    "Changes": "CHANGELOG.md",
    "Roadmap": "docs/roadmap.md",
}


def main(folder: Path) -> None:
    """Write the site. Raises CalledProcessError where a page has a warning."""
    with tempfile.TemporaryDirectory() as temporary:
        pages = Path(temporary) / "pages"
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for path in map(Path, listed.splitlines()):
            if path.suffix in (".md", ".ipynb", ".png", ".gif", ".svg", ".py", ".wgsl") or path.name in (
                "LICENSE",
                "Makefile",
            ):
                (pages / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, pages / path)
        (pages / REFERENCE).mkdir()
        for name in MODULES:
            (pages / REFERENCE / f"{name}.md").write_text(reference(name))
        (pages / "docs/variables.md").write_text(variables())
        configuration = Path(temporary) / "mkdocs.yml"
        configuration.write_text(settings(pages, folder.resolve()))
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration], cwd=temporary, check=True
        )


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
            "plugins": [
                "search",
                {"mkdocs-jupyter": {"include": ["*.ipynb"], "execute": False, "include_requirejs": False}},
            ],
            "validation": {"nav": {"omitted_files": "ignore"}},
            "nav": nav,
        }
    )


def reference(module: str) -> str:
    """A page with the public names of a module, or a class's methods, and their docstrings."""
    found: Any = sg
    for part in module.split(".")[1:]:
        found = getattr(found, part)
    if inspect.isclass(found):
        names = [name for name in dir(found) if not name.startswith("_")]
    else:
        names = list(getattr(found, "__all__", ())) or [
            name for name, value in vars(found).items() if getattr(value, "__module__", None) == found.__name__
        ]
    lines = [f"# {module}", "", (inspect.getdoc(found) or "").partition("\n")[0], ""]
    for name in sorted(names, key=str.lower):
        value = getattr(found, name)
        told = callable(value) or inspect.isdatadescriptor(value)  # of a constant, the docstring is its type's
        if told and not name.startswith("_") and not inspect.ismodule(value) and inspect.getdoc(value):
            lines += _entry(name, value, "##")
            if inspect.isclass(value) and not inspect.isclass(found):
                lines += _methods(name, value)
    return "\n".join(lines)


def _entry(name: str, value: Any, level: str) -> list[str]:
    """A name, how it is called, and its docstring: the text, and its examples apart."""
    told, _, examples = str(inspect.getdoc(value)).partition("\n>>> ")
    lines = [f"{level} {name}", "", "```python", _signature(name, value), "```", "", "```text", told.strip(), "```", ""]
    return lines + (["```pycon", f">>> {examples}", "```", ""] if examples else [])


def _methods(name: str, value: type) -> list[str]:
    """Those that a class defines itself."""
    own = [n for n, member in vars(value).items() if not n.startswith("_") and inspect.isfunction(member)]
    return [
        line
        for n in own
        if inspect.getdoc(getattr(value, n))
        for line in _entry(f"{name}.{n}", getattr(value, n), "###")
    ]


def _signature(name: str, value: Any) -> str:
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}{inspect.signature(value)}").replace("shadergrad.", "sg.")
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations as they are written
    except (TypeError, ValueError):
        return name


def variables() -> str:
    """The table of environment variables, as config.py reads them."""
    return f"# Environment variables\n\n{inspect.getdoc(config)}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site"))
