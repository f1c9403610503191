"""Files of pairs, and what becomes of them: every format, every mistake with its file and line, few shapes, masks."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from shadergrad.data import DataError
from shadergrad.models import coevolution as co


def texts(family: co.Family) -> list[tuple[str, str]]:
    return [(co.decode(a), co.decode(b)) for a, b in zip(family.a, family.b, strict=True)]


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


PAIRS = [("MKV", "GH-E"), ("M-V", "GHLE")]
ONE_FILE = {
    "p.fasta": ">one x\nMKV:G\nH-E\n\n>two\nm-v:ghle*\n",
    "p.fa.gz": ">one\nMKV/GH-E\n>two\nM-V/GHLE\n",
    "p.a3m": "#3,4\t1,1\n>one\nMaKVGH-Edd\n>two\nM-VG..HLE\n",
    "p.a3m.gz": ">one\nMKV:GhhH-E\n>two\nM-V:GHLE\n",
    "p.a2m": ">one\nMk.V:GH-.E\n>two\nM.aV:GhLlE\n",
    "p.sto": "# STOCKHOLM 1.0\n#=GF ID x\none MKV:G\ntwo M.V:G\n\none H-E\n#=GC SS ...\ntwo HLE\n//\n",
}


@pytest.mark.parametrize("name", ONE_FILE)
def test_pairs_of_one_file(tmp_path: Path, name: str) -> None:
    family = co.read_pairs(put(tmp_path, name, ONE_FILE[name]))
    assert texts(family) == PAIRS
    assert (family.name, family.names, family.aligned) == ("p", ("one", "two"), True)


def test_an_a2m_keeps_the_residues_of_the_query_and_one_without_dots_is_an_a3m(tmp_path: Path) -> None:
    """The lower-case letters of the query are residues of weak columns: without them the numbers of those behind would be wrong."""
    rows = texts(co.read_pairs(put(tmp_path, "p.a2m", ">q\nMk.V:G-H\n>r\nM.aV:GHH\n")))
    assert rows == [("MKV", "G-H"), ("M-V", "GHH")]
    assert texts(co.read_pairs(put(tmp_path, "p.a2m", ">q\nMKV:GH\n>r\nMaKV:GH\n"))) == [("MKV", "GH")] * 2


def test_a_mark_of_byte_order_and_first_lines_that_state_no_two_lengths_are_skipped(tmp_path: Path) -> None:
    assert texts(co.read_pairs(put(tmp_path, "p.fasta", "\ufeff>one\nMKV:GH-E\n>two\nM-V:GHLE\n"))) == PAIRS
    for line in ("#3\t1", "#A3M#", "#GroEL, of E. coli"):
        first = put(tmp_path, "a.a3m", f"{line}\n>one\nMKV\n>two\nM-V\n")
        assert texts(co.read_pairs(first, put(tmp_path, "b.a3m", ">one\nGH-E\n>two\nGHLE\n"))) == PAIRS


def test_pairs_of_one_file_by_the_length_of_the_first_chain(tmp_path: Path) -> None:
    path = put(tmp_path, "p.fasta", ">one\nMKVGH-E\n>two\nM-VGHLE\n")
    assert texts(co.read_pairs(path, length_a=3)) == PAIRS


def test_pairs_of_two_files_by_name_and_by_order(tmp_path: Path) -> None:
    first = put(tmp_path, "a.fasta", ">one\nMKV\n>alone\nMMM\n>two\nM-V\n")
    second = put(tmp_path, "b.sto", "# STOCKHOLM 1.0\ntwo GHLE\none GH-E\nother GGGG\n//\n")
    assert texts(co.read_pairs(first, second)) == PAIRS
    assert texts(co.read_pairs(first, second, by="order"))[0] == ("MKV", "GHLE")


def test_sequences_of_different_lengths_are_no_alignment(tmp_path: Path) -> None:
    family = co.read_pairs(put(tmp_path, "p.fasta", ">one\nMK-V:GH\n>two\nM:GHLE\n"))
    assert not family.aligned
    assert texts(family) == [("MKV", "GH--"), ("M--", "GHLE")]
    with pytest.raises(co.FamilyError, match="not aligned"):
        co.dca.mutual_information(family)


WRONG = {
    "p.fasta": [
        ("", "holds no sequences"),
        ("MKV:GH\n", r"p\.fasta, line 1: a sequence without a name"),
        (">one\n>two\nM:K\n", r"p\.fasta, line 1: one has no sequence"),
        (">one\nM:K\n>two\nM:K1\n", r"p\.fasta, line 3: two: '1' at position 2 is no residue"),
        (">one\nM:K\n>two\nMK\n", r"p\.fasta, line 3: two has no separator"),
        (">one\nM:K:V\n", r"line 1: one is not two chains"),
        (">one\nM:\n", r"line 1: one is not two chains"),
    ],
    "p.a3m": [
        ("#3,4\n>one\nMKVGH\n", r"p\.a3m, line 2: one has 5 columns; line 1 says 3 and 4"),
        ("#3\n>one\nMKVGH\n", r"p\.a3m, line 2: one has no separator"),
        ("#3,4,5\n>one\nMKVGH\n", r"p\.a3m, line 1: '#3,4,5'; a paired A3M says"),
        (">one\nMKV:GH\n>two\nMK:GH\n", r"p\.a3m, line 3: two has 2 columns, one, line 1, 3; .*"),
    ],
    "p.sto": [
        ("one MKV:GH\n", r"p\.sto, line 1: a Stockholm file begins"),
        ("# STOCKHOLM 1.0\none MKV:GH\n", "cut short"),
        ("# STOCKHOLM 1.0\none MKV GH\n//\n", r"p\.sto, line 2: a name and a sequence, not 3 words"),
        ("# STOCKHOLM 1.0\none M:G\n//\n\n# STOCKHOLM 1.0\n", r"p\.sto, line 5: a second alignment begins"),
    ],
    "p.txt": [("", "'.txt' says no format")],
}


@pytest.mark.parametrize(("name", "text", "message"), [(n, *case) for n, cases in WRONG.items() for case in cases])
def test_a_mistake_is_named_with_its_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        co.read_pairs(put(tmp_path, name, text))


def test_files_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    a = put(tmp_path, "a.fasta", ">one\nMKV\n>two\nMKV\n")
    with pytest.raises(DataError, match=r"a\.fasta, line 1: 'one', as all others, has no partner in .*c\.fasta"):
        co.read_pairs(a, put(tmp_path, "c.fasta", ">three\nGH\n"))
    with pytest.raises(DataError, match=r"b\.fasta, line 3: 'one' stands there twice, first on line 1"):
        co.read_pairs(a, put(tmp_path, "b.fasta", ">one\nGH\n>one\nGH\n"))
    with pytest.raises(DataError, match=r"has 2 sequences, .* 1: paired by order"):
        co.read_pairs(a, tmp_path / "c.fasta", by="order")
    for name, text, message in (
        ("p.fasta", ">one\nMKV:GH\n", "line 1: one has 3 columns before its ':', not 2"),
        ("p.a3m", "#3,2\n>one\nMKVGH\n", "line 1: a first chain of 3 columns, not 2"),
    ):
        assert co.read_pairs(put(tmp_path, name, text), length_a=3).shape == (3, 2)
        with pytest.raises(DataError, match=message):
            co.read_pairs(tmp_path / name, length_a=2)
    with pytest.raises(
        DataError, match=r"a first chain of 2 columns parts the rows of one file, and .*c\.fasta is a second"
    ):
        co.read_pairs(a, tmp_path / "c.fasta", length_a=2)
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.fa"):
        co.read_pairs(tmp_path / "nowhere.fa")
    (tmp_path / "cut.fa.gz").write_bytes(gzip.compress(b">one\nM:K\n")[:-6])
    with pytest.raises(DataError, match="no whole gzip file"):
        co.read_pairs(tmp_path / "cut.fa.gz")


def two_families(folder: Path) -> list[co.Family]:
    rows = np.array([[0, 1, 2]], np.uint8)
    for name in ("x", "y"):
        co.write_family(folder, co.Family(name, rows, rows[:, :2]))
    return co.read_families(folder)


def test_contacts_are_those_below_8_angstrom(tmp_path: Path) -> None:
    families = two_families(tmp_path)
    path = put(tmp_path, "c.tsv", "family\ti\tj\tdistance\nx\t1\t2\t7.9\nx\t3\t1\t8.0\n")
    x, y = co.read_contacts(path, families)
    assert x.contacts is not None
    assert np.argwhere(x.contacts).tolist() == [[0, 1]]
    assert y.contacts is None
    with pytest.raises(co.FamilyError, match="the contacts of y are not known"):
        co.contact_labels(y, 1, (3, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("i\tj\n1\t1\n", r"line 1: there is no column 'family'"),
        ("family\ti\tj\nz\t1\t1\n", r"line 2: there is no family 'z'"),
        ("family\ti\tj\nx\t1\t3\n", r"line 2: 1, 3 lies outside x, \(3, 2\)"),
        ("family\ti\tj\n\nx\tone\t1\n", r"c\.tsv, line 3: 'x\\tone\\t1' does not fit"),
    ],
)
def test_contacts_that_cannot_be_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        co.read_contacts(put(tmp_path, "c.tsv", text), two_families(tmp_path))


def test_predicted_contacts_are_read_again_as_contacts(tmp_path: Path) -> None:
    (family, _) = two_families(tmp_path)
    scores = np.array([[0.0, 5.0], [1.0, np.nan], [4.0, 0.0]])
    co.write_contacts(tmp_path / "best.tsv", family, scores, scores / 10, top=2)
    (again,) = co.read_contacts(tmp_path / "best.tsv", [family])
    assert again.contacts is not None
    assert np.argwhere(again.contacts).tolist() == [[0, 1], [2, 0]]


# --- weights, splits


def test_weights_count_relatives_and_gaps_are_no_likeness() -> None:
    gaps = [co.PAD] * 3
    rows = np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 9], [5, 6, 7, 8, 9], [0, 1, *gaps], [5, 6, *gaps]], np.uint8)
    assert co.sequence_weights(rows).tolist() == [0.5, 0.5, 1.0, 1.0, 1.0]
    assert co.sequence_weights(rows, identity=0.9).tolist() == [1.0] * 5


@pytest.mark.parametrize("numpy", [1, 2])
def test_weights_are_those_of_a_count_of_equal_residues(numpy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of rows of gaps, of more columns than a word has bits, and with a NumPy that counts no bits."""
    if numpy == 1:
        monkeypatch.delattr(np, "bitwise_count", raising=False)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 21, (3, 70))[rng.integers(0, 3, 25)].astype(np.uint8)
    changed = rng.random(rows.shape) < rng.random((25, 1)) * 0.4
    rows[changed] = rng.choice([0, 20, co.PAD], changed.sum())
    rows[[3, 9]] = co.PAD
    counts = []
    for row in rows:
        pairs = [[(x, y) for x, y in zip(row, other, strict=True) if (x, y) != (co.PAD, co.PAD)] for other in rows]
        counts.append(sum(sum(x == y for x, y in each) >= 0.8 * len(each) for each in pairs))
    assert len(set(counts)) > 3
    assert co.sequence_weights(rows).tolist() == [1 / count for count in counts]


