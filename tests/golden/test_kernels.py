"""Everything that the compiler writes is as it was, unless someone says otherwise."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from golden_programs import programs

GOLDEN = Path(__file__).with_name("kernels.json")
HINT = (
    "\n`python scripts/golden.py --diff` shows what became of the kernels since the last commit; "
    "`python scripts/golden.py --write` takes them as golden."
)


def test_the_compiler_writes_the_golden_kernels():
    found = {name: hashlib.sha256("\n".join(text).encode()).hexdigest()[:16] for name, text in programs()}
    golden = json.loads(GOLDEN.read_text())
    missing = sorted(golden.keys() - found.keys())
    new = sorted(found.keys() - golden.keys())
    changed = sorted(n for n in found.keys() & golden.keys() if found[n] != golden[n])
    assert not changed, f"{len(changed)} programs compile to other kernels: {changed[:5]}.{HINT}"
    assert not new, f"{len(new)} programs are new: {new[:5]}.{HINT}"
    assert not missing, f"{len(missing)} programs are gone: {missing[:5]}.{HINT}"
