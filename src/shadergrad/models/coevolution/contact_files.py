"""Contacts in files. In: tab-separated lines with a header. Out: contact maps. Also writes predicted contacts.

Columns by name: i, j (places in the chains' columns, from 1), and, for several families, family. With a
column distance (Å, of Cβ) a line is a contact if it is below 8 Å, the field's convention; without, every line is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import DataError
from ...system.atomic_files import replacing
from .alignments import A3M, FASTA, STOCKHOLM, read_lines, read_pairs, suffix_of
from .families import Family
from .numbering import NONE, Numbers, residue_numbers
from .vocabulary import decode

TOUCHING = 8.0  # Å between Cβ
COLUMNS = ("family", "i", "j", "distance", "score", "probability")


def read_contacts(path: str | Path, families: Sequence[Family]) -> list[Family]:
    """The families with their contacts from a file; those that it does not name keep theirs, or None.

    Raises a DataError that names the line for an unknown family, a position outside the chains, or a value that is not a number.

    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "contacts.tsv").write_text("i\\tj\\tdistance\\n1\\t2\\t5.5\\n2\\t1\\t9.0\\n")
    >>> rows = np.zeros((1, 2), np.uint8)
    >>> families = [sg.models.coevolution.Family("one", rows, rows)]
    >>> sg.models.coevolution.read_contacts(folder / "contacts.tsv", families)[0].contacts.astype(int)
    array([[0, 1],
           [0, 0]])
    """
    path = Path(path)
    lines = [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip() and line[0] != "#"]
    if not lines:
        raise DataError(f"{path} is empty; its first line names the columns, as family, i, j, distance.")
    header = lines[0][1].split("\t")
    for name in ("i", "j", *(["family"] if len(families) > 1 else [])):
        if name not in header:
            raise DataError(f"{path}, line {lines[0][0]}: there is no column {name!r} in {', '.join(header)}.")
    maps: dict[str, np.ndarray] = {}
    known = {family.name: family for family in families}
    for number, line in lines[1:]:
        words = dict(zip(header, line.split("\t"), strict=False))
        try:
            i, j = int(words["i"]), int(words["j"])
            close = float(words["distance"]) < TOUCHING if "distance" in header else True
        except (KeyError, ValueError):
            raise DataError(f"{path}, line {number}: {line!r} does not fit the columns {', '.join(header)}.") from None
        family = known.get(words.get("family", families[0].name))
        if family is None:
            raise DataError(f"{path}, line {number}: there is no family {words['family']!r}.")
        if not (1 <= i <= family.shape[0] and 1 <= j <= family.shape[1]):
            raise DataError(f"{path}, line {number}: {i}, {j} lies outside {family.name}, {family.shape}.")
        found = maps.setdefault(family.name, np.zeros(family.shape, bool))
        found[i - 1, j - 1] |= close
    return [replace(f, contacts=maps[f.name]) if f.name in maps else f for f in families]


def best_pairs(scores: np.ndarray, top: int) -> list[tuple[int, int]]:
    """The `top` column pairs with the best scores (length_a, length_b), best first; those without a score (NaN) left out."""
    order = np.argsort(-scores.reshape(-1), kind="stable")
    order = order[np.isfinite(scores.reshape(-1)[order])][:top]
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, scores.shape), strict=True)]


def write_contacts(
    path: str | Path,
    family: Family,
    scores: np.ndarray,
    probabilities: np.ndarray,
    top: int,
    numbers: Numbers | None = None,
) -> None:
    """The `top` best column pairs (length_a, length_b), best first: i, j, residue_i, residue_j, score, probability, number_i, number_j.

    The residues are those of the first pair, the numbers theirs by residue_numbers; both are - in its gaps, as is a
    probability that a method does not give (NaN). Skips pairs of columns without a score (NaN).

    >>> folder, rows = Path(tempfile.mkdtemp()), np.array([[0, 1]], np.uint8)
    >>> family = sg.models.coevolution.Family("one", rows, rows)
    >>> scores = np.array([[1.0, 3.0], [2.0, 0.0]])
    >>> sg.models.coevolution.write_contacts(folder / "best.tsv", family, scores, scores / 4, top=2)
    >>> (folder / "best.tsv").read_text().splitlines()[1].split("\\t")
    ['1', '2', 'A', 'C', '3.0000', '0.7500', '1', '2']
    """
    lines = ["i\tj\tresidue_i\tresidue_j\tscore\tprobability\tnumber_i\tnumber_j"]
    first_a, first_b = decode(family.a[0]), decode(family.b[0])
    own, other = residue_numbers(family) if numbers is None else numbers
    for i, j in best_pairs(scores, top):
        named = ("-" if n == NONE else str(n) for n in (own[i], other[j]))
        likely = f"{probabilities[i, j]:.4f}" if np.isfinite(probabilities[i, j]) else "-"
        values = "\t".join((f"{scores[i, j]:.4f}", likely, *named))
        lines.append(f"{i + 1}\t{j + 1}\t{first_a[i]}\t{first_b[j]}\t{values}")
    with replacing(path, DataError) as file:
        file.write(("\n".join(lines) + "\n").encode())


def write_family(folder: str | Path, family: Family) -> Path:
    """A family as a paired FASTA, `a:b` in each sequence, into a folder; returns the file. Raises DataError if it cannot.

    >>> rows = np.array([[0, 1]], np.uint8)
    >>> family = sg.models.coevolution.Family("one", rows, rows, names=("human",))
    >>> sg.models.coevolution.write_family(tempfile.mkdtemp(), family).read_text()
    '>human\\nAC:AC\\n'
    """
    path = Path(folder) / f"{family.name}.fasta"
    names = family.names or tuple(str(k) for k in range(family.depth))
    rows = zip(names, family.a, family.b, strict=True)
    text = "".join(f">{name}\n{decode(a)}:{decode(b)}\n" for name, a, b in rows)
    with replacing(path, DataError) as file:
        file.write(text.encode())
    return path


def read_families(
    path: str | Path, contacts: str | Path | None = None, partner: str | Path | None = None, length_a: int | None = None
) -> list[Family]:
    """The family in a file, or those in the files of a folder, with their contacts from an optional TSV.

    Raises DataError if there is no family, or the files do not fit. See `read_pairs` and `read_contacts`.

    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = np.array([[0, 1]], np.uint8)
    >>> for name in ("two", "one"):
    ...     _ = sg.models.coevolution.write_family(folder, sg.models.coevolution.Family(name, rows, rows))
    >>> [family.name for family in sg.models.coevolution.read_families(folder)]
    ['one', 'two']
    """
    path = Path(path)
    if path.is_dir():
        if partner is not None:
            raise DataError(f"{path} is a folder of families; a second file goes with a first file.")
        known = FASTA + A3M + STOCKHOLM
        files = sorted(file for file in path.iterdir() if suffix_of(file) in known)
        if not files:
            raise DataError(f"{path} holds no family: no file that ends in {' '.join(known)}, with or without .gz.")
        families = [read_pairs(file, length_a=length_a) for file in files]
    else:
        families = [read_pairs(path, partner, length_a=length_a)]
    names = [family.name for family in families]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} holds the family {twice!r} twice, in two formats.")
    return families if contacts is None else read_contacts(contacts, families)