def test_a_split_is_of_families_and_repeatable() -> None:
    rows = np.zeros((1, 2), np.uint8)
    families = [co.Family(str(k), rows, rows) for k in range(9)]
    train, held_out = co.split_families(families, 0.3, seed=4)
    assert len(held_out) == 3
    assert {f.name for f in train} | {f.name for f in held_out} == {str(k) for k in range(9)}
    assert [f.name for f in co.split_families(families, 0.3, seed=4)[1]] == [f.name for f in held_out]
    for few, share in ((families[:1], 0.3), (families, 1.5)):
        with pytest.raises(co.FamilyError, match=r"nothing to split. Hint: .*--families.*--held-out"):
            co.split_families(few, share)


# --- batches


def families_of(*shapes: tuple[int, int]) -> list[co.Family]:
    rng = np.random.default_rng(0)
    return [
        co.Family(
            f"{a}x{b}",
            rng.integers(0, 20, (3, a)).astype(np.uint8),
            rng.integers(0, 20, (3, b)).astype(np.uint8),
            np.zeros((a, b), bool),
        )
        for a, b in shapes
    ]


def test_many_lengths_take_few_shapes() -> None:
    rng = np.random.default_rng(1)
    families = families_of(*((int(a), int(b)) for a, b in rng.integers(10, 60, (40, 2))))
    batches = co.Batches(families, "mlm", batch_size=4, most=3)
    assert len({batches.at(step)[0].shape for step in range(60)}) == 3
    assert sorted(k for bucket in batches.buckets for k in bucket.members) == list(range(40))
    padded = sum(len(b.members) * sum(b.shape) for b in batches.buckets)
    one = sum(len(b.members) * sum(b.shape) for b in co.buckets(families, 1))
    assert padded < 0.9 * one


