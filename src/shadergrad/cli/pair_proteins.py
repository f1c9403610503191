"""`shadergrad pair A B`: the paired alignment of two proteins. In: two alignments. Out: a FASTA, and a report of every sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..data import DataError
from ..models import coevolution as co
from ..models.coevolution.alignments import FASTA
from ..models.coevolution.headers import LEVELS
from ..models.coevolution.pairing import DISTANCE
from ..system.atomic_files import replacing


def pair(
    first: Annotated[Path, typer.Argument(metavar="A", help="The first protein's alignment, its query first.")],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="The second protein's. FASTA, A3M or Stockholm, also .gz.")
    ],
    by: Annotated[
        str,
        typer.Option(
            help="species: that both headers name. reciprocal: and the best hit back is the query. "
            "operon: neighbours on a contig. order: row by row."
        ),
    ] = "species",
    many: Annotated[
        str, typer.Option(help="best: one pair a species, most identical to the queries. rank: all, best with best.")
    ] = "best",
    gff: Annotated[
        list[Path] | None, typer.Option(help="A GFF of the genes' loci, for operon; may be given several times.")
    ] = None,
    distance: Annotated[int, typer.Option(help="The most bases between two genes of an operon.")] = DISTANCE,
    any_strand: Annotated[bool, typer.Option("--any-strand", help="Also pair genes on opposite strands.")] = False,
    out: Annotated[Path, typer.Option(help="The FASTA to write, A:B in each sequence.")] = Path("paired.fasta"),
    report: Annotated[
        Path | None,
        typer.Option(help="A table of every sequence: its partner, or why it has none.", show_default="OUT with .tsv"),
    ] = None,
) -> None:
    """Pair two alignments, for predict coevolution: which sequence of one protein belongs to which of the other."""
    console = Console(highlight=False)
    if by != "operon" and (gff or any_strand or distance != DISTANCE):
        raise DataError(f"--gff, --distance and --any-strand belong to --by operon, not to --by {by}.")
    if out.suffix not in FASTA:
        raise DataError(f"--out {out}: the pairs are a FASTA; a name that ends in .fasta tells predict so.")
    table = report or out.with_suffix(".tsv")
    inputs = [path.resolve() for path in (first, second, *(gff or []))]
    if taken := next((path for path in (out, table) if path.resolve() in inputs), None):
        raise DataError(f"{taken} is a file to read, and would be overwritten. Hint: another --out or --report.")
    if table.resolve() == out.resolve():
        raise DataError(f"--report {table} is the file of --out, too.")
    loci = co.read_loci(gff) if gff else None
    name = out.name.removesuffix(".gz").rpartition(".")[0] or out.name
    found = co.pair_alignments(
        first, second, by, many=many, loci=loci, distance=distance, any_strand=any_strand, name=name
    )
    co.write_pairs(out, found)
    with replacing(table, DataError) as file:
        file.write(report_of(found, first, second).encode())
    neff, ratio = co.effective_depth(found.family)
    lengths = " and ".join(map(str, found.family.shape))
    lines = [
        f"{len(found.pairs)} pair{'s' * (len(found.pairs) > 1)} of {lengths} columns"
        + (f", by {LEVELS[found.level]}" if found.level else f", by {by}"),
        f"Neff {neff:.1f}, Neff/L {ratio:.2f}",
        *(f"{count} without a partner: {reason}" for reason, count in found.reasons().items()),
        f"in {out} and {table}",
    ]
    for line in lines:
        console.out(line, highlight=False)


def report_of(found: co.Pairing, first: Path, second: Path) -> str:
    """A line for every sequence: file, line, name, what became of it, species or contig, and partner or reason."""
    rows = [("file", "line", "name", "state", "key", "partner or reason")]
    for (left, right), key in zip(found.names, found.keys, strict=True):
        rows.append((str(first), str(left.line), left.name, "paired", key, right.name))
        rows.append((str(second), str(right.line), right.name, "paired", key, left.name))
    rows += [(str(lost.path), str(lost.line), lost.name, "lost", lost.key, lost.reason) for lost in found.lost]
    return "".join("\t".join(row) + "\n" for row in rows)
