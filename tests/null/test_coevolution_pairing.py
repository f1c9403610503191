"""Pairing two alignments: dialects of headers, genes in GFF files, and files with planted traps."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from shadergrad.cli.app import run
from shadergrad.data import DataError
from shadergrad.models import coevolution as co
from shadergrad.models.coevolution.headers import parse_header


def write(path: Path, rows: list[tuple[str, str]], end: str = "\n") -> Path:
    text = "".join(f">{header}{end}{row}{end}" for header, row in rows)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def names(found: co.Pairing) -> list[tuple[str, str]]:
    return [(left.name, right.name) for left, right in found.names]


def reasons(found: co.Pairing) -> dict[str, str]:
    return {lost.name: lost.reason for lost in found.lost}


# -- headers

DIALECTS = [
    (
        "sp|P0A6F5|CH60_ECOLI 60 kDa chaperonin OS=Escherichia coli (strain K12) OX=83333 GN=groL PE=1 SV=1",
        {"taxon": "83333", "organism": "escherichia coli (strain k12)", "code": "ECOLI"},
        "P0A6F5",
    ),
    (
        "UniRef100_P0A6F5 60 kDa n=1 Tax=Escherichia coli TaxID=562 RepID=CH60_ECOLI",
        {"taxon": "562", "organism": "escherichia coli"},
        "P0A6F5",
    ),
    ("WP_000729117.1 chaperonin GroEL [Escherichia coli]", {"organism": "escherichia coli"}, "WP_000729117.1"),
    ("WP_1.1 GroEL [[Clostridium] symbiosum]", {"organism": "[clostridium] symbiosum"}, "WP_1.1"),
    ("WP_1.1 GroEL [Homo sapiens]\x01XP_2.1 other [Pan paniscus]", {"organism": "homo sapiens"}, "WP_1.1"),
    ("gi|16131967|ref|NP_418567.1| GroEL [Escherichia coli]", {"organism": "escherichia coli"}, "NP_418567.1"),
    (
        "lcl|NC_1.3_prot_NP_4.1_7 [locus_tag=b4143] [organism=Homo sapiens] [location=9..20]",
        {"organism": "homo sapiens"},
        "b4143",
    ),
    ("CH60_ECOLI/2-525", {"code": "ECOLI"}, "CH60_ECOLI"),
    ("tr|A1|A1_9BACT GroEL", {"name": "A1_9BACT"}, "A1"),
    ("UniRef90_A1 n=1 Tax=[Clostridium] symbiosum RepID=A1_X", {"organism": "[clostridium] symbiosum"}, "A1"),
    ("Q1 OS=Salmonella serovar 4,[5],12:i:- OX=440524", {"organism": "salmonella serovar 4,[5],12:i:-"}, "Q1"),
    ("human", {"name": "human"}, "human"),
    ("s1 species=Mus musculus", {"organism": "mus musculus"}, "s1"),
    ("s1|taxid:9606|x", {"taxon": "9606"}, "s1"),
    ("s1 protein [truncated]", {}, "s1"),
]


@pytest.mark.parametrize(("text", "species", "name"), DIALECTS, ids=[d[0][:24] for d in DIALECTS])
def test_headers_of_each_dialect_say_their_species(text: str, species: dict[str, str], name: str) -> None:
    header = parse_header(text)
    assert name in header.ids
    assert species.items() <= header.species.items()


@pytest.mark.parametrize(
    ("text", "locus"),
    [
        ("contig7_12 # 4350 # 5996 # -1 # ID=7_12;partial=00", co.Locus("contig7", 4350, 5996, -1)),
        (
            "lcl|NC_000913.3_prot_NP_4.1_7 [location=complement(join(100..200,300..400))]",
            co.Locus("NC_000913.3", 100, 400, -1),
        ),
        ("lcl|NC_000913.3_cds_NP_4.1_7 [location=<100..>200]", co.Locus("NC_000913.3", 100, 200, 1)),
        ("geneA chr2:100-250(-)", co.Locus("chr2", 100, 250, -1)),
        ("geneA|chr2:250..100:+", co.Locus("chr2", 100, 250, 1)),
        ("geneA chr2:100-250", co.Locus("chr2", 100, 250, 0)),
        ("CH60_ECOLI/2-525", None),
    ],
)
def test_headers_say_where_a_gene_lies(text: str, locus: co.Locus | None) -> None:
    assert parse_header(text).locus == locus


# -- by species

QUERY_A, QUERY_B = ("sp|A0|ONE_ECOLI OX=1", "MKVLAC"), ("sp|B0|TWO_ECOLI OX=1", "GHLEA")
TRAPS_A = [
    QUERY_A,
    ("tr|A1|A1_SALTY OX=2", "MKRRRR"),  # a paralogue before the ortholog
    ("tr|A2|A2_SALTY OX=2", "MKVLAR"),
    ("tr|A3|A3_BACSU OX=3", "MRVLAC"),  # missing in b
    ("tr|A4|A4_ECOLI OX=1", "MKVLRR"),  # a paralogue of the query
    ("tr|A5|A5_YEAST no taxon", "MKVLAC"),
    ("tr|A6|A6_HUMAN OX=9606", "MKV-AC"),
    ("tr|A6|A6_HUMAN OX=9606", "MKV-AC"),  # the same twice
]
TRAPS_B = [
    QUERY_B,
    ("tr|B1|B1_HUMAN OX=9606", "GHLEC"),
    ("tr|B2|B2_SALTY OX=2", "GHLER"),
    ("tr|B3|B3_SALTY OX=2", "GRRRR"),
    ("tr|B4|B4_X OX=4", "GHLEA"),
]


@pytest.mark.parametrize(("suffix", "end"), [(".fasta", "\n"), (".fa", "\r\n"), (".fasta.gz", "\r\n"), (".a3m", "\n")])
def test_species_pair_once_by_the_sequences_most_identical_to_the_queries(
    tmp_path: Path, suffix: str, end: str
) -> None:
    a, b = write(tmp_path / f"a{suffix}", TRAPS_A, end), write(tmp_path / f"b{suffix}", TRAPS_B, end)
    found = co.pair_alignments(a, b)
    assert names(found) == [
        ("sp|A0|ONE_ECOLI", "sp|B0|TWO_ECOLI"),
        ("tr|A2|A2_SALTY", "tr|B2|B2_SALTY"),
        ("tr|A6|A6_HUMAN", "tr|B1|B1_HUMAN"),
    ]
    assert found.level == "taxon"
    assert found.keys == ("1", "2", "9606")
    lost = reasons(found)
    assert lost["tr|A1|A1_SALTY"] == lost["tr|B3|B3_SALTY"] == "a paralogue is more identical to the query"
    assert lost["tr|A3|A3_BACSU"] == lost["tr|B4|B4_X"] == "its species is not in the other file"
    assert lost["tr|A4|A4_ECOLI"] == "the species has its pair: the query"
    assert lost["tr|A5|A5_YEAST"] == "its header says no taxon"
    assert lost["tr|A6|A6_HUMAN"] == "the same name and sequence stand there before"
    assert (found.lost[0].line, found.lost[0].path) == (3, a)
    assert len(found.pairs) * 2 + len(found.lost) == len(TRAPS_A) + len(TRAPS_B)


def test_ranks_pair_the_best_with_the_best_and_the_second_with_the_second(tmp_path: Path) -> None:
    a = write(tmp_path / "a.fasta", [*TRAPS_A[:3], ("tr|A9|A9_SALTY OX=2", "RRRRRR")])
    found = co.pair_alignments(a, write(tmp_path / "b.fasta", TRAPS_B), many="rank")
    assert names(found)[1:] == [("tr|A2|A2_SALTY", "tr|B2|B2_SALTY"), ("tr|A1|A1_SALTY", "tr|B3|B3_SALTY")]
    assert "fewer sequences of its species" in reasons(found)["tr|A9|A9_SALTY"]


def test_a_best_hit_whose_best_hit_back_is_a_paralogue_is_left_out(tmp_path: Path) -> None:
    rows = [
        QUERY_A,
        ("tr|A1|A1_ECOLI OX=1", "MRRRRC"),
        ("tr|A2|A2_SALTY OX=2", "MRRRAC"),
        ("tr|A3|A3_HUMAN OX=3", "MKVLAR"),
    ]
    a = write(tmp_path / "a.fasta", rows)
    b = write(tmp_path / "b.fasta", [QUERY_B, ("b1 OX=2", "GHLEA"), ("b2 OX=3", "GHLEA")])
    assert len(co.pair_alignments(a, b).pairs) == 3
    found = co.pair_alignments(a, b, "reciprocal")
    assert names(found)[1:] == [("tr|A3|A3_HUMAN", "b2")]
    assert reasons(found)["tr|A2|A2_SALTY"] == "its best hit back is not the query but a paralogue of it"


def test_species_are_compared_on_the_level_that_both_files_share_most(tmp_path: Path) -> None:
    a = write(tmp_path / "a.fasta", [("sp|A0|ONE_ECOLI OS=E coli OX=1", "MK"), ("x OS=Homo sapiens OX=9606", "MK")])
    b = write(tmp_path / "b.fasta", [("WP_1.1 two [E coli]", "GH"), ("WP_2.1 two [Homo sapiens]", "GH")])
    found = co.pair_alignments(a, b)
    assert (found.level, len(found.pairs)) == ("organism", 2)
    plain = (
        write(tmp_path / "c.fasta", [("ecoli", "MK"), ("human", "MR")]),
        write(tmp_path / "d.fasta", [("human", "GG"), ("ecoli", "GH")]),
    )
    assert co.pair_alignments(*plain).level == "name"


def test_queries_pair_whatever_their_headers_say(tmp_path: Path) -> None:
    a = write(tmp_path / "a.fasta", [("query", "MK"), ("a1 OX=5", "MR")])
    b = write(tmp_path / "b.fasta", [("other", "GH"), ("b1 OX=5", "GG")])
    assert names(co.pair_alignments(a, b)) == [("query", "other"), ("a1", "b1")]


STOCKHOLM = """# STOCKHOLM 1.0
#=GF ID   query-i3
#=GS q/1-4            DE [subseq from] the query
#=GS WP_1.1/3-6       DE [subseq from] chaperonin GroEL [Salmonella enterica]
#=GS tr|A2|A2_BACSU/1-4 DE {long} OS=Bacillus
#=GS tr|A2|A2_BACSU/1-4 DE subtilis OX=1423 PE=1
#=GS X3/1-4           OS Homo sapiens

