"""Files of sequences. In: FASTA, A3M or Stockholm, also gzipped. Out: families of pairs; errors name the file and the line.

The file's extension determines the format: .fasta .fa .faa .fas .afa, .a3m .a2m, .sto .stk .stockholm, each also with .gz. Pairs come in
two files, row by row, or in one: with a separator in every sequence (`MKV:GHL`), in an A3M after the line `#length_a,length_b`,
or with a given length of the first chain.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...data import DataError
from .families import Family
from .vocabulary import PAD, ResidueError, encode

FASTA = (".fasta", ".fa", ".faa", ".fas", ".afa")
A3M, A2M = (".a3m", ".a2m"), ".a2m"
STOCKHOLM = (".sto", ".stk", ".stockholm")
SEPARATORS = ":/|"
BY = ("name", "order")
_ANNOTATION = re.compile(
    r"(?:ss_pred|ss_conf|ss_dssp|sa_dssp|aa_pred|aa_dssp)$|(?:.*_)?consensus$", re.IGNORECASE
)  # of HH-suite
ALIGNERS = """  Hint: align them with one of
    mafft --auto sequences.fasta > aligned.fasta
    hhblits -i query.fasta -d DATABASE -oa3m aligned.a3m
    jackhmmer -A aligned.sto query.fasta DATABASE.fasta"""


@dataclass(frozen=True)
class Record:
    """A sequence of a file: its name, its text, the line on which it begins, the whole of its header, and the number of its residues that
    the text lacks because they have no column."""

    name: str
    text: str
    line: int
    header: str = ""
    inserted: int = 0


@dataclass(frozen=True)
class SequenceFile:
    """The contents of a file. aligned: whether columns correspond. lengths: those of both chains, if the file states them."""

    path: Path
    records: list[Record]
    aligned: bool
    lengths: tuple[int, int] | None = None


def suffix_of(path: Path) -> str:
    """The extension of the format, without .gz."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, unpacked if it ends in .gz. Raises DataError if it cannot be read."""
    try:
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a text file in UTF-8.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is no whole gzip file: {error}.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from None


def read_sequences(path: str | Path) -> SequenceFile:
    """The sequences of one file, by its format. Insertions of an A3M (lower-case letters) are dropped. In an A2M whose rows are equally long
    only columns in which the query has a dot are dropped: its lower-case letters are residues of the query, and of columns. Raises a
    DataError that names the line if the file violates its format. HH-suite's rows of secondary structure and consensus are no sequences.
    """
    path = Path(path)
    suffix = suffix_of(path)
    lines = read_lines(path)
    if suffix in STOCKHOLM:
        return SequenceFile(path, _stockholm(path, lines), aligned=True)
    if suffix not in FASTA + A3M:
        known = " ".join(FASTA + A3M + STOCKHOLM)
        raise DataError(f"{path}: the ending {suffix!r} says no format. Known are {known}, also with .gz.")
    lengths = _lengths(path, lines) if suffix in A3M else None
    records = list(_fasta(path, lines))
    if not records:
        raise DataError(f"{path} holds no sequences; they begin with a line '>name'.")
    if suffix in A3M:
        records = [r for r in records if not _ANNOTATION.match(r.name)]
        if not records:
            raise DataError(f"{path} holds annotation but no sequences.")
        if suffix == A2M and _equal([r.text for r in records]):
            kept = [k for k, letter in enumerate(records[0].text) if letter != "."]
            records = [replace(r, text="".join(r.text[k] for k in kept)) for r in records]
        else:
            records = [_without_insertions(r) for r in records]
    return SequenceFile(path, records, suffix in A3M, lengths)


def _fasta(path: Path, lines: list[str]) -> Iterator[Record]:
    name, header, parts, begin = "", "", [], 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(">"):
            if begin:
                yield _record(path, name, parts, begin, header)
            header = text[1:].strip()
            name, parts, begin = (header.split() or [""])[0], [], number
        elif text and not text.startswith(("#", ";")):
            if not begin:
                raise DataError(f"{path}, line {number}: a sequence without a name; a line '>name' comes first.")
            parts.append("".join(text.split()))
    if begin:
        yield _record(path, name, parts, begin, header)


def _record(path: Path, name: str, parts: list[str], line: int, header: str) -> Record:
    text = "".join(parts).rstrip("*")  # the end of a translation
    if not text:
        raise DataError(f"{path}, line {line}: {name or 'a record'} has no sequence.")
    return Record(name, text, line, header)


def _without_insertions(record: Record) -> Record:
    kept = "".join(c for c in record.text if not c.islower() and c != ".")
    return replace(record, text=kept, inserted=sum(c.islower() for c in record.text))


