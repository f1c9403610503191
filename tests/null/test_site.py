"""The documentation's site: its pages are there, the reference names what is public, and mkdocs has no warning."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "site.py"
specification = importlib.util.spec_from_file_location("documentation_site", SCRIPT)  # `site` is a module of Python
assert specification is not None
assert specification.loader is not None
site = importlib.util.module_from_spec(specification)
specification.loader.exec_module(site)
WRITTEN = {*site.NAVIGATION["Reference"].values(), "docs/variables.md"}


def test_pages_of_the_navigation_are_in_the_repository() -> None:
    found = [w for where in site.NAVIGATION.values() for w in (where.values() if isinstance(where, dict) else [where])]
    assert [page for page in found if page not in WRITTEN and not (site.ROOT / page).exists()] == []
    assert set(found) >= WRITTEN


def test_every_page_of_docs_can_be_found() -> None:
    named = {w for where in site.NAVIGATION.values() for w in (where.values() if isinstance(where, dict) else [where])}
    docs = site.ROOT / "docs"
    pages = {str(path.relative_to(site.ROOT)) for path in (*docs.glob("*.md"), *docs.glob("notebooks/*.ipynb"))}
    assert pages - named == set()


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
        assert f"\n## {name}\n" in site.reference(module), name
    assert "\n### Trainer.fit\n" in site.reference("sg.train")
    assert "\n```pycon\n>>> " in site.reference("sg.nn")
    for name in ("SHADERGRAD_DEBUG", "SHADERGRAD_DATA_MIRROR"):
        assert f"| {name} |" in site.variables()


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
