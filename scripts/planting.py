"""Faults: small wrong changes of the library, each anchored to a definition, and how to plant one.

A fault says in which file (below src/shadergrad), in which definition ("Adam.step", "RULES"; "" for the whole file), which
expression or statements are replaced (`find`) by what (`put`), and which tests must catch it. A change elsewhere does not
disturb it: `find` is compared without line breaks, indentation, comments and trailing commas, and where that finds nothing,
as a syntax tree. It must fit once; `nth` (1, 2, ...) chooses where it fits several times. `put` gets the indentation of the
place. The tables are in `faults/`; `mutants.py` plants them and mends tables whose definitions were moved.
"""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src") / "shadergrad"
TABLES = ROOT / "scripts" / "faults"
TEXTS = (".py", ".wgsl", ".js")  # what a fault can be planted in


@dataclass(frozen=True)
class Fault:
    """A planted fault; the module docstring describes the fields. file: below src/shadergrad. tests: ids below tests/, or their beginnings."""

    name: str
    file: str
    within: str
    find: str
    put: str
    tests: tuple[str, ...]
    nth: int = 0


def fault(name: str, file: str, within: str, find: str, put: str, *tests: str, nth: int = 0) -> Fault:
    """A row of a table."""
    return Fault(name, file, within, find, put, tests, nth)


class NotPlanted(Exception):
    """A fault does not fit; the message names the missing text and the nearest one."""


# -- definitions


@dataclass(frozen=True)
class Definition:
    """A function, class, or name assigned to at the level of a module or class: its place in the text, decorators included."""

    name: str
    start: int
    end: int


@cache
def definitions(text: str) -> tuple[Definition, ...]:
    """All definitions of a Python file, outer before inner. Several may share a name: a property and its setter."""
    lines = _starts(text)

    def found(body: Iterable[ast.AST], prefix: str, holds_names: bool) -> Iterator[Definition]:
        for node in body:
            inner, names = [c for c in ast.iter_child_nodes(node) if isinstance(c, _BLOCKS)], []
            if isinstance(node, _DEFINED):
                names = [node.name]
            elif holds_names and isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            for name in names:
                decorators: list[ast.expr] = getattr(node, "decorator_list", [])
                first = min(n.lineno for n in (*decorators, node))  # type: ignore[attr-defined]
                yield Definition(prefix + name, lines[first - 1], _end(text, lines, node))
            if isinstance(node, _DEFINED):
                yield from found(inner, f"{prefix}{node.name}.", isinstance(node, ast.ClassDef))
            else:
                yield from found(inner, prefix, holds_names)

    return tuple(found(_parsed(text).body, "", True))


_DEFINED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BLOCKS = ast.stmt | ast.ExceptHandler | ast.match_case


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _starts(text: str) -> list[int]:
    return [0, *(m.end() for m in re.finditer("\n", text))]


def _place(text: str, lines: Sequence[int], line: int, column: int) -> int:
    """Where in the text something is that ast says in lines and bytes."""
    start = lines[line - 1]
    return start + len(text[start : start + column].encode()[:column].decode())


