"""The options of the recipe `coevolution`."""

from __future__ import annotations

from pathlib import Path

from shadergrad.train import BACKWARD, SCHEDULE, Option

SHAPE = ("d_model", "n_layers", "n_heads", "d_ff", "max_len", "dropout")  # what makes the transformer

OPTIONS = (
    Option("phase", str, "mlm: masked residues. contacts: which residues touch.", "mlm"),
    Option("pairs", Path, "A file of pairs (FASTA, A3M, Stockholm, also .gz), or a folder of them.", shown="synthetic"),
    Option("pairs_b", Path, "The second chains, where --pairs is a file of the first ones."),
    Option("length_a", int, "Columns of the first chain, where files do not say it."),
    Option("contacts", Path, "A TSV of contacts: i, j, and family, distance.", shown="synthetic"),
    Option("pretrained", Path, "The --out of a run whose transformer this one begins with.", may_change=True),
    Option("families", int, "Synthetic families.", 512),
    Option("depth", int, "Pairs of a synthetic family.", 16),
    Option("held_out", float, "The share of the families that is measured and not trained on.", 0.1),
    Option("epoch_steps", int, "Steps of an epoch, after which the run is measured and saved.", 100),
    Option("buckets", int, "Shapes that pairs are padded to, at most; a step is compiled for each.", 4),
    *SCHEDULE,
    Option("weight_decay", float, "Of matrices; biases and norms have none.", 0.01),
    Option("clip", float, "The largest norm of all gradients together; 0 for any.", 1.0),
    Option("accumulate", int, "Parts in which a batch is passed through.", 1),
    Option("d_model", int, "Width of the transformer.", 128),
    Option("n_layers", int, "Its layers.", 6),
    Option("n_heads", int, "Its attention heads.", 4),
    Option("d_ff", int, "Width of its feed-forward parts.", 512),
    Option("max_len", int, "Tokens that a pair may have.", 512),
    Option("dropout", float, "Dropout.", 0.1),
    *BACKWARD,
)
