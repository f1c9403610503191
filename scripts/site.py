"""The documentation as a site: python scripts/site.py [FOLDER]; `make docs`. Any warning is an error.

In: the repository's pages, which link to each other and to sources by relative paths. Out: a folder of HTML. The pages are copied as
they lie, with the files they link to, so that their links hold. The pages of reference are written from the docstrings.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import defaultdict
from functools import cache
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
    "sg.nn.utils.prune",
    "sg.nn.utils.parametrizations",
    "sg.nn.attention",
    "sg.nn.attention.flex_attention",
    "sg.nn.modules.module",
    "sg.nn.modules.utils",
    "sg.nn.parallel",
    "sg.optim",
    "sg.optim.lr_scheduler",
    "sg.optim.swa_utils",
    "sg.quantization",
    "sg.autograd",
    "sg.autograd.functional",
    "sg.autograd.graph",
    "sg.func",
    "sg.linalg",
    "sg.fft",
    "sg.special",
    "sg.signal.windows",
    "sg.random",
    "sg.distributions",
    "sg.distributions.constraints",
    "sg.distributions.constraint_registry",
    "sg.distributions.transforms",
    "sg.distributions.utils",
    "sg.data",
    "sg.data.transforms",
    "sg.train",
    "sg.recipes",
    "sg.interop",
    "sg.interop.torch",
    "sg.web",
    "sg.onnx",
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
    "sg.utils.data",
    "sg.utils.dlpack",
    "sg.utils.tensorboard",
    "sg.amp",
    "sg.compiler",
    "sg.cuda",
    "sg.cuda.amp",
    "sg.distributed",
    "sg.jit",
)
Navigation = dict[str, "str | Navigation"]


def _titled(folder: str) -> Navigation:
    """The pages of a folder by their first lines, without the mark of a heading; not its overview."""
    paths = [path for path in sorted((ROOT / folder).glob("*.md")) if path.name != "README.md"]
    return {path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "): f"{folder}/{path.name}" for path in paths}


NAVIGATION: Navigation = {  # four kinds of pages, by https://diataxis.fr: to learn, to do, to look up, to understand
    "Home": "README.md",
    "Tutorials": {
        "From a tensor to a page": "docs/tutorial.md",
        "Notebook: first steps": "docs/notebooks/first-steps.ipynb",
        "Notebook: an automaton": "docs/notebooks/automaton.ipynb",
        "Notebook: from PyTorch": "docs/notebooks/from-pytorch.ipynb",
        "Gallery": "docs/gallery.md",
        "Programs that people know": "examples/README.md",
    },
    "How-to guides": {
        "PyTorch on any GPU": "docs/torch-device.md",
        "Coming from PyTorch": "docs/from-pytorch.md",
        "Train": "docs/training.md",
        "Several processes": "docs/distributed.md",
        "Load data, write recipes": "docs/data.md",
        "Compile a step": "docs/compile.md",
        "Choose a device": "docs/devices.md",
        "Find where the time goes": "docs/profiling.md",
        "Publish a page that trains": "docs/browser.md",
        "Export to ONNX": "docs/onnx.md",
        "Choose a backward engine": "docs/backward.md",
        "Write a kernel": "docs/extend.md",
        "Train logic gates": "docs/logic.md",
        "Find contacts of proteins": "docs/coevolution.md",
        "Train GPT-2": "docs/gpt.md",
        "Weights of 8 and 4 bits": "docs/quantization.md",
        "Contribute": "CONTRIBUTING.md",
    },
    "Reference": {
        "Modules": f"{REFERENCE}/index.md",
        **{name: f"{REFERENCE}/{name}.md" for name in MODULES},
        "Environment variables": "docs/variables.md",
        "Glossary": "docs/glossary.md",
        "Conformance": "docs/conformance.md",
        "PyTorch's own tests": "docs/pytorch.md",
        "Conformance of the browser": "docs/conformance-browser.md",
        "Conformance of the interpreters": "docs/conformance-interpreters.md",
    },
    "Explanation": {
        "Architecture": "docs/architecture.md",
        "Experiments": {"Overview": "docs/experiments/README.md", **_titled("docs/experiments")},
        "Decisions": {"All": "docs/decisions/index.md", **_titled("docs/decisions")},
    },
    "Project": {
        "Results": "benchmarks/RESULTS.md",
        "Changes": "CHANGELOG.md",
        "Roadmap": "docs/roadmap.md",
    },
}
SHORT = {
    "sg": "sg",
    "Tensor": "sg.Tensor",
    "F": "sg.nn.functional",
    "nn": "sg.nn",
    "optim": "sg.optim",
    "func": "sg.func",
}
WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)")
NAMED = re.compile(r"_|[a-z0-9][A-Z]|[0-9]d$")  # cross_entropy, AvgPool, conv2d: no words of a sentence
FOLDER = re.compile(r"(\]\((?:\.\./|docs/)*decisions)\)")  # a link to a folder, which a site has a page for
FEATURES = [
    "navigation.indexes",
    "navigation.tabs",
    "navigation.top",
    "toc.follow",
    "content.code.copy",
    "search.highlight",
]
STYLE = """\
.md-typeset pre.docstring { font-size: .7rem; line-height: 1.5; white-space: pre-wrap; padding: 0; }
.md-grid { max-width: 76rem; }
"""


def pages_of(navigation: Navigation) -> list[str]:
    """The pages of a navigation, in their order."""
    return [p for where in navigation.values() for p in (pages_of(where) if isinstance(where, dict) else [where])]


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
        (pages / "site.css").write_text(STYLE)
        for page in pages.rglob("*.md"):
            page.write_text(FOLDER.sub(r"\1/index.md)", page.read_text(encoding="utf-8")), encoding="utf-8")
        home = pages / "README.md"  # whose code is as wide as the page
        home.write_text(f"---\nhide: [navigation, toc]\n---\n\n{home.read_text(encoding='utf-8')}", encoding="utf-8")
        for path, text in written().items():
            (pages / path).write_text(text, encoding="utf-8")
        configuration = Path(temporary) / "mkdocs.yml"
        configuration.write_text(settings(pages, folder.resolve()))
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration], cwd=temporary, check=True
        )


def settings(pages: Path, folder: Path) -> str:
    """The configuration of mkdocs; JSON is YAML."""
    return json.dumps(
        {
            "site_name": "shadergrad",
            "docs_dir": str(pages),
            "site_dir": str(folder),
            "use_directory_urls": False,
            "theme": {"name": "material", "font": False, "features": FEATURES},
            "extra_css": ["site.css"],
            "markdown_extensions": ["tables", "toc", "attr_list", "pymdownx.highlight", "pymdownx.superfences"],
            "plugins": [
                "search",
                {"mkdocs-jupyter": {"include": ["*.ipynb"], "execute": False, "include_requirejs": False}},
            ],
            "validation": {"nav": {"omitted_files": "ignore"}},
            "nav": _listed(NAVIGATION),
        }
    )


def _listed(navigation: Navigation) -> list[dict[str, Any]]:
    """A navigation as mkdocs reads it."""
    return [{title: _listed(where) if isinstance(where, dict) else where} for title, where in navigation.items()]


def written() -> dict[str, str]:
    """The pages that are made of the sources, by their paths."""
    pages = {f"{REFERENCE}/{name}.md": reference(name) for name in MODULES}
    decisions = [f"- [{title}]({Path(str(path)).name})" for title, path in _titled("docs/decisions").items()]
    return pages | {
        f"{REFERENCE}/index.md": modules(),
        "docs/variables.md": variables(),
        "docs/decisions/index.md": "\n".join(["# Decisions", "", *decisions, ""]),
    }


def modules() -> str:
    """The table of the modules, with the first paragraph of each one's docstring."""
    rows = [f"| [{name}]({name}.md) | {_about(_found(name))} |" for name in MODULES]
    return "\n".join(["# Modules", "", "| module | contents |", "|---|---|", *rows, ""])


