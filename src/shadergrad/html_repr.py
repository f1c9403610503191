"""HTML representations of objects in notebooks, without scripts. In: texts, rows, numbers. Out: HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

CELL = "padding:2px 10px;white-space:pre;text-align:{}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int, caption: str = "") -> str:
    """Rows under a head; the first `left` columns stand to the left, numbers after them to the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        sides = ("left" if k < left else "right" for k in range(len(cells)))
        made = (f'<{tag} style="{CELL.format(side)}">{escape(c)}</{tag}>' for c, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f'<table style="font-size:90%"><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table>{small(caption)}'
    )


def text(lines: str, caption: str = "") -> str:
    """A text as it stands."""
    return f'<pre style="margin:0">{escape(lines)}</pre>{small(caption)}'


def small(caption: str) -> str:
    """A line below."""
    return f"<div><small>{escape(caption)}</small></div>" if caption else ""
