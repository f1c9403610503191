"""The programs on the pages of docs/ run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md") if "```python" in p.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_on_a_page_run_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    programs = [(match.start(), match[1]) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    assert programs
    names: dict[str, object] = {}
    for start, program in programs:
        line = text[:start].count("\n") + 1
        exec(compile("\n" * line + program, page, "exec"), names)