def _found(module: str) -> Any:
    found: Any = sg
    for part in module.split(".")[1:]:
        found = getattr(found, part)
    return found


def _about(found: Any) -> str:
    return (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


@cache
def shown(module: str) -> dict[str, Any]:
    """What a page of the reference shows: the public names of a module, with the methods of its classes, or those of a class."""
    found = _found(module)
    if inspect.isclass(found):
        names = [name for name in dir(found) if not name.startswith("_")]
    else:
        names = list(getattr(found, "__all__", ())) or [
            name for name, value in vars(found).items() if getattr(value, "__module__", None) == found.__name__
        ]
    entries: dict[str, Any] = {}
    for name in sorted(names, key=str.lower):
        value = getattr(found, name)
        told = callable(value) or inspect.isdatadescriptor(value)  # of a constant, the docstring is its type's
        if told and not name.startswith("_") and not inspect.ismodule(value) and inspect.getdoc(value):
            entries[name] = value
            if inspect.isclass(value) and not inspect.isclass(found):
                entries |= _methods(name, value)
    return entries


def _methods(name: str, value: type) -> dict[str, Any]:
    """Those that a class defines itself."""
    own = [n for n, member in vars(value).items() if not n.startswith("_") and inspect.isfunction(member)]
    return {f"{name}.{n}": getattr(value, n) for n in own if inspect.getdoc(getattr(value, n))}


def reference(module: str) -> str:
    """A page with the public names of a module, or a class's methods, and their docstrings."""
    lines = [f"# {module}", "", _about(_found(module)), ""]
    for name, value in shown(module).items():
        lines += _entry(module, name, value)
    return "\n".join(lines)


def _entry(module: str, name: str, value: Any) -> list[str]:
    """A name, how it is called, and its docstring: the text with links to the names in it, and its examples apart."""
    told, _, examples = str(inspect.getdoc(value)).partition("\n>>> ")
    level = "###" if "." in name else "##"
    lines = [f"{level} {name} {{#{name}}}", "", "```python", _signature(name, value), "```", ""]
    lines += [f'<pre class="docstring">{linked(module, name, flowing(told.strip()))}</pre>', ""]
    lines += ["```pycon", f">>> {examples}", "```", ""] if examples else []
    return lines + ([f"See also: {', '.join(others)}", ""] if (others := _others(module, name)) else [])


def flowing(text: str) -> str:
    """A docstring without its line breaks within paragraphs. Lists and what is indented stay as they are."""
    lines = [""]
    for line in text.splitlines():
        joins = lines[-1] and line and not lines[-1].startswith(" ") and not line.startswith((" ", "- ", "* "))
        lines[-1:] = [f"{lines[-1]} {line}"] if joins else [lines[-1], line]
    return "\n".join(lines[1:])


def _others(module: str, name: str) -> list[str]:
    """Links to entries of the same name on other pages: the function, the method and the module of one operation."""
    found = [(page, other) for page, other in _alike()[_plain(name)] if page != module]
    return [f"[{page}.{other}]({page}.md#{other})" for page, other in found]


@cache
def _alike() -> dict[str, list[tuple[str, str]]]:
    """The entries by their plain names: relu, ReLU and relu_ are alike."""
    alike: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for page in MODULES:
        for name in shown(page):
            alike[_plain(name)].append((page, name))
    return alike


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def linked(module: str, name: str, text: str) -> str:
    """A docstring as HTML in which names that have an entry lead to it. Of one word, only those that are no English words do."""
    parts = WORD.split(text)
    for i in range(1, len(parts), 2):
        place = _place(module, parts[i])
        parts[i] = f'<a href="{place}">{parts[i]}</a>' if place and place != f"{module}.html#{name}" else parts[i]
    parts[::2] = map(html.escape, parts[::2])
    return "".join(parts)


def _place(module: str, word: str) -> str | None:
    """Where a word of a docstring has its entry: what it abbreviates, else the page that it stands on, else the first in order."""
    room, _, name = word.rpartition(".")
    for short, pages in SHORT.items():
        if room == short or room.startswith(f"{short}."):
            page = pages + room.removeprefix(short)
            return f"{page}.html#{name}" if page in MODULES and name in shown(page) else None
    if not room and not NAMED.search(word):
        return None
    return next((f"{page}.html#{word}" for page in (module, *MODULES) if word in shown(page)), None)


def _signature(name: str, value: Any) -> str:
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}{inspect.signature(value)}").replace("shadergrad.", "sg.")
        text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations as they are written
        return textwrap.fill(text, 84, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    except (TypeError, ValueError):
        return name


def variables() -> str:
    """The table of environment variables, as config.py reads them."""
    return f"# Environment variables\n\n{inspect.getdoc(config)}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site"))
