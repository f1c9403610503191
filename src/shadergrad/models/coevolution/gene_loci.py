"""Loci of genes in GFF files. In: GFF3 or GTF, also gzipped. Out: the places of each identifier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from ...data import DataError
from .alignments import read_lines
from .headers import Locus

FEATURES = ("CDS", "gene", "mRNA", "polypeptide", "pseudogene")
IDENTIFIERS = (
    "protein_id",
    "locus_tag",
    "old_locus_tag",
    "ID",
    "Name",
    "gene",
    "gene_id",
    "protein",
    "Dbxref",
    "db_xref",
)
_STRANDS = {"+": 1, "-": -1}

Loci = dict[str, list[Locus]]


def read_loci(paths: str | Path | Sequence[str | Path]) -> Loci:
    """The places of every protein_id, locus_tag, ID, Name or gene in GFF files; one identifier may have several, in several genomes.

    The parts of a CDS with introns are one locus. Raises DataError that names the line for a row that is not GFF, or a file without genes.

    >>> path = Path(tempfile.mkdtemp()) / "genome.gff"
    >>> _ = path.write_text("chr\\tx\\tCDS\\t100\\t400\\t.\\t-\\t0\\tID=cds-P1;protein_id=P1.1\\n")
    >>> sg.models.coevolution.read_loci(path)["P1"]
    [Locus(contig='chr', start=100, end=400, strand=-1)]
    """
    loci: Loci = {}
    for path in [paths] if isinstance(paths, str | Path) else paths:
        parts: dict[tuple[str, str, str], Locus] = {}
        for number, line in enumerate(read_lines(Path(path)), 1):
            if line.startswith("##FASTA"):
                break
            if line.strip() and not line.startswith("#"):
                _add(parts, Path(path), number, line)
        if not parts:
            raise DataError(f"{path} holds no genes: no row of {', '.join(FEATURES)} with an identifier.")
        for (name, _, _), locus in parts.items():
            own = loci.setdefault(name, [])
            if locus not in own:
                own.append(locus)
    return loci


def _add(parts: dict[tuple[str, str, str], Locus], path: Path, number: int, line: str) -> None:
    words = line.rstrip("\r\n").split("\t")
    if len(words) != 9 or not (words[3].isdigit() and words[4].isdigit()):
        raise DataError(
            f"{path}, line {number}: {line[:60]!r} is no row of a GFF: nine columns with tabs, the fourth and fifth numbers."
        )
    contig, feature, start, end, strand = words[0], words[2], int(words[3]), int(words[4]), _STRANDS.get(words[6], 0)
    if feature not in FEATURES:
        return
    for name in _identifiers(words[8]):
        key = (name, contig, feature)
        before = parts.get(key)
        ends = (start, end) if before is None else (min(start, before.start), max(end, before.end))
        parts[key] = Locus(contig, *ends, strand)


def _identifiers(attributes: str) -> set[str]:
    """The identifiers in column nine of GFF3 (a=b;) or GTF (a "b";), each also without its prefix and its version."""
    found = set()
    for key, value in re.findall(r"""\s*([\w]+)[= ]"?([^;"]*)"?\s*(?:;|$)""", attributes):
        if key in IDENTIFIERS:
            for word in unquote(value).split(","):
                name = word.split(":")[-1].strip() if key in ("Dbxref", "db_xref") else word.strip()
                found |= variants(re.sub(r"^(?:cds|gene|rna)-", "", name))
    return found - {""}


def variants(name: str) -> set[str]:
    """An identifier with and without its version, the .1 of WP_000729117.1."""
    return {name, re.sub(r"\.\d+$", "", name)}
