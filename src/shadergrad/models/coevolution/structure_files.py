"""Scripts that show predicted contacts in structure viewers, and the contacts of a given structure. In: scores, or a PDB or mmCIF file.
Out: scripts, or a contact map.

The scripts draw a line between the Cα of both residues of each pair, redder for likelier ones: load the complex, then run the script.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...data import DataError
from ...system.atomic_files import replacing
from ...system.optional_packages import require
from .contact_files import TOUCHING, best_pairs
from .families import Family
from .numbering import NONE, Numbers
from .vocabulary import decode

NO_ALTERNATIVE = "\0"  # gemmi's altloc of an atom with one place
LEAST_EQUAL = 0.5  # of the residues that a chain and the query share by number


def write_pymol(path: str | Path, pairs: list[tuple[int, int, float]], chains: tuple[str, str] = ("A", "B")) -> None:
    """A script for PyMOL of pairs (residue number in a, in b, probability).

    >>> path = Path(tempfile.mkdtemp()) / "contacts.pml"
    >>> sg.models.coevolution.write_pymol(path, [(24, 7, 0.5)])
    >>> path.read_text().splitlines()[1]
    'distance contact_1, (chain A and resi 24 and name CA), (chain B and resi 7 and name CA)'
    """
    lines = ["# PyMOL: load the complex, then @contacts.pml"]
    for k, (i, j, probability) in enumerate(pairs, 1):
        ends = (f"(chain {chain} and resi {_escaped(n)} and name CA)" for chain, n in zip(chains, (i, j), strict=True))
        lines += [f"distance contact_{k}, {', '.join(ends)}", f"set dash_color, 0x{_colour(probability)}, contact_{k}"]
    lines += ["group contacts, contact_*", "hide labels, contacts"]
    _write(path, lines)


def write_chimerax(path: str | Path, pairs: list[tuple[int, int, float]], chains: tuple[str, str] = ("A", "B")) -> None:
    """A script for ChimeraX of pairs (residue number in a, in b, probability).

    >>> path = Path(tempfile.mkdtemp()) / "contacts.cxc"
    >>> sg.models.coevolution.write_chimerax(path, [(24, 7, 0.5)])
    >>> path.read_text().splitlines()[1]
    'distance /A:24@CA /B:7@CA color #bf4040 dashes 0'
    """
    lines = ["# ChimeraX: open the complex, then this file"]
    lines += [
        f"distance /{chains[0]}:{i}@CA /{chains[1]}:{j}@CA color #{_colour(probability)} dashes 0"
        for i, j, probability in pairs
    ]
    _write(path, [*lines, "~label", "distance style symbol false"])


def numbered_pairs(
    scores: np.ndarray, probabilities: np.ndarray, numbers: Numbers, top: int
) -> list[tuple[int, int, float]]:
    """The `top` best pairs as residue numbers and probabilities, without columns in which the query lacks a residue.

    >>> scores = np.array([[1.0, 2.0]])
    >>> sg.models.coevolution.numbered_pairs(scores, scores / 4, (np.array([24]), np.array([7, 8])), top=1)
    [(24, 8, 0.5)]
    """
    known = np.logical_and.outer(numbers[0] != NONE, numbers[1] != NONE)
    found = best_pairs(np.where(known, scores, np.nan), top)
    return [(int(numbers[0][i]), int(numbers[1][j]), float(probabilities[i, j])) for i, j in found]


def structure_contacts(
    path: str | Path, family: Family, numbers: Numbers, chains: tuple[str, str] = ("A", "B")
) -> tuple[Family, np.ndarray]:
    """The family with the contacts of a complex, and whether each pair of columns is resolved in it, bool (length_a, length_b).

    path: PDB or mmCIF, also gzipped, read by gemmi (`pip install "shadergrad[structure]"`). A contact is a pair of residues whose Cβ (Cα
    where there is none, as in glycine) are closer than 8 Å, residues by their numbers in the file. Of several models the first is
    read, of alternative places the likeliest; residues with an insertion code are left out. Raises DataError for a file that cannot be
    read, a chain that does not exist, two residues of one number, and residues that are not the query's.

    >>> rows = np.array([[0, 1]], np.uint8)
    >>> family = sg.models.coevolution.Family("x", rows, rows)
    >>> numbers = sg.models.coevolution.residue_numbers(family)
    >>> try:
    ...     sg.models.coevolution.structure_contacts("missing.pdb", family, numbers)
    ... except sg.ShadergradError as error:
    ...     print("gemmi" in str(error) or "missing.pdb" in str(error))
    True
    """
    places = _both_places(path, family, numbers, chains)
    apart = np.linalg.norm(places[0][:, None] - places[1][None], axis=-1)
    return replace(family, contacts=np.nan_to_num(apart, nan=np.inf) < TOUCHING), np.isfinite(apart)


def structure_within(
    path: str | Path, family: Family, numbers: Numbers, chains: tuple[str, str] = ("A", "B")
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(contacts, resolved) within each protein, both bool (n, n). As structure_contacts, with its errors.

    >>> rows = np.array([[0, 1]], np.uint8)
    >>> family = sg.models.coevolution.Family("x", rows, rows)
    >>> try:
    ...     sg.models.coevolution.structure_within("missing.pdb", family, sg.models.coevolution.residue_numbers(family))
    ... except sg.ShadergradError as error:
    ...     print("gemmi" in str(error) or "missing.pdb" in str(error))
    True
    """
    apart = [np.linalg.norm(own[:, None] - own[None], axis=-1) for own in _both_places(path, family, numbers, chains)]
    return [(np.nan_to_num(each, nan=np.inf) < TOUCHING, np.isfinite(each)) for each in apart]