def _lengths(path: Path, lines: list[str]) -> tuple[int, int] | None:
    """The chains' lengths in the first line of a paired A3M, `#30,41` or `#30,41<tab>1,1`. One length (ColabFold's files of one chain), or
    words (HH-suite's description) say nothing of two chains."""
    found = re.match(r"#(\d+(?:,\d+)+)(?:\s|$)", lines[0] if lines else "")
    if found is None:
        return None
    numbers = [int(n) for n in found[1].split(",")]
    if len(numbers) != 2:
        raise DataError(f"{path}, line 1: {lines[0]!r}; a paired A3M says the lengths of two chains, as #30,41.")
    return numbers[0], numbers[1]


def _stockholm(path: Path, lines: list[str]) -> list[Record]:
    if not lines or not lines[0].startswith("# STOCKHOLM"):
        raise DataError(f"{path}, line 1: a Stockholm file begins with '# STOCKHOLM 1.0'.")
    texts: dict[str, list[str]] = {}
    begins: dict[str, int] = {}
    said: dict[str, dict[str, str]] = {}  # the #=GS lines of each sequence: jackhmmer keeps the header of a FASTA there
    for number, line in enumerate(lines[1:], 2):
        if line.startswith("//"):
            further = next((k for k, other in enumerate(lines[number:], number + 1) if other.strip()), None)
            if further:
                raise DataError(f"{path}, line {further}: a second alignment begins. Hint: a file for each.")
            break
        if line.startswith("#=GS") and len(note := line.split(None, 3)) == 4:
            kinds = said.setdefault(note[1], {})
            kinds[note[2]] = f"{kinds.get(note[2], '')} {note[3]}".strip()
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2:
            raise DataError(f"{path}, line {number}: a name and a sequence, not {len(words)} words.")
        texts.setdefault(words[0], []).append(words[1])
        begins.setdefault(words[0], number)
    else:
        raise DataError(f"{path} ends before its line '//': it was cut short.")
    if not texts:
        raise DataError(f"{path} holds no sequences.")
    return [Record(name, "".join(parts), begins[name], _said(name, said)) for name, parts in texts.items()]


def _said(name: str, said: dict[str, dict[str, str]]) -> str:
    """A header from a sequence's name and its #=GS lines: the description (DE), and the organism and its taxon (OS, OX) if that lacks them."""
    kinds = said.get(name, {})
    parts = [name, kinds.get("DE", "")]
    parts += [f"{key}={kinds[key]}" for key in ("OS", "OX") if key in kinds and f"{key}=" not in parts[1]]
    return " ".join(filter(None, parts))


def read_pairs(
    path: str | Path,
    partner: str | Path | None = None,
    *,
    length_a: int | None = None,
    by: str = "name",
    name: str | None = None,
) -> Family:
    """The family of pairs in one file, or in two.

    partner: the file of the second chains.
    by: whether rows of two files match by "name", the first word after >, or by "order".
    length_a: columns of the first chain, if one file has neither lengths nor a separator; another than these is refused.
    name: that of the family, by default the file's. A FASTA counts as aligned if all its sequences have one length.
    Raises a DataError that names file and line for contents that do not fit.

    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "kinase.fasta").write_text(">human\\nMKV:GHLE\\n>mouse\\nMRV:GH-E\\n")
    >>> family = sg.models.coevolution.read_pairs(folder / "kinase.fasta")
    >>> family.name, family.shape, [sg.models.coevolution.decode(row) for row in family.b], family.aligned
    ('kinase', (3, 4), ['GHLE', 'GH-E'], True)
    """
    first = read_sequences(path)
    if by not in BY:
        raise DataError(f"[read_pairs] by={by!r}; it is one of {', '.join(BY)}.")
    if partner is not None:
        if length_a is not None:
            raise DataError(
                f"a first chain of {length_a} columns parts the rows of one file, and {partner} is a second one: give either."
            )
        second = read_sequences(partner)
        records, others = _matched(first, second, by)
        texts_a, texts_b = [r.text for r in records], [r.text for r in others]
        aligned = (first.aligned or _equal(texts_a)) and (second.aligned or _equal(texts_b))
        a, b = _rows(first, records, texts_a, aligned), _rows(second, others, texts_b, aligned)
    else:
        records = first.records
        parts = [_split(first, record, length_a) for record in records]
        texts_a, texts_b = [p[0] for p in parts], [p[1] for p in parts]
        aligned = first.aligned or (_equal(texts_a) and _equal(texts_b))
        a, b = _rows(first, records, texts_a, aligned), _rows(first, records, texts_b, aligned)
    own = first.path.name.removesuffix(".gz").rpartition(".")[0]
    return Family(name or own, a, b, None, tuple(r.name for r in records), aligned)


