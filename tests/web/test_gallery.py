"""The gallery and what links to pages show; axe's serious findings, which are none."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from axe import NoAxe, grave_findings
from shadergrad.cli import run
from shadergrad.web.preview import HEIGHT, WIDTH

from .conftest import missing
from .steps import automaton
from .test_pages import automaton_page

SIZES = ({"width": 1280, "height": 800}, {"width": 390, "height": 844})


def test_a_gallery_links_its_pages_and_each_tells_others_of_itself(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    w = sg.zeros(2)
    step = sg.compile(lambda x: w.add_(x).sum())
    said = 'A <b>"bold"</b> & $sum'
    sg.web.export(step, tmp_path / "b page", sg.ones(2), title=said, text="Adds.", address="https://example.org/b")
    rows = np.random.default_rng(0).random((80, 64)).astype(np.float32)
    digits = sg.compile(lambda images: w.add_(1) + images.sum())
    sg.web.export(digits, tmp_path / "a", sg.tensor(rows[:4]), data={"images": rows})
    sg.web.gallery(tmp_path, address="https://example.org", first=["b page"])
    text = (tmp_path / "index.html").read_text()
    assert [text.index(f'href="{name}/"') for name in ("b%20page", "a")] == sorted(
        text.index(f'href="{name}/"') for name in ("b%20page", "a")
    )
    own = (tmp_path / "b page" / "index.html").read_text()
    for html in (text, own):
        assert "A &lt;b&gt;&quot;bold&quot;&lt;/b&gt; &amp; $sum" in html
        assert "<b>" not in html
    assert '<meta property="og:image" content="https://example.org/b/preview.png" />' in own
    assert '<meta property="og:image" content="https://example.org/preview.png" />' in text
    for name in ("b page", "a", "."):
        found = np.asarray(image.open(io.BytesIO((tmp_path / name / "preview.png").read_bytes())))
        assert found.shape == (HEIGHT, WIDTH, 3)
        assert len(np.unique(found.reshape(-1, 3), axis=0)) > 2
    assert (tmp_path / "preview.png").read_bytes() != (tmp_path / "a" / "preview.png").read_bytes()


def test_a_folder_without_pages_is_no_gallery(tmp_path: Path) -> None:
    with pytest.raises(sg.web.WebError, match="there is no page below"):
        sg.web.gallery(tmp_path)
    assert run(["gallery", str(tmp_path), "no-such-recipe"]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(visit: Any, tmp_path: Path, scheme: str) -> None:
    assert run(["gallery", str(tmp_path), "digits", "xor"]) == 0
    automaton_page("checkerboard", automaton(), tmp_path / "checkerboard")
    sg.web.gallery(tmp_path)
    pages = ["", "digits/", "digits/compare/", "xor/", "checkerboard/", "playground/"]
    (tmp_path / "playground" / "python.json").write_text(
        json.dumps({"pyodide": "none/", "wheels": [], "packages": [], "examples": {"One": "print(1)"}})
    )
    for path in pages:
        for size in SIZES:
            page = visit(
                tmp_path, f"{path}index.html#run=0", color_scheme=scheme, viewport=size, refused="Failed to load"
            )
            page.wait_for_selector(".card, body[data-ready], #status:has-text('could not be loaded')")
            try:
                assert not grave_findings(page), path
            except NoAxe as error:
                missing(str(error), "no axe", "give pip a registry")
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
            page.close()
