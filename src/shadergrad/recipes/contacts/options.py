"""The options of the recipe `coevolution`."""

from __future__ import annotations

from pathlib import Path

from shadergrad.train import BACKWARD, SCHEDULE, Option

SHAPE = ("d_model", "n_layers", "n_heads", "d_ff", "max_len", "dropout")  # what makes the transformer

OPTIONS = (
    Option("phase", str, "mlm predicts masked residues, contacts predicts which residues touch.", "mlm"),
    Option("pairs", Path, "A file of pairs (FASTA, A3M, Stockholm, also .gz), or a folder of them.", shown="synthetic"),
    Option("pairs_b", Path, "The second chains, if --pairs is a file of the first ones."),
    Option("length_a", int, "Columns of the first chain, if the files do not say so."),
    Option("contacts", Path, "A TSV of contacts: i, j, and family, distance.", shown="synthetic"),
    Option("pretrained", Path, "The --out folder of a run whose transformer initialises this one.", may_change=True),
    Option("families", int, "Number of synthetic families.", 512),
    Option("depth", int, "Pairs per synthetic family.", 16),
    Option("held_out", float, "The share of the families in the test set.", 0.1),
    Option("epoch_steps", int, "Steps per epoch; after each the run is evaluated and saved.", 100),
    Option("buckets", int, "The largest number of shapes to pad pairs to; a step is compiled for each.", 4),
    *SCHEDULE,
    Option("weight_decay", float, "Weight decay of matrices; biases and norms have none.", 0.01),
    Option("clip", float, "The largest norm of all gradients together; 0 disables clipping.", 1.0),
    Option("accumulate", int, "Number of parts of a batch whose gradients are accumulated.", 1),
    Option("d_model", int, "Width of the transformer.", 128),
    Option("n_layers", int, "Layers of the transformer.", 6),
    Option("n_heads", int, "Attention heads of the transformer.", 4),
    Option("d_ff", int, "Width of the feed-forward layers.", 512),
    Option("max_len", int, "The largest number of tokens in a pair.", 512),
    Option("dropout", float, "Dropout probability.", 0.1),
    *BACKWARD,
)
