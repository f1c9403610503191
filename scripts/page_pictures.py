"""Pictures of the exported pages, on a desktop and on a phone, by a headless Chromium.

In: nothing. Out: docs/images/page-NAME-desktop.png and -phone.png, and with --dark what the pages look like in the dark.

    python scripts/page_pictures.py               # all pages, into docs/images
    python scripts/page_pictures.py --only own --folder /tmp --dark
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import shadergrad as sg  # noqa: E402
from chromium import chromium, served  # noqa: E402
from shadergrad import recipes  # noqa: E402
from shadergrad.recipes.logic.page import automaton_page  # noqa: E402
from shadergrad.train.page_export import export_recipe  # noqa: E402
from web.steps import automaton, sequences  # noqa: E402

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
STEPS = "() => Number([...document.querySelectorAll('dt')].find((dt) => dt.textContent === 'steps').nextSibling.textContent.replaceAll(',', '')) >= %d"


def digits(folder: Path) -> Path:
    export_recipe("digits", recipes.find("digits"), folder)
    return folder


def compare(folder: Path) -> Path:
    return digits(folder) / "compare"


def cells(folder: Path) -> Path:
    automaton_page("checkerboard", automaton(500), folder)
    return folder


def own(folder: Path) -> Path:
    step, batches = sequences("attention")
    data = {"x": np.concatenate([x for x, _ in batches]), "y": np.concatenate([y for _, y in batches])}
    text = "A transformer's layer learns whether the numbers of a sequence are positive on average."
    sg.web.export(step, folder, *map(sg.tensor, batches[0]), data=data, title="A step of one's own", text=text)
    return folder


def draw(page: Any) -> None:
    """A seven."""
    page.click("text=Clear")
    pad = page.locator("canvas.pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    page.mouse.move(*at(0.3, 0.22))
    page.mouse.down()
    for x, y in ((0.7, 0.22), (0.55, 0.5), (0.45, 0.82)):
        page.mouse.move(*at(x, y), steps=12)
    page.mouse.up()


def learned(page: Any) -> None:
    trained(page)
    draw(page)
    page.wait_for_timeout(500)


def hardened(page: Any) -> None:
    page.wait_for_function(STEPS % 5)
    page.click("button:has-text('Harden')")
    page.wait_for_function("() => /^step [1-9]\\d/.test(document.querySelector('canvas.pad + p').textContent)")
    pad = page.locator("canvas.pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"], steps=20)
    page.mouse.up()


def compared(page: Any) -> None:
    page.wait_for_function("() => /over 300/.test(document.body.innerText)")


def trained(page: Any) -> None:
    page.wait_for_selector("text=/^Finished after/")


PAGES: dict[str, tuple[Callable[[Path], Path], Callable[[Any], None]]] = {
    "digits": (digits, learned),
    "automaton": (cells, hardened),
    "compare": (compare, compared),
    "own": (own, trained),
}


def main(
    only: Annotated[str, typer.Option(help="One page.")] = "",
    folder: Annotated[Path, typer.Option(help="Where the pictures go.")] = ROOT / "docs" / "images",
    dark: Annotated[bool, typer.Option(help="In the dark, too, as page-NAME-SIZE-dark.png.")] = False,
) -> None:
    """Draw the pages."""
    for name, (export, prepare) in PAGES.items():
        if only not in ("", name):
            continue
        with tempfile.TemporaryDirectory() as site, served(export(Path(site))) as origin, chromium() as browser:
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    device_scale_factor=1 if width > 500 else 2,
                    has_touch=width < 500,
                )
                page = context.new_page()
                page.set_default_timeout(300_000)
                page.goto(f"{origin}/")
                page.wait_for_selector("body[data-ready]")
                prepare(page)
                wide = page.evaluate("document.documentElement.scrollWidth")
                page.mouse.move(0, 0)  # what it points at looks different
                # all of it in view: the message at the edge of the window would lie on what it shows
                page.set_viewport_size(
                    {"width": width, "height": page.evaluate("document.documentElement.scrollHeight")}
                )
                page.screenshot(path=folder / f"page-{name}-{size}.png", full_page=True)
                if dark:
                    page.emulate_media(color_scheme="dark")
                    page.wait_for_timeout(500)
                    page.screenshot(path=folder / f"page-{name}-{size}-dark.png", full_page=True)
                print(name, size, f"{wide} px wide of {width}")
                context.close()


if __name__ == "__main__":
    typer.run(main)