q/1-4               MK.V
WP_1.1/3-6          MRaV
#=GR WP_1.1/3-6  PP 9999
tr|A2|A2_BACSU/1-4  MK.V
X3/1-4              MK.-
#=GC RF             xx.x

q/1-4               L
WP_1.1/3-6          L
tr|A2|A2_BACSU/1-4  I
X3/1-4              L
//
"""


def test_an_alignment_of_jackhmmer_keeps_the_species_of_its_sequences_and_the_columns_of_the_query(
    tmp_path: Path,
) -> None:
    a = tmp_path / "a.sto"
    a.write_text(STOCKHOLM.replace("{long}", "protein " * 3))
    b = write(
        tmp_path / "b.fasta",
        [
            ("q", "GH"),
            *(
                (f"b{k} [{name}]", "GH")
                for k, name in enumerate(("Salmonella enterica", "Bacillus subtilis", "Homo sapiens"))
            ),
        ],
    )
    found = co.pair_alignments(a, b)
    assert found.level == "organism"
    assert [left for left, _ in names(found)] == ["q/1-4", "WP_1.1/3-6", "tr|A2|A2_BACSU/1-4", "X3/1-4"]
    assert [co.decode(row) for row in found.family.a] == ["MKVL", "MRVL", "MKVI", "MK-L"]


def test_rows_of_hh_suite_that_are_no_sequences_are_left_out(tmp_path: Path) -> None:
    rows = [("ss_pred", "CCH"), ("ss_conf", "987"), ("P1_consensus", "MkV"), ("query", "MKV"), ("human", "MRV")]
    found = co.read_pairs(write(tmp_path / "a.a3m", rows), write(tmp_path / "b.a3m", rows))
    assert found.names == ("query", "human")
    with pytest.raises(DataError, match="holds annotation but no sequences"):
        co.read_pairs(write(tmp_path / "c.a3m", rows[:2]), tmp_path / "b.a3m")


def test_a_query_of_gaps_is_refused(tmp_path: Path) -> None:
    a = write(tmp_path / "a.fasta", [("q", "---"), ("r", "MKV")])
    with pytest.raises(DataError, match=r"a.fasta, line 1: q, the query, is nothing but gaps"):
        co.pair_alignments(a, a)


# -- by operon

GFF = """##gff-version 3
chr1\tx\tCDS\t100\t400\t.\t+\t0\tID=cds-A1;protein_id=A1.1
chr1\tx\tCDS\t450\t900\t.\t+\t0\tID=cds-B1;Parent=gene-B1
chr1\tx\tCDS\t90000\t91000\t.\t+\t0\tprotein_id=B2
chr2\tx\tCDS\t100\t400\t.\t-\t0\tprotein_id=A3
chr2\tx\tCDS\t20000\t20300\t.\t-\t0\tprotein_id=A3
chr2\tx\tCDS\t20500\t21000\t.\t-\t0\tprotein_id=B3
chr3\tx\tCDS\t100\t400\t.\t-\t0\tprotein_id=A4
chr3\tx\tCDS\t500\t900\t.\t+\t0\tprotein_id=B4
##FASTA
>chr1
ACGT
"""
OPERON_A = [("qa", "MKVL"), *((f"A{k}", "MKVR") for k in range(1, 6))]
OPERON_B = [("qb", "GHL"), *((f"B{k}", "GHR") for k in range(1, 5))]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_neighbours_on_a_contig_pair_within_the_distance_and_on_one_strand(tmp_path: Path, end: str) -> None:
    gff = tmp_path / "genome.gff.gz"
    gff.write_bytes(gzip.compress(GFF.replace("\n", end).encode()))
    a, b = write(tmp_path / "a.fasta", OPERON_A), write(tmp_path / "b.fasta", OPERON_B)
    loci = co.read_loci(gff)
    assert loci["A3"] == [co.Locus("chr2", 100, 20300, -1)]  # two exons
    found = co.pair_alignments(a, b, "operon", loci=loci)
    assert names(found) == [("qa", "qb"), ("A1", "B1"), ("A3", "B3")]
    lost = reasons(found)
    assert "on the other strand" in lost["A4"]
    assert lost["B2"] == "no partner within 10000 bases on its contig"
    assert lost["A5"] == "its place in a genome is not known"
    assert ("A4", "B4") in names(co.pair_alignments(a, b, "operon", loci=loci, any_strand=True))
    near = co.pair_alignments(a, b, "operon", loci=loci, distance=100)
    assert names(near) == [("qa", "qb"), ("A1", "B1")]
    assert len(co.pair_alignments(a, b, "operon", loci=loci, distance=49).pairs) == 2  # bases 401 to 449 lie between
    assert len(co.pair_alignments(a, b, "operon", loci=loci, distance=48).pairs) == 1


def test_each_gene_takes_its_nearest_free_neighbour_and_a_genome_gives_one_pair(tmp_path: Path) -> None:
    a = write(tmp_path / "a.fasta", [("qa", "MKVL"), ("a1 c:1000-2000(+)", "MKVR"), ("a2 c:5000-6000(+)", "MRRR")])
    b = write(tmp_path / "b.fasta", [("qb", "GHL"), ("b1 c:2100-3000(+)", "GHR"), ("b2 c:6100-7000(+)", "GHL")])
    assert names(co.pair_alignments(a, b, "operon", many="rank"))[1:] == [("a1", "b1"), ("a2", "b2")]
    best = co.pair_alignments(a, b, "operon")
    assert names(best)[1:] == [("a1", "b1")]
    assert best.keys[1] == "c"
    assert "another pair of its genome" in reasons(best)["a2"]


# -- mistakes


@pytest.mark.parametrize(
    ("rows_a", "rows_b", "options", "message"),
    [
        ([("x", "MKV"), ("long", "MKVLA")], [("x", "GH")], {}, r"a.fasta, line 3: long has 5 columns; x, line 1, has 3: .*not aligned"),
        ([("x", "MK1")], [("x", "GH")], {}, r"a.fasta, line 1: x"),
        ([("x", "MK")], [("y", "GH")], {}, r"nothing pairs by species.*first headers are .*a.fasta, line 1: 'x'.*--by order"),
        ([("x", "MK"), ("z", "MK")], [("y", "GH")], {"by": "order"}, r"2 sequences, .* 1: .*z in .*a.fasta, line 3, is the first without"),
        ([("x", "MK")], [("y", "GH")], {"by": "operon"}, r"has a known place in a genome. Hint: --gff"),
        ([("x", "MK")], [("y", "GH")], {"by": "magic"}, r"by is 'magic'; it is one of species, operon"),
        ([("x", "MK")], [("y", "GH")], {"many": "all"}, r"many is 'all'"),
        ([("x", "MK")], [("x", "GH")], {"many": "rank", "by": "order"}, r"many='rank' chooses among .* a species; by order"),
    ],
)  # fmt: skip
def test_mistakes_name_file_line_and_remedy(tmp_path: Path, rows_a, rows_b, options, message) -> None:
    with pytest.raises(DataError, match=f"(?s){message}"):
        co.pair_alignments(write(tmp_path / "a.fasta", rows_a), write(tmp_path / "b.fasta", rows_b), **options)


def test_rows_that_are_not_aligned_name_aligners_and_both_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.a3m", [("q", "MKV"), ("short", "MK")])
    for reading in (lambda: co.pair_alignments(path, path), lambda: co.read_pairs(path, path, by="order")):
        with pytest.raises(
            DataError, match=r"(?s)line 3: short has 2 columns.*q, line 1.*3.*mafft --auto.*hhblits.*jackhmmer"
        ):
            reading()


@pytest.mark.parametrize("text", ["chr\tx\tCDS\t1\t2\n", "chr\tx\tCDS\ta\t2\t.\t+\t0\tID=x\n", "# nothing\n"])
def test_files_that_are_no_gff_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.gff"
    path.write_text(text)
    with pytest.raises(DataError, match=r"line 1: .* is no row of a GFF|holds no genes"):
        co.read_loci(path)


# -- the command


def test_the_command_writes_pairs_that_predict_reads_and_a_row_for_every_sequence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write(tmp_path / "a.fasta.gz", TRAPS_A, "\r\n"), write(tmp_path / "b.fasta", TRAPS_B)
    out = tmp_path / "pairs.fasta"
    assert run(["pair", str(a), str(b), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "3 pairs of 6 and 5 columns, by taxon ids (OX=, TaxID=)" in told
    assert "2 without a partner: a paralogue is more identical to the query" in told
    family = co.read_pairs(out)
    assert (family.depth, family.shape, family.aligned) == (3, (6, 5), True)
    assert co.decode(family.a[2]) == "MKV-AC"
    rows = [line.split("\t") for line in out.with_suffix(".tsv").read_text().splitlines()]
    assert rows[0] == ["file", "line", "name", "state", "key", "partner or reason"]
    assert len(rows) - 1 == len(TRAPS_A) + len(TRAPS_B)
    assert [str(a), "3", "tr|A1|A1_SALTY", "lost", "2", "a paralogue is more identical to the query"] in rows


def test_options_of_another_pairing_and_other_formats_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write(tmp_path / "a.fasta", TRAPS_A), write(tmp_path / "b.fasta", TRAPS_B)
    assert run(["pair", str(a), str(b), "--distance", "5"]) == 2
    assert "belong to --by operon, not to --by species" in capsys.readouterr().err
    assert run(["pair", str(a), str(b), "--out", str(tmp_path / "pairs.sto")]) == 2
    assert "ends in .fasta" in capsys.readouterr().err
    before, out = a.read_bytes(), str(tmp_path / "pairs.fasta")
    for words in (["--out", str(a)], ["--out", out, "--report", str(b)], ["--out", out, "--report", out]):
        assert run(["pair", str(a), str(b), *words]) == 2
        assert "would be overwritten" in (error := capsys.readouterr().err) or "is the file of --out" in error
    assert a.read_bytes() == before


def test_residues_of_the_query_without_a_column_are_refused_where_they_are_numbered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write(tmp_path / "a.a3m", [("q", "MkV")]), write(tmp_path / "b.a3m", [("q", "GH"), ("r", "GaH")])
    with pytest.raises(DataError, match=r"a.a3m, line 1: q, the query, has 1 residues in lower case"):
        co.pair_alignments(a, b)
    paired = write(tmp_path / "p.a3m", [("q", "MkV:GH"), ("r", "MV:GH")])
    assert run(["predict", "coevolution", "mean-field", str(paired), "--out", str(tmp_path / "out")]) == 2
    assert "p.a3m, line 1: q, the query" in " ".join(capsys.readouterr().err.split())
