"""Residue numbers, scripts for viewers, and the contacts of a structure."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from shadergrad.data import DataError
from shadergrad.models import coevolution as co
from shadergrad.models.coevolution.numbering import NONE


def family(names: tuple[str, ...] = ("q", "r")) -> co.Family:
    """Queries A-CG (a gap in its second column) and DEF."""
    a = np.stack([co.encode("A-CG"), co.encode("AKCG")])
    return co.Family("two", a, np.stack([co.encode("DEF"), co.encode("DE-")]), None, names, True)


def test_numbers_count_the_residues_of_the_query_from_where_it_is_said_to_begin() -> None:
    cases = [
        (("q", "r"), (None, None), ([1, NONE, 2, 3], [1, 2, 3])),
        (("P1/24-26+P2/7-9", "r"), (None, None), ([24, NONE, 25, 26], [7, 8, 9])),
        (("P1/24-26+P2", "r"), (None, -1), ([24, NONE, 25, 26], [-1, 0, 1])),
        (("P1/24-26+P2/7-9", "r"), (5, 0), ([5, NONE, 6, 7], [0, 1, 2])),
        ((), (None, 10), ([1, NONE, 2, 3], [10, 11, 12])),
    ]
    for names, firsts, expected in cases:
        found = co.residue_numbers(family(names), *firsts)
        assert tuple(own.tolist() for own in found) == expected


def test_tables_have_both_numberings(tmp_path: Path) -> None:
    scores = np.arange(12.0).reshape(4, 3)
    co.write_contacts(tmp_path / "c.tsv", family(), scores, scores / 12, 12, co.residue_numbers(family(), 24, 7))
    rows = [line.split("\t") for line in (tmp_path / "c.tsv").read_text().splitlines()]
    assert rows[0][-2:] == ["number_i", "number_j"]
    assert rows[1] == ["4", "3", "G", "F", "11.0000", "0.9167", "26", "9"]
    assert [row[6] for row in rows[1:] if row[0] == "2"] == ["-"] * 3


def test_scripts_draw_residues_by_number_and_leave_gaps_of_the_query_out(tmp_path: Path) -> None:
    scores = np.arange(12.0).reshape(4, 3)
    pairs = co.numbered_pairs(scores, scores / 11, co.residue_numbers(family(), 24, -1), top=5)
    assert [pair[:2] for pair in pairs] == [(26, 1), (26, 0), (26, -1), (25, 1), (25, 0)]
    co.write_pymol(tmp_path / "c.pml", pairs, ("C", "D"))
    co.write_chimerax(tmp_path / "c.cxc", pairs, ("C", "D"))
    pymol, chimerax = ((tmp_path / f"c.{end}").read_text().splitlines() for end in ("pml", "cxc"))
    assert pymol[1] == "distance contact_1, (chain C and resi 26 and name CA), (chain D and resi 1 and name CA)"
    assert pymol[2] == "set dash_color, 0xff0000, contact_1"
    assert r"(chain D and resi \-1 and name CA)" in pymol[5]
    assert chimerax[1] == "distance /C:26@CA /D:1@CA color #ff0000 dashes 0"
    assert len([line for line in chimerax if line.startswith("distance /")]) == 5


# -- structures

CHAIN_A = {24: ("ALA", (0.0, 0.0, 0.0)), 25: ("CYS", (10.0, 0.0, 0.0)), 26: ("GLY", (20.0, 0.0, 0.0))}
CHAIN_B = {7: ("ASP", (0.0, 7.9, 0.0)), 8: ("GLU", (20.0, 8.1, 0.0))}  # PHE 9 is not resolved


def pdb(path: Path) -> Path:
    lines, serial = [], 0
    for chain, residues in (("A", CHAIN_A), ("B", CHAIN_B)):
        for number, (name, place) in residues.items():
            for atom, shift in (("CA", 0.0 if name == "GLY" else 50.0), ("CB", 0.0)):
                if atom == "CB" and name == "GLY":
                    continue
                serial += 1
                x, y, z = place[0], place[1], place[2] + shift
                lines.append(
                    f"ATOM  {serial:5d}  {atom:<3} {name} {chain}{number:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00           C"
                )
    text = "\n".join([*lines, "END"]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["complex.pdb", "complex.pdb.gz"])
def test_contacts_of_a_structure_are_close_beta_carbons_by_residue_number(tmp_path: Path, name: str) -> None:
    pytest.importorskip("gemmi", reason='STRUCTURES NOT TESTED, no gemmi: pip install "shadergrad[structure]"')
    path = pdb(tmp_path / name)
    numbers = co.residue_numbers(family(), 24, 7)
    found, resolved = co.structure_contacts(path, family(), numbers)
    assert found.contacts is not None
    assert np.argwhere(found.contacts).tolist() == [[0, 0]]  # 7.9 Å; glycine's Cα at 8.1 Å is none
    assert resolved.tolist() == [[True, True, False], [False] * 3, [True, True, False], [True, True, False]]
    (within, within_resolved), (_, other) = co.structure_within(path, family(), numbers)
    assert np.argwhere(within).tolist() == [[0, 0], [2, 2], [3, 3]]
    assert within_resolved.sum() == 9
    assert other.sum() == 4
    with pytest.raises(DataError, match=r"chain A: 0 of 0 residues .* Hint: --first-a gives .* which is now 1"):
        co.structure_contacts(path, family(), co.residue_numbers(family()))
    with pytest.raises(DataError, match=r"chain A: 0 of 2 residues are those of the query"):
        co.structure_contacts(path, family(), co.residue_numbers(family(), 25, 7))
    with pytest.raises(DataError, match=r"no chain 'X'; it has A, B. Hint: --chain-b"):
        co.structure_contacts(path, family(), numbers, ("A", "X"))


def test_numbers_that_do_not_fit_a_structure_are_named_with_those_that_do(tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi", reason='STRUCTURES NOT TESTED, no gemmi: pip install "shadergrad[structure]"')
    structure = gemmi.read_structure(str(pdb(tmp_path / "x.pdb")))
    structure.setup_entities()
    structure.make_mmcif_document().write_file(str(tmp_path / "x.cif"))
    for path in (tmp_path / "x.pdb", tmp_path / "x.cif"):
        found, _ = co.structure_contacts(path, family(), co.residue_numbers(family(), 24, 7))
        assert found.contacts is not None
        assert found.contacts.sum() == 1
        with pytest.raises(DataError, match=r"--first-a gives .* which is now 1; with 24, 3 of 3 are\."):
            co.structure_contacts(path, family(), co.residue_numbers(family(), 1, 7))
        with pytest.raises(DataError, match=r"no number fits: is it this chain\?$"):
            co.structure_contacts(path, family(), co.residue_numbers(family(), 24, 7), ("B", "A"))


def test_a_file_that_is_no_structure_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gemmi", reason='STRUCTURES NOT TESTED, no gemmi: pip install "shadergrad[structure]"')
    (tmp_path / "x.cif").write_text("no structure")
    (tmp_path / "x.pdb").write_text("no structure")
    with pytest.raises(DataError, match="holds no atoms: is it a PDB or mmCIF"):
        co.structure_contacts(tmp_path / "x.pdb", family(), co.residue_numbers(family()))
    for path in (tmp_path / "x.cif", tmp_path / "missing.pdb"):
        with pytest.raises(DataError, match=r"cannot read .* as PDB or mmCIF: .*[^.]\.$"):
            co.structure_contacts(path, family(), co.residue_numbers(family()))


# -- what files of structures are like


def atom(
    name: str,
    residue: str,
    chain: str,
    number: str,
    place: tuple[float, float, float],
    *,
    alt: str = " ",
    occ: float = 1.0,
) -> str:
    """A line of a PDB; number: with its insertion code, a blank or a letter."""
    x, y, z = place
    return f"ATOM      1  {name:<3}{alt}{residue} {chain}{number:>5}   {x:8.3f}{y:8.3f}{z:8.3f}{occ:6.2f}  0.00           C"


FAR = (90.0, 90.0, 90.0)
PLAIN = [
    atom("CB", "ALA", "A", "24 ", (0, 0, 0)),
    atom("CB", "CYS", "A", "25 ", (10, 0, 0)),
    atom("CA", "GLY", "A", "26 ", (20, 0, 0)),
    atom("CB", "ASP", "B", "7 ", (0, 7.9, 0)),
    atom("CB", "GLU", "B", "8 ", (20, 8.1, 0)),
]
TRAPS = {
    "alternative places": [
        atom("CB", "ALA", "A", "24 ", FAR, alt="A", occ=0.3),
        atom("CB", "ALA", "A", "24 ", (0, 0, 0), alt="B", occ=0.7),
        *PLAIN[1:],
    ],
    "alternative residues": [
        atom("CB", "SER", "A", "24 ", FAR, alt="A", occ=0.4),
        atom("CB", "ALA", "A", "24 ", (0, 0, 0), alt="B", occ=0.6),
        *PLAIN[1:],
    ],
    "alternative residues, the likelier first": [
        atom("CB", "ALA", "A", "24 ", (0, 0, 0), alt="A", occ=0.6),
        atom("CB", "SER", "A", "24 ", FAR, alt="B", occ=0.4),
        *PLAIN[1:],
    ],
    "insertion codes": [PLAIN[0], atom("CB", "ALA", "A", "24A", FAR), atom("CB", "TRP", "A", "24B", FAR), *PLAIN[1:]],
    "several models": [
        "MODEL        1",
        *PLAIN,
        "ENDMDL",
        "MODEL        2",
        atom("CB", "ALA", "A", "24 ", FAR),
        "ENDMDL",
    ],
    "parts of a chain": [PLAIN[0], "TER", *PLAIN[3:], "TER", *PLAIN[1:3]],
    "a calcium ion and a ligand": [
        *PLAIN,
        atom("CA", " CA", "A", "24 ", FAR).replace("ATOM  ", "HETATM")[:76] + "CA",
        atom("CB", "ATP", "B", "7 ", FAR).replace("ATOM  ", "HETATM"),
        atom("CA", "HOH", "B", "8 ", FAR).replace("ATOM  ", "HETATM"),
    ],
    "a modified residue": [
        *PLAIN[:1],
        atom("CB", "CSO", "A", "25 ", (10, 0, 0)).replace("ATOM  ", "HETATM"),
        *PLAIN[2:],
    ],
}


@pytest.mark.parametrize("ending", ["pdb", "cif"])
@pytest.mark.parametrize("trap", TRAPS)
def test_contacts_are_those_of_the_plain_file(tmp_path: Path, trap: str, ending: str) -> None:
    gemmi = pytest.importorskip("gemmi", reason="no gemmi: pip install shadergrad[structure]")
    path = tmp_path / f"s.{ending}"
    (tmp_path / "s.pdb").write_text("\n".join([*TRAPS[trap], "END"]) + "\n")
    if ending == "cif":
        gemmi.read_structure(str(tmp_path / "s.pdb")).make_mmcif_document().write_file(str(path))
    found, resolved = co.structure_contacts(path, family(), co.residue_numbers(family(), 24, 7))
    assert found.contacts is not None
    assert found.contacts.astype(int).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    rows = [[True, True, False], [False] * 3, [True, True, False], [True, True, False]]
    assert resolved.tolist() == rows  # no residue 9, and a gap in the query


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*PLAIN, atom("CB", "ALA", "A", "24 ", FAR)], "two residues have the number 24"),
        (["MODEL        1", *PLAIN[:3], "ENDMDL", "MODEL        2", *PLAIN[3:], "ENDMDL"], "'B' is in a later model"),
    ],
)
def test_files_that_leave_open_which_residue_is_meant_are_refused(tmp_path: Path, lines: list[str], words: str) -> None:
    pytest.importorskip("gemmi", reason="no gemmi: pip install shadergrad[structure]")
    (tmp_path / "s.pdb").write_text("\n".join([*lines, "END"]) + "\n")
    with pytest.raises(DataError, match=words):
        co.structure_contacts(tmp_path / "s.pdb", family(), co.residue_numbers(family(), 24, 7))