def test_a_batch_holds_whole_pairs_and_their_contacts() -> None:
    families = families_of((4, 6), (5, 5))
    contacts = np.zeros((5, 5), bool)
    contacts[4, 0] = True
    families[1] = co.Family("touching", families[1].a, families[1].b, contacts)
    tokens, labels = co.Batches(families, "contacts", batch_size=8, most=1).at(0)
    assert tokens.shape == (8, 5 + 6 + 3)
    assert labels.shape == (8, 5, 6)
    for row, known in zip(tokens, labels, strict=True):
        assert (row[0], row[6], row[-1]) == (co.CLS, co.SEP, co.SEP)
        assert np.array_equal(known >= 0, (row[1:6] != co.PAD)[:, None] & (row[7:-1] != co.PAD)[None, :])
        assert (known == 1).sum() == (row[5] != co.PAD)


def test_batches_are_the_same_for_the_same_seed_and_new_for_each_step() -> None:
    families = families_of((4, 6), (5, 5))
    first, again = (co.Batches(families, "mlm", 8, seed=3) for _ in range(2))
    for x, y in zip(first.at(5), again.at(5), strict=True):
        assert np.array_equal(x, y)
    assert not np.array_equal(first.at(5)[0], first.at(6)[0])


def test_a_sixth_of_the_residues_is_masked_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 21, (200, 40)), rng.integers(0, 20, (200, 40))
    b[:, 30:] = co.PAD
    tokens = co.pair_tokens(a, b)
    masked, labels = co.mask_tokens(tokens, rng)
    chosen = labels != -100
    assert chosen.sum() / (tokens < co.X).sum() == pytest.approx(0.15, abs=0.01)
    assert np.array_equal(labels[chosen], tokens[chosen])
    assert np.array_equal(masked[~chosen], tokens[~chosen])
    assert (tokens[chosen] < co.X).all()
    shares = [(masked[chosen] == co.MASK).mean(), (masked[chosen] == tokens[chosen]).mean()]
    assert shares == pytest.approx([0.8, 0.105], abs=0.02)
    assert ((masked[chosen] < co.X) | (masked[chosen] == co.MASK)).all()
