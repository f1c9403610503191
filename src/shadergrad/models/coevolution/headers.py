"""Headers of sequences. In: the line after >. Out: the identifiers, the species on each level that it states, and the locus.

UniProt     sp|P0A6F5|CH60_ECOLI 60 kDa chaperonin OS=Escherichia coli OX=83333 GN=groL PE=1 SV=1
UniRef      UniRef100_P0A6F5 60 kDa chaperonin n=1 Tax=Escherichia coli TaxID=562 RepID=CH60_ECOLI
NCBI        WP_000729117.1 chaperonin GroEL [Escherichia coli]
NCBI, CDS   lcl|NC_000913.3_prot_NP_418567.1_4077 [locus_tag=b4143] [organism=...] [location=complement(100..1746)]
Pfam        CH60_ECOLI/2-525
Prodigal    contig7_12 # 4350 # 5996 # -1 # ID=7_12;partial=00
plain       human, or anything with species=human, OX=9606 or contig:100-1746(-)

UniProt's codes that begin with 9 are of groups, as 9BACT of many bacteria: they are no species.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEVELS = {
    "taxon": "taxon ids (OX=, TaxID=)",
    "organism": "organisms (OS=, Tax=, [organism])",
    "code": "species codes (the ECOLI of CH60_ECOLI)",
    "name": "names",
}


@dataclass(frozen=True)
class Locus:
    """A gene's place: its contig, the first and the last base, from 1, and its strand, 1 or -1; 0 where unknown.

    >>> one, other = (sg.models.coevolution.Locus("chr", *ends, 1) for ends in ((100, 200), (251, 400)))
    >>> one.gap(other)
    50
    """

    contig: str
    start: int
    end: int
    strand: int = 0

    def gap(self, other: Locus) -> int:
        """The number of bases between both genes, 0 if they overlap. They must be on one contig."""
        return max(0, max(self.start, other.start) - min(self.end, other.end) - 1)


@dataclass(frozen=True)
class Header:
    """ids: the identifiers, the likeliest first. species: by level, a key of LEVELS. locus: the gene's place, if stated."""

    ids: tuple[str, ...]
    species: dict[str, str]
    locus: Locus | None = None


_TAXON = re.compile(r"\b(?:OX|TaxID|taxid|taxon)[=|:](\d+)", re.IGNORECASE)
_ORGANISM = re.compile(
    r"(?:^|[\s\[;|])(?:OS|Tax|organism|species)=((?:\[[^\]=]*\]|[^=\]|;])+?)(?=\s+[A-Za-z]+=|\s*[\]|;]|\s*$)"
)
_CODE = re.compile(r"^[A-Z0-9]{1,11}_((?!9)[A-Z0-9]{3,5})$")
_PRODIGAL = re.compile(r"^(\S+)_\d+ # (\d+) # (\d+) # (-?1)\b")
_LOCATION = re.compile(r"\[location=([^\]]+)\]")
_PLACE = re.compile(r"(?:^|[\s|])([\w.\-]+):(\d+)(?:-|\.\.)(\d+)(?:\(([+-])\)|:([+-]))?(?=$|[\s|])")
_CDS_CONTIG = re.compile(r"^(?:lcl\|)?(.+?)_(?:prot|cds)_")


def parse_header(text: str) -> Header:
    """The contents of a header.

    >>> from shadergrad.models.coevolution.headers import parse_header
    >>> parse_header("sp|P0A6F5|CH60_ECOLI chaperonin OS=Escherichia coli OX=83333 PE=1").species
    {'taxon': '83333', 'organism': 'escherichia coli', 'code': 'ECOLI', 'name': 'CH60_ECOLI'}
    """
    text = text.partition("\x01")[0].strip()  # nr joins the headers of equal sequences
    first = (text.split() or [""])[0]
    ids = _ids(first)
    species: dict[str, str] = {}
    if found := _TAXON.search(text):
        species["taxon"] = found[1]
    if organism := _organism(text):
        species["organism"] = " ".join(organism.split()).casefold()
    for name in ids:
        if found := _CODE.match(name):
            species["code"] = found[1]
    species["name"] = ids[-1] if ids else ""
    return Header(tuple(dict.fromkeys([*ids, *_tags(text)])), species, _locus(text, first))


def _ids(first: str) -> list[str]:
    """The parts of the first word that name the sequence; the place of a domain, /12-96, is no part."""
    word = re.sub(r"/\d+-\d+$", "", first)
    word = re.sub(r"^(?:UniRef\d+_)", "", word)
    parts = [
        part for part in word.split("|") if part and part not in ("sp", "tr", "ref", "gb", "emb", "dbj", "lcl", "gnl")
    ]
    if len(parts) > 1 and parts[0] == "gi":
        parts = parts[2:] or parts[1:]
    return parts


def _tags(text: str) -> list[str]:
    return re.findall(r"\[(?:locus_tag|protein_id)=([^\]]+)\]", text) + re.findall(r"\bRepID=(\S+)", text)


def _organism(text: str) -> str:
    if found := _ORGANISM.search(text):
        return found[1]
    if not text.endswith("]") or re.search(r"\[[A-Za-z_]+=[^\]]*\]$", text):
        return ""
    depth = 0
    for k in range(len(text) - 1, -1, -1):  # names may contain brackets: [[Clostridium] symbiosum]
        depth += (text[k] == "]") - (text[k] == "[")
        if not depth:
            return text[k + 1 : -1]
    return ""


def _locus(text: str, first: str) -> Locus | None:
    if found := _PRODIGAL.match(text):
        return Locus(found[1], int(found[2]), int(found[3]), int(found[4]))
    if (found := _LOCATION.search(text)) and (contig := _CDS_CONTIG.match(first)):
        ends = [int(n) for n in re.findall(r"\d+", found[1])]
        if ends:
            return Locus(contig[1], min(ends), max(ends), -1 if "complement" in found[1] else 1)
    if found := _PLACE.search(text):
        start, end = sorted((int(found[2]), int(found[3])))
        return Locus(found[1], start, end, {"+": 1, "-": -1}.get(found[4] or found[5] or "", 0))
    return None
