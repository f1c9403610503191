"""Pairs the sequences of two proteins. In: two alignments. Out: their pairs, and the sequences without a partner, each with a reason.

by="species": the species that both files name. "reciprocal": the same, and the best hit of each sequence in the query's species is the query.
"operon": neighbours on a contig. "order": row by row. The first row of each file is the query; both queries are the first pair. Columns in which
the query has a gap are left out. If a species has several sequences, only the one most identical to the query is paired, or all are, by rank.
Sources: Ovchinnikov and others, "Robust and accurate prediction of residue-residue interactions across protein interfaces using
evolutionary information" (2014); Hopf and others (2014) for distances on the genome; Evans and others, "AlphaFold-Multimer" (2021) for ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...data import DataError
from ...system.atomic_files import replacing
from .alignments import Record, SequenceFile, check_alignment, check_query, encoded_rows, read_sequences
from .families import Family
from .gene_loci import variants
from .headers import LEVELS, Header, Locus, parse_header
from .vocabulary import PAD, decode

BY = ("species", "operon", "order", "reciprocal")
MANY = ("best", "rank")
DISTANCE = 10_000  # bases between two genes of an operon: the usual limit

Pair = tuple[int, int]


@dataclass(frozen=True)
class Lost:
    """A sequence without a partner: its file, line, name, species or contig, and the reason.

    >>> sg.models.coevolution.Lost(Path("a.fasta"), 3, "a2", "9606", "its species is not in the other file").key
    '9606'
    """

    path: Path
    line: int
    name: str
    key: str
    reason: str


@dataclass(frozen=True)
class Pairing:
    """family: the pairs, the queries first. pairs: their rows in both files; names: their records. keys: the species or the contig.

    lost: every sequence without a partner. level: the level on which species were compared.

    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.fasta").write_text(">a1 OX=1\\nMKV\\n>a2 OX=2\\nMRV\\n")
    >>> _ = (folder / "b.fasta").write_text(">b1 OX=1\\nGH\\n")
    >>> sg.models.coevolution.pair_alignments(folder / "a.fasta", folder / "b.fasta").reasons()
    {'its species is not in the other file': 1}
    """

    family: Family
    pairs: tuple[Pair, ...]
    names: tuple[tuple[Record, Record], ...]
    keys: tuple[str, ...]
    lost: tuple[Lost, ...]
    level: str

    def reasons(self) -> dict[str, int]:
        """How many sequences were lost for each reason, the most frequent first."""
        return dict(Counter(lost.reason for lost in self.lost).most_common())


@dataclass
class _Side:
    """One file: its records, headers, tokens, and the identity of each row to the query."""

    file: SequenceFile
    headers: list[Header]
    tokens: np.ndarray
    identity: np.ndarray
    reasons: dict[int, tuple[str, str]]  # the key and the reason of each lost row

    def lose(self, rows: Sequence[int], key: str, reason: str) -> None:
        for row in rows:
            self.reasons.setdefault(row, (key, reason))


def pair_alignments(
    first: str | Path,
    second: str | Path,
    by: str = "species",
    *,
    many: str = "best",
    loci: Mapping[str, Sequence[Locus]] | None = None,
    distance: int = DISTANCE,
    any_strand: bool = False,
    name: str | None = None,
) -> Pairing:
    """The pairs of two alignments.

    by: see above. many: "best", one pair a species, of the sequences most identical to the queries; "rank", the best with the best, the
    second with the second, and so on. loci: the genes' places for "operon" (see read_loci), beside those in headers; distance: the most
    bases between two genes; any_strand: whether they may be on different strands.
    Raises DataError that names file, line and sequence for rows that are not aligned, for files of different lengths by order, and
    if there is no pair.

    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.fasta").write_text(">a1 OX=1\\nMKV\\n>a2 OX=2\\nMRV\\n>a3 OX=2\\nRRR\\n")
    >>> _ = (folder / "b.fasta").write_text(">b1 OX=1\\nGH\\n>b2 OX=2\\nGA\\n>b3 OX=3\\nGG\\n")
    >>> found = sg.models.coevolution.pair_alignments(folder / "a.fasta", folder / "b.fasta")
    >>> found.pairs, found.keys, [lost.name for lost in found.lost]
    (((0, 0), (1, 1)), ('1', '2'), ['a3', 'b3'])
    """
    for value, known, what in ((by, BY, "by"), (many, MANY, "many")):
        if value not in known:
            raise DataError(f"[pair_alignments] {what} is {value!r}; it is one of {', '.join(known)}.")
    if by == "order" and many != MANY[0]:
        raise DataError(
            f"[pair_alignments] many={many!r} chooses among sequences of a species; by order, rows pair with rows."
        )
    a, b = _side(Path(first)), _side(Path(second))
    level = ""
    if by == "order":
        found = _by_order(a, b)
    elif by == "operon":
        found = _by_operon(a, b, loci or {}, distance, any_strand, many)
    else:
        level = _level(a, b)
        found = _by_species(a, b, level, many, by == "reciprocal")
    if not found:
        raise DataError(_nothing(a, b, by))
    pairs = [pair for pair, _ in found]
    texts = (side.file.path.name.removesuffix(".gz").rpartition(".")[0] for side in (a, b))
    rows = [np.array(column) for column in zip(*pairs, strict=True)]
    names = tuple(f"{a.file.records[i].name}+{b.file.records[j].name}" for i, j in pairs)
    family = Family(name or "+".join(texts), a.tokens[rows[0]], b.tokens[rows[1]], None, names, True)
    lost = tuple(_lost(side, {pair[k] for pair in pairs}) for k, side in enumerate((a, b)))
    records = tuple((a.file.records[i], b.file.records[j]) for i, j in pairs)
    return Pairing(family, tuple(pairs), records, tuple(key for _, key in found), lost[0] + lost[1], level)


def write_pairs(path: str | Path, found: Pairing) -> None:
    """The pairs as a FASTA, A:B in each sequence, which read_pairs reads. Raises DataError if it cannot be written.

    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, row in (("a", "MKV"), ("b", "GH")):
    ...     _ = (folder / f"{name}.fasta").write_text(f">{name}1 OX=1\\n{row}\\n")
    >>> found = sg.models.coevolution.pair_alignments(folder / "a.fasta", folder / "b.fasta")
    >>> sg.models.coevolution.write_pairs(folder / "pairs.fasta", found)
    >>> (folder / "pairs.fasta").read_text()
    '>a1+b1 key=1\\nMKV:GH\\n'
    """
    rows = zip(found.family.names, found.keys, found.family.a, found.family.b, strict=True)
    text = "".join(f">{name}{f' key={key}' * bool(key)}\n{decode(a)}:{decode(b)}\n" for name, key, a, b in rows)
    with replacing(path, DataError) as file:
        file.write(text.encode())


def _side(path: Path) -> _Side:
    file = read_sequences(path)
    check_alignment(file)
    check_query(file)
    tokens = encoded_rows(file)
    present = tokens[0] != PAD
    if not present.any():
        record = file.records[0]
        raise DataError(f"{path}, line {record.line}: {record.name}, the query, is nothing but gaps.")
    tokens = tokens[:, present]  # as in an A3M: columns are the query's residues
    identity = (tokens == tokens[0]).mean(1)
    return _Side(file, [parse_header(record.header or record.name) for record in file.records], tokens, identity, {})


def _lost(side: _Side, used: set[int]) -> tuple[Lost, ...]:
    unknown = ("", "it has no partner")
    return tuple(
        Lost(side.file.path, record.line, record.name, *side.reasons.get(row, unknown))
        for row, record in enumerate(side.file.records)
        if row not in used
    )


def _by_order(a: _Side, b: _Side) -> list[tuple[Pair, str]]:
    counts = len(a.file.records), len(b.file.records)
    if counts[0] != counts[1]:
        longer = a if counts[0] > counts[1] else b
        record = longer.file.records[min(counts)]
        raise DataError(
            f"{a.file.path} has {counts[0]} sequences, {b.file.path} {counts[1]}: paired by order, they need as many. "
            f"{record.name} in {longer.file.path}, line {record.line}, is the first without a partner. Hint: --by species?"
        )
    return [((row, row), "") for row in range(counts[0])]


def _level(a: _Side, b: _Side) -> str:
    """The level on which most species are in both files; the earlier one on ties."""

    def common(level: str) -> int:
        own, other = ({h.species[level] for h in side.headers if level in h.species} for side in (a, b))
        return len(own & other)

    counts = {level: common(level) for level in LEVELS}
    level = max(counts, key=lambda each: counts[each])
    if not counts[level]:
        raise DataError(_nothing(a, b, "species"))
    return level


def _by_species(a: _Side, b: _Side, level: str, many: str, reciprocal: bool) -> list[tuple[Pair, str]]:
    groups = [_groups(side, level) for side in (a, b)]
    if reciprocal:
        for side, own in zip((a, b), groups, strict=True):
            _keep_reciprocal(side, own, level)
    query = a.headers[0].species.get(level, ""), b.headers[0].species.get(level, "")
    found = [((0, 0), query[0] if query[0] == query[1] else "query")]
    for key in groups[0]:
        rows, others = (_ranked(side, own.get(key, [])) for side, own in zip((a, b), groups, strict=True))
        if many == "best" and key in query:
            _lose_rest(a, b, rows, others, key, "the species has its pair: the query")
            continue
        if not others:
            a.lose(rows, key, "its species is not in the other file")
            continue
        count = min(len(rows), len(others), 1 if many == "best" else len(rows))
        found += [(pair, key) for pair in zip(rows[:count], others[:count], strict=True)]
        why = (
            "a paralogue is more identical to the query"
            if many == "best"
            else "the other file has fewer sequences of its species"
        )
        _lose_rest(a, b, rows[count:], others[count:], key, why)
    for key, others in groups[1].items():
        b.lose(others, key, "its species is not in the other file")
    return found


def _lose_rest(a: _Side, b: _Side, rows: Sequence[int], others: Sequence[int], key: str, reason: str) -> None:
    a.lose(rows, key, reason)
    b.lose(others, key, reason)


def _groups(side: _Side, level: str) -> dict[str, list[int]]:
    """The rows of each species, without the query."""
    found: dict[str, list[int]] = {}
    seen: set[tuple[str, bytes]] = set()
    for row, header in enumerate(side.headers):
        key = side.file.records[row].name, side.tokens[row].tobytes()
        if key in seen:
            side.lose([row], header.species.get(level, ""), "the same name and sequence stand there before")
        elif level not in header.species or not header.species[level]:
            side.lose([row], "", f"its header says no {level}")
        elif row:
            found.setdefault(header.species[level], []).append(row)
        seen.add(key)
    return found


def _ranked(side: _Side, rows: Sequence[int]) -> list[int]:
    """The most identical to the query first; the order of the file on ties."""
    return sorted(rows, key=lambda row: (-side.identity[row], row))


def _keep_reciprocal(side: _Side, groups: dict[str, list[int]], level: str) -> None:
    """Keep the rows whose best hit among the sequences of the query's species is the query."""
    own = side.headers[0].species.get(level, "")
    paralogues = groups.get(own, [])
    for key, rows in list(groups.items()):
        if key == own or not paralogues:
            continue
        kept = []
        for row in rows:
            present = side.tokens[row] != PAD
            back = [int(((side.tokens[p] == side.tokens[row]) & present).sum()) for p in (0, *paralogues)]
            if max(back[1:]) > back[0]:
                side.lose([row], key, "its best hit back is not the query but a paralogue of it")
            else:
                kept.append(row)
        groups[key] = kept