def _end(text: str, lines: Sequence[int], node: ast.AST) -> int:
    return _place(text, lines, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


# -- finding


@cache
def pattern(find: str, comment: str) -> re.Pattern[str]:
    """A regular expression of a text whose spaces, line breaks, comments and trailing commas do not matter."""
    gap = rf"(?:\s|{comment}[^\n]*\n)"
    pieces, found = re.findall(r"\w+|[^\w\s]", find), ""
    for before, piece, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
        both_words = re.match(r"\w", before) and re.match(r"\w", piece)
        found += (rf"{gap}+" if both_words else rf"{gap}*") if before else ""
        if piece in ")]}" and before not in ("", ","):
            found += rf"(?:,{gap}*)?"
        found += ",?" if piece == "," and after and after in ")]}" else re.escape(piece)
    begin = r"\b" if re.match(r"\w", find) else ""
    end = r"\b" if re.search(r"\w$", find) else ""
    return re.compile(begin + found + end)


def _as_tree(text: str, find: str) -> Iterator[tuple[int, int]]:
    """Where a Python text has an expression or a statement that reads the same, but for parentheses and quotes."""
    try:
        (wanted,) = ast.parse(textwrap.dedent(find).strip()).body
    except (SyntaxError, ValueError):
        return
    part: ast.AST = wanted.value if isinstance(wanted, ast.Expr) else wanted
    reads, lines = ast.unparse(part), _starts(text)
    for node in ast.walk(_parsed(text)):
        if type(node) is type(part) and ast.unparse(node) == reads:
            yield _place(text, lines, node.lineno, node.col_offset), _end(text, lines, node)  # type: ignore[attr-defined]


def places(text: str, file: str, find: str, lies: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where a text is found in parts of a file's."""
    wanted = pattern(find.strip(), "#" if file.endswith(".py") else "//")
    found = {m.span() for a, b in lies for m in wanted.finditer(text, a, b)}
    if not found and file.endswith(".py"):
        found = {(i, j) for i, j in _as_tree(text, find) if any(a <= i and j <= b for a, b in lies)}
    return sorted(found)


def ranges(text: str, file: str, within: str) -> list[tuple[int, int]]:
    """Where the definitions of a name lie in a file's text."""
    if not within:
        return [(0, len(text))]
    if not file.endswith(".py"):
        return []
    return [(d.start, d.end) for d in definitions(text) if d.name == within]


def locate(text: str, fault: Fault) -> tuple[int, int]:
    """Where in its file's text a fault is planted. Raises NotPlanted, with what is nearest, where that is not one place."""
    lies = ranges(text, fault.file, fault.within)
    if not lies:
        names = dict.fromkeys(d.name for d in definitions(text)) if fault.file.endswith(".py") else {}
        near = [n for n in names if n.rsplit(".", 1)[-1] == fault.within.rsplit(".", 1)[-1]]
        near += difflib.get_close_matches(fault.within, names, 3, 0.7)
        raise NotPlanted(f"{fault.file} defines no {fault.within}" + _nearest(dict.fromkeys(near)))
    found = places(text, fault.file, fault.find, lies)
    place = f"in {fault.within} of {fault.file}" if fault.within else f"in {fault.file}"
    if not found:
        part = "\n".join(text[a:b] for a, b in lies)
        raise NotPlanted(f"{fault.find!r} is not found {place}" + _nearest(_similar(part, fault.find)))
    if fault.nth > len(found) or (not fault.nth and len(found) > 1):
        lines = ", ".join(str(text.count("\n", 0, a) + 1) for a, _ in found)
        asked = f"; number {fault.nth} was asked for" if fault.nth else "; say nth= or quote more"
        raise NotPlanted(f"{fault.find!r} is found {len(found)} times {place} (lines {lines}){asked}")
    return found[max(fault.nth - 1, 0)]


def _similar(text: str, find: str) -> list[str]:
    """The lines of a text that are most like one that is not there."""
    many, wanted = find.strip().count("\n") + 1, " ".join(find.split())
    lines = [line.strip() for line in text.splitlines()]
    windows = dict.fromkeys(" ".join(lines[k : k + many]) for k in range(len(lines)))
    return difflib.get_close_matches(wanted, [w for w in windows if w], 2, 0.3)


def _nearest(near: Iterable[str]) -> str:
    listed = "; ".join(near)
    return f". Nearest: {listed}" if listed else ""


# -- planting


def plant(text: str, fault: Fault) -> str:
    """A file's text with a fault in it. Raises NotPlanted."""
    start, end = locate(text, fault)
    line = text.rfind("\n", 0, start) + 1
    indent = len(text[line:start]) - len(text[line:start].lstrip()) if text[line:start].strip() else start - line
    base = indent - (len(fault.find) - len(fault.find.lstrip(" ")))  # what find's and put's lines have in common
    first, *rest = fault.put.split("\n")
    if text[line:start].strip():
        put = [first.lstrip(" ")]
    else:
        start, put = line, [" " * base + first]
    put += [" " * base + r if r else r for r in rest]
    return text[:start] + "\n".join(put) + text[end:]


def around(planted: str, start: int, length: int) -> str:
    """The definitions at the left margin that hold a place in a file: to parse whole files hundreds of times takes seconds."""
    begin = max(planted.rfind("\n\n\n", 0, start), 0)
    end = planted.find("\n\n\n", start + length)
    return planted[begin : end if end >= 0 else None]


def trouble(fault: Fault, root: Path = ROOT) -> str | None:
    """The reason that a fault cannot be planted in a tree; None if it can."""
    path = root / SOURCE / fault.file
    if not path.is_file():
        return f"{SOURCE / fault.file} is not there"
    text = _read(path, path.stat().st_mtime_ns)
    try:
        planted = plant(text, fault)
    except NotPlanted as error:
        return str(error)
    if planted == text:
        return "it changes nothing"
    if fault.file.endswith(".py"):  # one that cannot be imported is no fault that tests must find
        try:
            ast.parse(around(planted, locate(text, fault)[0], len(fault.put)))
        except SyntaxError as error:
            return f"what is planted does not parse: {error}"
    return None


@cache
def _read(path: Path, changed: int) -> str:
    return path.read_text()


# -- mending


def anchors(find: str, root: Path = ROOT) -> list[tuple[str, str]]:
    """All (file, definition) that contain a text exactly once: the innermost ones."""
    found = []
    for path in sorted((root / SOURCE).rglob("*")):
        if path.suffix not in TEXTS:
            continue
        file, text = path.relative_to(root / SOURCE).as_posix(), _read(path, path.stat().st_mtime_ns)
        found += [(file, innermost(text, file, *place)) for place in places(text, file, find, [(0, len(text))])]
    return [a for a in dict.fromkeys(found) if found.count(a) == 1]


def innermost(text: str, file: str, start: int, end: int) -> str:
    """The name of the innermost definition that holds a place."""
    holds = [d for d in definitions(text) if d.start <= start and end <= d.end] if file.endswith(".py") else []
    return min(holds, key=lambda d: d.end - d.start).name if holds else ""


def mended(fault: Fault, root: Path = ROOT) -> Fault | None:
    """A fault anchored anew: in its file, else where a definition has its name, else where its text stands once; or None."""
    found = [a for a in anchors(fault.find, root) if _fits(fault, a, root)]
    last = fault.within.rsplit(".", 1)[-1]
    here = [a for a in found if a[0] == fault.file]
    named = [a for a in found if last and last in a[1].split(".")]
    for choice in ([a for a in here if a in named], here, named, found):
        if len(choice) == 1:
            return replace(fault, file=choice[0][0], within=choice[0][1], nth=0)
        if choice:
            return None
    return None


def _fits(fault: Fault, anchor: tuple[str, str], root: Path) -> bool:
    return trouble(replace(fault, file=anchor[0], within=anchor[1], nth=0), root) is None


def mend(faults: Sequence[Fault], root: Path = ROOT, tables: Path = TABLES) -> list[str]:
    """Rewrites the tables' files and definitions of all faults that do not fit but can be found; says what became of each."""
    said: list[str] = []
    anew: dict[str, Fault] = {}
    for fault in faults:
        why = trouble(fault, root)
        if why is None:
            continue
        new = mended(fault, root)
        if new is None:
            candidates = ", ".join(f"{file}: {within}" for file, within in anchors(fault.find, root)[:4])
            said.append(f"NOT MENDED {fault.name}: {why}" + (f". Found in {candidates}" if candidates else ""))
        else:
            anew[fault.name] = new
            said.append(f"mended {fault.name}: {fault.file}: {fault.within} -> {new.file}: {new.within}")
    for table in sorted(tables.glob("*.py")):
        old = table.read_text()
        text = reanchored(old, anew)
        if text != old:
            table.write_text(text)
    return said


def reanchored(text: str, anew: dict[str, Fault]) -> str:
    """A table's text with the files and definitions of some of its faults changed, nothing else."""
    lines, changes = _starts(text), []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fault"):
            continue
        if isinstance(node.args[0], ast.Constant) and (new := anew.get(str(node.args[0].value))):
            for argument, value in zip(node.args[1:3], (new.file, new.within), strict=True):
                start = _place(text, lines, argument.lineno, argument.col_offset)
                changes.append((start, _end(text, lines, argument), f'"{value}"'))
    for start, end, value in sorted(changes, reverse=True):
        text = text[:start] + value + text[end:]
    return text
