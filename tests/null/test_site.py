"""The documentation's site: its pages are there, the reference names what is public, and mkdocs has no warning."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from operator import attrgetter
from pathlib import Path

import pytest

import readme
import shadergrad as sg

SCRIPT = Path(__file__).parents[2] / "scripts" / "site.py"
specification = importlib.util.spec_from_file_location("documentation_site", SCRIPT)  # `site` is a module of Python
assert specification is not None
assert specification.loader is not None
site = importlib.util.module_from_spec(specification)
specification.loader.exec_module(site)
WRITTEN = site.written()


def test_pages_of_the_navigation_are_in_the_repository() -> None:
    found = site.pages_of(site.NAVIGATION)
    assert [page for page in found if page not in WRITTEN and not (site.ROOT / page).exists()] == []
    assert set(found) >= {*WRITTEN}


def test_every_page_of_docs_can_be_found() -> None:
    docs = site.ROOT / "docs"
    pages = {str(path.relative_to(site.ROOT)) for path in (*docs.rglob("*.md"), *docs.glob("notebooks/*.ipynb"))}
    assert pages - {*site.pages_of(site.NAVIGATION)} == set()


def test_names_in_the_reference_lead_to_their_entries() -> None:
    """Each link from a docstring, and from one page of reference to another, leads to a heading."""
    headings = {
        f"{Path(path).stem}#{name}"
        for path, text in WRITTEN.items()
        for name in re.findall(r"^##.* \{#(\S+)\}$", text, re.M)
    }
    links = [link for text in WRITTEN.values() for link in re.findall(r'href="([^"]+)"|\]\(([^)]+#[^)]+)\)', text)]
    targets = {re.sub(r"\.(html|md)#", "#", "".join(link)) for link in links}
    assert targets - headings == set()
    assert '<a href="sg.nn.functional.html#cross_entropy">' in site.linked("sg.nn", "X", "Calls F.cross_entropy.")
    assert site.linked("sg", "X", "a < b, the sum") == "a &lt; b, the sum"


def test_the_reference_and_the_variables_are_those_of_the_sources() -> None:
    for module, name in {
        "sg": "tensor",
        "sg.Tensor": "masked_fill",
        "sg.nn": "Linear",
        "sg.nn.functional": "cross_entropy",
        "sg.optim": "AdamW",
        "sg.train": "Trainer",
        "sg.data": "DataLoader",
        "sg.logic.circuit": "to_blif",
        "sg.models.gpt": "GPT",
        "sg.devices": "reset",
    }.items():
        assert f"\n## {name} {{#{name}}}\n" in site.reference(module), name
    assert "\n### Trainer.fit {#Trainer.fit}\n" in site.reference("sg.train")
    assert "\n```pycon\n>>> " in site.reference("sg.nn")
    for name in ("SHADERGRAD_DEBUG", "SHADERGRAD_DATA_MIRROR"):
        assert f"| {name} |" in site.variables()


INSIDE = (
    "cli.",
    "run.",
    "runtime.dawn.",
    "runtime.page.",  # pyodide is in browsers alone
    "drive.",
    "tensor.",
    "as_torch.",
    "recipes.",
    "interop.torch.",
    "nn.functional.",
    "models.coevolution.",
    "cuda.",
    "pytorch_files.",  # what torch.load and torch.save call
    "torch.",  # docs/torch-device.md
)


def test_every_public_function_is_on_a_page_of_the_reference() -> None:
    """What a module says is public (__all__) stands on a page, under that module's name or another; INSIDE is re-exported."""
    shown = set()
    for name in site.MODULES:
        found = attrgetter(name.removeprefix("sg."))(sg) if "." in name else sg
        names = dir(found) if inspect.isclass(found) else getattr(found, "__all__", vars(found))
        shown |= {id(getattr(found, n)) for n in names}
    missing = []
    for module in pkgutil.walk_packages(sg.__path__, "shadergrad."):
        room = module.name.removeprefix("shadergrad.")
        if not f"{room}.".startswith(INSIDE) and room != "__main__":
            public = importlib.import_module(module.name)
            values = [(name, getattr(public, name)) for name in getattr(public, "__all__", ())]
            missing += [f"{room}.{n}" for n, v in values if callable(v) and inspect.getdoc(v) and id(v) not in shown]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md"])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    text = (site.ROOT / page).read_text(encoding="utf-8")
    named = {word.rstrip("/") for word in re.findall(r"`([\w./-]+(?:\.(?:py|md|wgsl)|/))`", text)}
    source = site.ROOT / "src" / "shadergrad"
    roots = (site.ROOT, source, *(source / room for room in ("compile", "graph", "web")))
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []
    assert len(named) > 30


@pytest.mark.parametrize("source", ["https://example.org/us/shadergrad", None])
def test_the_readme_of_a_package_index_has_no_link_into_the_tree(source: str | None) -> None:
    """With an address each link and picture is absolute, and leads to a file there is; without, only words are left."""
    text = (site.ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"!?\[[^\]]*\]\(([^)]+)\)", text)
    found = re.findall(r"!?\[[^\]]*\]\(([^)]+)\)", readme.shown(text, source))
    if source is None:
        assert found == []
        assert "A lizard" not in readme.shown(text, source)
        assert "benchmarks/RESULTS.md" in readme.shown(text, source)
    else:
        kinds = ["raw" if target.endswith((".png", ".gif")) else "blob" for target in targets]
        assert found == [f"{source}/{kind}/HEAD/{t}" for kind, t in zip(kinds, targets, strict=True)]
        assert all((site.ROOT / target).exists() for target in targets)


def test_what_is_absolute_already_stays() -> None:
    text = "[a](https://a.b/c) [b](#there) [c](mailto:d@e.f)"
    assert readme.shown(text, "https://x.y") == readme.shown(text, None) == text


def test_each_page_of_experiments_is_reached() -> None:
    """By the navigation and by the overview, and each of them says where and when it was measured."""
    folder = site.ROOT / "docs" / "experiments"
    pages = {path.name for path in folder.glob("*.md")}
    shown = site.NAVIGATION["Explanation"]["Experiments"]
    assert isinstance(shown, dict)
    assert {Path(path).name for path in shown.values()} == pages
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text())) == pages - {"README.md"}
    for name in pages - {"README.md"}:
        text = (folder / name).read_text(encoding="utf-8")
        assert re.search(r"2026-\d\d-\d\d", text), name
        assert "erdict" in text, name


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra `site` is not installed")
    site.main(tmp_path / "site")
    for page in (
        "index.html",
        "docs/training.html",
        "docs/reference/sg.nn.html",
        "docs/notebooks/automaton.html",
        "docs/images/lizard.gif",
    ):
        assert (tmp_path / "site" / page).exists()
