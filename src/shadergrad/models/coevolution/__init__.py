"""Contacts between two proteins, learned from the sequences of both.

vocabulary.py, families.py, alignments.py: from files to families. headers.py, gene_loci.py, pairing.py: two alignments to pairs. batches.py: from
families to tokens. model.py, losses.py, training.py: the transformer, its two phases and their training. family_logits.py: a family's map.
synthetic.py: families with known contacts. dca.py, positive_inverse.py, similarity.py: the classical baselines, on a device. metrics.py:
measures of a map. calibration.py: probabilities of scores. intra_protein.py: contacts within a chain. numbering.py, structure_files.py: residue
numbers, scripts for viewers, a structure's contacts.
"""

from . import dca
from .alignments import read_pairs
from .batches import Batches, Bucket, buckets, contact_labels, mask_tokens, pair_tokens
from .calibration import Calibration, calibrate, reliability
from .contact_files import read_contacts, read_families, write_contacts, write_family
from .families import Family, FamilyError, effective_depth, sequence_weights, split_families
from .family_logits import FamilyPredictor
from .gene_loci import read_loci
from .headers import Locus
from .intra_protein import ranked_within, within_precision, write_within
from .losses import Contacts, MaskedTokens
from .metrics import average_precision, bootstrap_interval, measure, precision_at
from .model import CoevolutionTransformer, ContactPredictor, EncoderLayer, MaskedLanguageModel
from .numbering import gap_shares, residue_numbers
from .pairing import Lost, Pairing, pair_alignments, write_pairs
from .structure_files import numbered_pairs, structure_contacts, structure_within, write_chimerax, write_pymol
from .synthetic import Physics, plant_contacts, sample_families, sample_family
from .training import Objective, contact_balance, decay_groups, inputs_of, model_for
from .vocabulary import AMINO_ACIDS, CLS, MASK, PAD, SEP, ResidueError, X, decode, encode

__all__ = [
    "AMINO_ACIDS",
    "CLS",
    "MASK",
    "PAD",
    "SEP",
    "Batches",
    "Bucket",
    "Calibration",
    "CoevolutionTransformer",
    "ContactPredictor",
    "Contacts",
    "EncoderLayer",
    "Family",
    "FamilyError",
    "FamilyPredictor",
    "Locus",
    "Lost",
    "MaskedLanguageModel",
    "MaskedTokens",
    "Objective",
    "Pairing",
    "Physics",
    "ResidueError",
    "X",
    "average_precision",
    "bootstrap_interval",
    "buckets",
    "calibrate",
    "contact_balance",
    "contact_labels",
    "dca",
    "decay_groups",
    "decode",
    "effective_depth",
    "encode",
    "gap_shares",
    "inputs_of",
    "mask_tokens",
    "measure",
    "model_for",
    "numbered_pairs",
    "pair_alignments",
    "pair_tokens",
    "plant_contacts",
    "precision_at",
    "ranked_within",
    "read_contacts",
    "read_families",
    "read_loci",
    "read_pairs",
    "reliability",
    "residue_numbers",
    "sample_families",
    "sample_family",
    "sequence_weights",
    "split_families",
    "structure_contacts",
    "structure_within",
    "within_precision",
    "write_chimerax",
    "write_contacts",
    "write_family",
    "write_pairs",
    "write_pymol",
    "write_within",
]
