"""A page that links the pages in its folder. In: a folder with exported pages below it. Out: its index.html, which needs no JavaScript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from urllib.parse import quote

from .errors import WebError
from .export import PAGE
from .playground import SHELF
from .preview import PREVIEW

TITLE = "Networks that learn while you watch"
TEXT = "Each page trains a network on your device, from its first random weights on: by the GPU where the browser has WebGPU, else by the CPU."
CARD = """      <section class="card">
        <a href="${href}">${picture}<h2>${title}</h2></a>
        <p>${text}</p>
      </section>"""


def gallery(
    folder: str | Path, title: str = TITLE, text: str = TEXT, address: str = "", first: Sequence[str] = ()
) -> Path:
    """Write an index.html that links the pages in the folders of a folder, with their pictures: those of `export`, and playgrounds.

    title, text: of the page. first: the names of folders that come before the others. address: where the folder will
    be on the web, for the pictures in links to it.
    Returns the folder. Raises WebError if there is no page.

    >>> import tempfile
    >>> step = sg.compile(lambda x: x.sum())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sg.web.export(step, f"{folder}/sum", sg.ones(2), title="A sum")
    ...     "A sum" in (sg.web.gallery(folder) / "index.html").read_text()
    True
    """
    site = Path(folder)
    order = {name: k for k, name in enumerate(first)}
    folders = {path.parent for path in site.glob("*/*.json") if path.name in (PAGE, SHELF)}
    shown = sorted(folders, key=lambda path: (order.get(path.name, len(order)), path.name))
    if not shown:
        raise WebError(
            f"[gallery] there is no page below {site}. Hint: shadergrad export RECIPE {site / 'NAME'}, then this again."
        )
    here = resources.files("shadergrad.web") / "site"
    filled = {
        name: escape(value) for name, value in {"title": title, "text": text, "address": slashed(address)}.items()
    }
    cards = "\n".join(Template(CARD).substitute(_card(path)) for path in shown)
    page = Template((here / "gallery.html").read_text(encoding="utf-8")).substitute(filled, cards=cards)
    (site / "index.html").write_text(page, encoding="utf-8")
    (site / "style.css").write_bytes((here / "style.css").read_bytes())
    if (shown[0] / PREVIEW).is_file():  # exports of earlier versions have none
        (site / PREVIEW).write_bytes((shown[0] / PREVIEW).read_bytes())
    return site


def slashed(address: str) -> str:
    """The address of a folder, with a slash at its end."""
    return address if not address or address.endswith("/") else f"{address}/"


def _card(folder: Path) -> dict[str, str]:
    """A page's card, as HTML."""
    href = f"{quote(folder.name)}/"
    title, text = (
        "Playground",
        "Write a program in Python, and train on this device's GPU: Python itself runs in the page.",
    )
    if (folder / PAGE).is_file():
        described = json.loads((folder / PAGE).read_text(encoding="utf-8"))
        title, text = described["title"], described["text"]
    picture = f'<img src="{escape(href)}{PREVIEW}" alt="" width="1200" height="630" loading="lazy" />'
    picture = picture if (folder / PREVIEW).is_file() else ""
    return {"href": escape(href), "picture": picture, "title": escape(title), "text": escape(text)}
