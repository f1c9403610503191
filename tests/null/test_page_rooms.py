"""The runtime of pages: its rooms import in one direction, and join into one module with the same exports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shadergrad as sg
from shadergrad.web.join import joined

SITE = Path(sg.web.__file__).parent / "site"
ROOM = re.compile(r'^export \{([^}]*)\} from "\./runtime/(\w+\.js)";$', re.MULTILINE)
LINES = 330  # of a room: a class of methods that share private fields is the longest


def rooms() -> dict[str, list[str]]:
    """Names that the runtime exports, by the room that has them, from the ground up."""
    return {room: names.replace(",", " ").split() for names, room in ROOM.findall((SITE / "runtime.js").read_text())}


def test_every_room_is_in_the_list_and_imports_from_those_before_it_alone() -> None:
    order = list(rooms())
    assert sorted(order) == sorted(path.name for path in (SITE / "runtime").iterdir())
    for at, room in enumerate(order):
        text = (SITE / "runtime" / room).read_text()
        assert text.startswith("// -- "), f"{room} says first what it is about"
        assert text.count("\n") <= LINES, room
        asked = set(re.findall(r'(?:from|import\() ?"([^"]+)"', text))
        assert asked <= {f"./{name}" for name in order[:at]}, room


def test_the_joined_runtime_exports_the_same_names_and_asks_for_no_file() -> None:
    text = joined(SITE / "runtime.js")
    exported = re.findall(r"^export (?:const|function|class) (\w+)", text, re.MULTILINE)
    assert exported == [name for room, names in rooms().items() for name in sorted(names, key=exported.index)]
    assert not re.search(r'^import |\bfrom "|import\("', text, re.MULTILINE)
    declared = re.findall(r"^(?:export )?(?:async )?(?:const|function|class|let) (\w+)", text, re.MULTILINE)
    assert len(declared) == len(set(declared)), "two rooms declare one name"
    types = re.findall(r"@typedef \{?[^\n]*?\}? (\w+)(?: \*/)?$", text, re.MULTILINE)
    assert len(types) == len(set(types)), "two rooms declare one type"


@pytest.mark.parametrize("line", ['import { b } from "./b.js";', '/** @typedef {import("./b.js").B} B */'])
def test_a_room_loses_its_imports(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(f"// -- a\n\n{line}\n\nexport const a = 1;\n")
    (tmp_path / "all.js").write_text('/** Head. */\nexport { a } from "./a.js";\n')
    assert joined(tmp_path / "all.js") == "/** Head. */\n\n// -- a\n\nexport const a = 1;\n"