def _by_operon(
    a: _Side, b: _Side, loci: Mapping[str, Sequence[Locus]], distance: int, any_strand: bool, many: str
) -> list[tuple[Pair, str]]:
    if distance < 0:
        raise DataError(f"[pair_alignments] a distance of {distance} bases is negative.")
    places = [[_places(header, loci) for header in side.headers] for side in (a, b)]
    if not any(any(rows) for rows in places):
        raise DataError(
            f"no sequence of {a.file.path} and {b.file.path} has a known place in a genome. "
            "Hint: --gff GENOME.gff, or headers with loci, as contig:100-1746(-) and those of Prodigal and of NCBI's CDS files."
        )
    contigs: dict[str, list[tuple[int, Locus]]] = {}
    for row, own in enumerate(places[1]):
        for locus in own:
            contigs.setdefault(locus.contig, []).append((row, locus))
    close, far = _neighbours(places[0], contigs, distance, any_strand)
    found: list[tuple[Pair, str]] = [((0, 0), "query")]
    used_a, used_b, genomes = {0}, {0}, set()
    order = sorted(close, key=lambda item: (item[0], -(a.identity[item[1]] + b.identity[item[2]]), item[1:]))
    mutual: list[tuple[float, Pair, str]] = []
    for _, i, j, contig in order:  # the closest first, so each takes its nearest neighbour that is free
        if i not in used_a and j not in used_b:
            used_a.add(i)
            used_b.add(j)
            mutual.append((a.identity[i] + b.identity[j], (i, j), _genome(a.headers[i], b.headers[j], contig)))
    for _, pair, genome in sorted(mutual, key=lambda item: (-item[0], item[1])):
        if many == "best" and genome in genomes:
            _lose_rest(
                a, b, [pair[0]], [pair[1]], genome, "another pair of its genome is more identical to the queries"
            )
            continue
        genomes.add(genome)
        found.append((pair, genome))
    for side, own in zip((a, b), places, strict=True):
        side.lose([row for row, known in enumerate(own) if not known], "", "its place in a genome is not known")
    a.lose(list(far), "", f"the nearest partner is too far: more than {distance} bases, or on the other strand")
    for side in (a, b):
        side.lose(range(len(side.headers)), "", f"no partner within {distance} bases on its contig")
    return [found[0], *sorted(found[1:], key=lambda item: item[0])]