def _matched(first: SequenceFile, second: SequenceFile, by: str) -> tuple[list[Record], list[Record]]:
    """The records of two files that belong together."""
    if by == "order":
        if len(first.records) != len(second.records):
            raise DataError(
                f"{first.path} has {len(first.records)} sequences, {second.path} {len(second.records)}: "
                "paired by order, they need as many. Hint: shadergrad pair A B --by species."
            )
        return first.records, second.records
    known: dict[str, Record] = {}
    for file in (second, first):
        seen: dict[str, Record] = {}
        for record in file.records:
            if record.name in seen:
                raise DataError(
                    f"{file.path}, line {record.line}: {record.name!r} stands there twice, first on line "
                    f"{seen[record.name].line}; paired by name, each may once. Hint: shadergrad pair A B --by order, or by species."
                )
            seen[record.name] = record
        known = known or seen
    both = [record for record in first.records if record.name in known]
    if not both:
        example = first.records[0]
        raise DataError(
            f"{first.path}, line {example.line}: {example.name!r}, as all others, has no partner in {second.path}. "
            "Hint: names are the first word after >; shadergrad pair A B --by species (operon, order) finds partners otherwise."
        )
    return both, [known[record.name] for record in both]


def _split(file: SequenceFile, record: Record, length_a: int | None) -> tuple[str, str]:
    """The two chains of a record."""
    where = f"{file.path}, line {record.line}: {record.name}"
    found = [c for c in SEPARATORS if c in record.text]
    if found:
        parts = record.text.split(found[0])
        if len(parts) != 2 or len(found) > 1 or not all(parts):
            raise DataError(f"{where} is not two chains with one {found[0]!r} between them.")
        if length_a not in (None, len(parts[0])):
            raise DataError(f"{where} has {len(parts[0])} columns before its {found[0]!r}, not {length_a}.")
        return parts[0], parts[1]
    if file.lengths is not None:
        if len(record.text) != sum(file.lengths):
            raise DataError(
                f"{where} has {len(record.text)} columns; line 1 says {file.lengths[0]} and {file.lengths[1]}."
            )
        if length_a not in (None, file.lengths[0]):
            raise DataError(f"{file.path}, line 1: a first chain of {file.lengths[0]} columns, not {length_a}.")
        length_a = file.lengths[0]
    if length_a is None:
        raise DataError(
            f"{where} has no separator (one of {' '.join(SEPARATORS)}): where does the first chain end? "
            "Hint: --length-a gives its columns; --pairs-b a file of the second chains; shadergrad pair A B makes such a file."
        )
    if not 0 < length_a < len(record.text):
        raise DataError(f"{where} has {len(record.text)} columns; a first chain of {length_a} leaves no second one.")
    return record.text[:length_a], record.text[length_a:]


def _equal(texts: Sequence[str]) -> bool:
    return len({len(text) for text in texts}) == 1


def check_alignment(file: SequenceFile) -> None:
    """Raises a DataError that names both rows and aligners if the sequences of a file are not equally long."""
    first = file.records[0]
    for record in file.records:
        if len(record.text) != len(first.text):
            raise DataError(
                f"{file.path}, line {record.line}: {record.name} has {len(record.text)} columns; {first.name}, line {first.line}, "
                f"has {len(first.text)}: the rows are not aligned.\n{ALIGNERS}"
            )


def check_query(file: SequenceFile) -> None:
    """Raises a DataError if the first sequence of a file has residues without a column: those behind them would get wrong numbers."""
    query = file.records[0]
    if query.inserted:
        raise DataError(
            f"{file.path}, line {query.line}: {query.name}, the query, has {query.inserted} residues in lower case, which have no column in an "
            "A3M, so the numbers of those behind them would be wrong.\n"
            "  Hint: an alignment whose columns are the query's residues, as hhblits -i QUERY.fasta -oa3m writes it."
        )


def encoded_rows(file: SequenceFile) -> np.ndarray:
    """Tokens (n, columns) of an alignment's rows. Raises a DataError that names the line of a letter that is no residue."""
    return np.stack([_encoded(file, record, record.text) for record in file.records])


def _rows(file: SequenceFile, records: list[Record], texts: list[str], aligned: bool) -> np.ndarray:
    """Tokens (n, longest); rows of an alignment have one length, others lose their gaps and are padded."""
    tokens = [_encoded(file, record, text) for record, text in zip(records, texts, strict=True)]
    if not aligned:
        tokens = [row[row != PAD] for row in tokens]
    longest = max(map(len, tokens))
    rows = np.full((len(texts), longest), PAD, np.uint8)
    longest_record = records[[len(row) for row in tokens].index(longest)]
    for k, (record, row) in enumerate(zip(records, tokens, strict=True)):
        if aligned and len(row) != longest:
            raise DataError(
                f"{file.path}, line {record.line}: {record.name} has {len(row)} columns, {longest_record.name}, line "
                f"{longest_record.line}, {longest}; rows of an alignment are equally long.\n{ALIGNERS}"
            )
        rows[k, : len(row)] = row
    return rows


def _encoded(file: SequenceFile, record: Record, text: str) -> np.ndarray:
    try:
        return encode(text)
    except ResidueError as error:
        where = f"{file.path}, line {record.line}: {record.name}: "
        raise DataError(where + str(error).removeprefix("[encode] ")) from None
