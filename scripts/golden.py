"""The digest of everything that the compiler writes, and what changed in it since a revision.

    python scripts/golden.py                 compare with tests/golden/kernels.json; exit 1 where they differ
    python scripts/golden.py --write         take what comes out now as golden
    python scripts/golden.py --diff [REV]    print what became of every kernel since REV (HEAD), as text
    python scripts/golden.py --only NAME     one operation's programs, or one step's ("step mlp"); with any of these

A program is a case of the operator table (values, gradients) or a training step, compiled without any adapter for
the portable limits and for a larger GPU. Its digest covers the text of every kernel and the table of dispatches.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "kernels.json"
Text = dict[str, list[str]]  # the kernels and the dispatches of a program, by the program's name


def digests(text: Text) -> dict[str, str]:
    """A short digest a program."""
    return {name: hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16] for name, parts in sorted(text.items())}


def compiled(only: str = "") -> Text:
    """What the compiler writes for every program, or those whose names begin with `only`, on this revision's sources."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
    from golden_programs import programs  # beside the tests, so that every revision brings its own

    return dict(programs(only))


def begins(name: str, words: str) -> bool:
    """Whether a program, `NAME, TARGET`, is one of those that --only asks for."""
    return not words or name.startswith((f"{words} ", f"{words}, "))


def of_revision(revision: str) -> Text:
    """The same, of a committed revision."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", revision], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        script = Path(folder) / "scripts" / "golden.py"
        out = Path(folder) / "golden.text.json"
        environment = {**os.environ, "PYTHONPATH": str(Path(folder) / "src")}
        subprocess.run([sys.executable, str(script), "--dump", str(out)], check=True, env=environment)
        return json.loads(out.read_text())


def differences(before: Text, after: Text) -> Iterator[str]:
    """A unified difference for every distinct change of a program; programs that changed alike are named together."""
    alike: dict[str, list[str]] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = ("\n".join(t.get(name, [])).splitlines() for t in (before, after))
        change = "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm="", n=2))
        if change:
            alike.setdefault(change, []).append(name)
    for change, names in sorted(alike.items(), key=lambda item: -len(item[1])):
        yield f"== {len(names)} programs: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}\n{change}\n"


def main(arguments: Any = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="take what comes out now as golden")
    parser.add_argument("--diff", nargs="?", const="HEAD", metavar="REV", help="show what changed since a revision")
    parser.add_argument("--dump", metavar="FILE", help="write the text of all kernels to a file")
    parser.add_argument("--only", default="", metavar="NAME", help="those whose names begin with these words")
    chosen = parser.parse_args(arguments)
    text = compiled(chosen.only)
    if not text:
        sys.exit(
            f"no program's name begins with {chosen.only!r}: give an operation, as tests/cases.py calls it, or a step"
        )
    if chosen.dump:
        Path(chosen.dump).write_text(json.dumps(text))
        return 0
    if chosen.diff:
        before = of_revision(chosen.diff)
        changes = list(differences({n: t for n, t in before.items() if begins(n, chosen.only)}, text))
        print(*changes, f"{len(changes)} kinds of change since {chosen.diff}", sep="\n")
        return 0
    found = digests(text)
    golden = json.loads(GOLDEN.read_text())
    if chosen.write:
        kept = {n: d for n, d in golden.items() if not begins(n, chosen.only)}
        GOLDEN.write_text(json.dumps(kept | found, indent=0, sort_keys=True) + "\n")
        print(f"{len(found)} programs written to {GOLDEN.relative_to(ROOT)}")
        return 0
    golden = {n: d for n, d in golden.items() if begins(n, chosen.only)}
    changed = sorted(n for n in found.keys() | golden.keys() if found.get(n) != golden.get(n))
    print(f"{len(found)} programs, {len(changed)} differ from the golden ones", *changed[:20], sep="\n  ")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