def _neighbours(
    places: list[list[Locus]], contigs: dict[str, list[tuple[int, Locus]]], distance: int, any_strand: bool
) -> tuple[list[tuple[int, int, int, str]], set[int]]:
    """(gap, row of a, row of b, contig) of all close pairs, and the rows of a that have only distant partners."""
    close, far = [], set()
    for i, own in enumerate(places):
        for locus in own:
            for j, other in contigs.get(locus.contig, []):
                fits = any_strand or not locus.strand * other.strand < 0
                if fits and locus.gap(other) <= distance and locus != other:
                    close.append((locus.gap(other), i, j, locus.contig))
                else:
                    far.add(i)
    return close, far - {i for _, i, _, _ in close}


def _places(header: Header, loci: Mapping[str, Sequence[Locus]]) -> list[Locus]:
    known = next((loci[name] for each in header.ids for name in sorted(variants(each)) if name in loci), ())
    return [*([header.locus] if header.locus else []), *known]


def _genome(one: Header, other: Header, contig: str) -> str:
    """The species if both headers state the same one, else the contig."""
    same: Callable[[str], bool] = lambda level: one.species.get(level, "") == other.species.get(level, "-")  # noqa: E731
    level = next((level for level in ("taxon", "organism", "code") if same(level)), None)
    return one.species[level] if level else contig


def _nothing(a: _Side, b: _Side, by: str) -> str:
    examples = "; ".join(
        f"{side.file.path}, line {side.file.records[0].line}: {side.file.records[0].header or side.file.records[0].name!r}"
        for side in (a, b)
    )
    return (
        f"nothing pairs by {by}: no species is in both files. The first headers are {examples}. "
        "Hint: headers say species by OX=, OS=, [organism], a UniProt name (CH60_ECOLI) or their first word; or --by order, --by operon."
    )