def _both_places(path: str | Path, family: Family, numbers: Numbers, chains: tuple[str, str]) -> list[np.ndarray]:
    gemmi = require("gemmi", "structure", "reading a structure")
    try:
        structure = gemmi.read_structure(str(path))
        model = structure[0]
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        raise DataError(f"cannot read {path} as PDB or mmCIF: {str(error).rstrip('.')}.") from None
    elsewhere = {chain.name for other in list(structure)[1:] for chain in other} - {chain.name for chain in model}
    if missing := sorted(elsewhere & set(chains)):
        raise DataError(
            f"{path}: chain {missing[0]!r} is in a later model only, and contacts are read from the first. "
            "Hint: the mmCIF of the assembly, which has all its chains in one model."
        )
    return [
        _places(model, chain, path, family, side, own)
        for side, (chain, own) in enumerate(zip(chains, numbers, strict=True))
    ]


def _places(model: Any, chain: str, path: str | Path, family: Family, side: int, numbers: np.ndarray) -> np.ndarray:
    """The Cβ of each column's residue, (length, 3); NaN for those that are not in the file."""
    known = [each.name for each in model]
    if not known:
        raise DataError(f"{path} holds no atoms: is it a PDB or mmCIF?")
    if chain not in known:
        raise DataError(
            f"{path} has no chain {chain!r}; it has {', '.join(dict.fromkeys(known))}. Hint: --chain-{'ab'[side]}."
        )
    letters = decode((family.a, family.b)[side][0])
    residues = _residues(model, chain, path)
    places, equal, shared = np.full((len(numbers), 3), np.nan), 0, 0
    for column, number in enumerate(numbers.tolist()):
        if number in residues:
            letter, place = residues[number]
            places[column] = place
            shared += 1
            equal += letter == letters[column]
    if not shared or equal < LEAST_EQUAL * shared:
        first = int(numbers[numbers != NONE].min())
        raise DataError(
            f"{path}, chain {chain}: {equal} of {shared} residues are those of the query by number. "
            f"Hint: --first-{'ab'[side]} gives the number of the query's first residue, which is now {first}"
            f"{_fitting(residues, letters, numbers, first)}"
        )
    return places


def _fitting(residues: dict[int, tuple[str, list[float]]], letters: str, numbers: np.ndarray, first: int) -> str:
    """The end of an error text: the first number with which most residues of the query equal the chain's, if there is one."""
    own = [(int(n), letter) for n, letter in zip(numbers, letters, strict=True) if n != NONE]
    shifts = Counter(there - n for n, letter in own for there, (name, _) in residues.items() if name == letter)
    if not shifts:
        return "; no number fits: is it this chain?"
    shift, equal = shifts.most_common(1)[0]
    shared = sum(n + shift in residues for n, _ in own)
    fits = equal >= max(LEAST_EQUAL * shared, LEAST_EQUAL * min(len(own), len(residues)), 3)
    return f"; with {first + shift}, {equal} of {shared} are." if fits else "; no number fits: is it this chain?"


def _residues(model: Any, chain: str, path: str | Path) -> dict[int, tuple[str, list[float]]]:
    """The letter and the Cβ of each residue by its number, from all parts of the chain that the file has.

    Of alternative places, and of residues that share a number as alternatives, the one with the highest occupancy, the first of equals.
    Residues with an insertion code have no number of their own and are left out. Raises DataError for two residues of one number.
    """
    gemmi = require("gemmi", "structure", "reading a structure")
    found: dict[int, tuple[str, list[float]]] = {}
    taken: dict[int, Any] = {}
    for residue in (each for part in model if part.name == chain for each in part):
        letter = gemmi.find_tabulated_residue(residue.name).one_letter_code.upper()
        number, atom = residue.seqid.num, _beta(residue)
        if atom is None or not letter.strip() or residue.seqid.icode.strip():
            continue
        before = taken.get(number)
        if before is not None and NO_ALTERNATIVE in (atom.altloc, before.altloc):
            raise DataError(
                f"{path}, chain {chain}: two residues have the number {number}. Hint: a file in which each copy of a protein "
                "is a chain of its own."
            )
        if before is None or atom.occ > before.occ:
            taken[number], found[number] = atom, (letter, atom.pos.tolist())
    return found


def _beta(residue: Any) -> Any:
    """The Cβ of a residue, its Cα where it has none, the likeliest of several places; None for a residue without both."""
    for name in ("CB", "CA"):
        atoms = [atom for atom in residue if atom.name == name and atom.element.name == "C"]
        if atoms:
            return max(atoms, key=lambda atom: atom.occ)
    return None


def _escaped(number: int) -> str:
    return f"\\{number}" if number < 0 else str(number)  # PyMOL reads -5 as a range


def _colour(probability: float) -> str:
    """From grey to red."""
    p = min(max(probability, 0.0), 1.0)
    red, other = round(127.5 + 127.5 * p), round(127.5 * (1 - p))
    return f"{red:02x}{other:02x}{other:02x}"


def _write(path: str | Path, lines: list[str]) -> None:
    with replacing(path, DataError) as file:
        file.write(("\n".join(lines) + "\n").encode())
