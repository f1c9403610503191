"""Names in exported text, checked for a target language or adapted to it.

In: names, any text. Out: identifiers of C, Verilog and WGSL (or CircuitError), words of BLIF, lines of AIGER and drawings.
WebAssembly and JavaScript export names of their own and contain none of the circuit's.
"""

from __future__ import annotations

import re

from .errors import CircuitError
from .reserved_words import RESERVED


def check_name(name: str, what: str, language: str = "") -> str:
    """A name with which an identifier may begin in every language. With `language` (Verilog, WGSL), a name that is an identifier
    itself, neither reserved nor used by the generated text. Raises CircuitError for another."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise CircuitError(f"[{what}] the name {name!r} is no identifier; use letters, digits and _, a letter first.")
    if language and name in RESERVED[language]:
        raise CircuitError(
            f"[{what}] {language} reserves the name {name!r}.\n  Hint: another one, such as {name}_circuit."
        )
    if language and re.fullmatch(r"[xyg]\d*", name):
        raise CircuitError(
            f"[{what}] the {language} text names its wires x0, g0 and so on, and {name!r} among them.\n"
            f"  Hint: another one, such as {name}_circuit."
        )
    return name


def line(name: str) -> str:
    """A name on one line: blanks for anything but a visible character or a blank, such as line breaks."""
    return "".join(c if c.isprintable() else " " for c in name)


def word(name: str) -> str:
    """A word of BLIF: visible ASCII, without the comment's #, the continued line's backslash, = and quotes; underscores for the others."""
    return re.sub(r"[^!-~]|[#\\=\"]", "_", "_".join(name.split()))


def words(names: list[str], prefix: str) -> list[str]:
    """Distinct words of BLIF: if two names become equal, or one empty, all are the prefix and their number."""
    found = [word(name) for name in names]
    return found if len(set(found)) == len(found) and all(found) else [f"{prefix}{k}" for k in range(len(found))]


def apart(names: list[str], prefix: str, taken: set[str]) -> list[str]:
    """The names, with the prefix in front as many times as needed for none to be taken."""
    while taken.intersection(names):
        names = [f"{prefix}{name}" for name in names]
    return names
