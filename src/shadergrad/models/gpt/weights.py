"""Weights of GPT-2 from Hugging Face's files. In: a safetensors file. Out: a model with them.

Their linear layers are Conv1D with transposed weights. Names may begin with "transformer.". The loader skips the causal masks
of older files (attn.bias) and lm_head.weight, which equals wte.weight.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from shadergrad.interop import InteropError, load_state_dict, read_arrays

from .model import GPT, Config

TRANSPOSED = ("*.attn.c_attn.weight", "*.attn.c_proj.weight", "*.mlp.c_fc.weight", "*.mlp.c_proj.weight")
MASKS = ("*.attn.bias", "*.attn.masked_bias")
HEAD = "lm_head.weight"
HEAD_DIM = 64  # of every GPT-2 that was published


def load_weights(model: GPT, path: str | Path) -> None:
    """Copy the weights in a file under Hugging Face's names into `model`.

    Raises InteropError if they do not fit, or lm_head.weight differs from wte.weight; the model is then unchanged.
    """
    load_state_dict(model, _arrays(path), transpose=TRANSPOSED)


def read_model(path: str | Path, n_head: int | None = None) -> GPT:
    """The model whose weights a file holds, on the cpu, ready for use (eval).

    The arrays determine the shapes. n_head: by default that in config.json beside the file, else n_embd / 64.
    Raises InteropError if the file does not hold a GPT-2.
    """
    arrays = _arrays(path)
    layers = {int(name.split(".")[1]) for name in arrays if name.startswith("h.") and name.split(".")[1].isdigit()}
    missing = [name for name in ("wte.weight", "wpe.weight") if name not in arrays]
    if missing or not layers:
        raise InteropError(f"[gpt] {path} is no GPT-2's: it lacks {(missing or ['h.0'])[0]}.")
    vocab_size, n_embd = arrays["wte.weight"].shape
    described = _described(Path(path))
    config = Config(
        vocab_size,
        arrays["wpe.weight"].shape[0],
        n_embd,
        max(layers) + 1,
        n_head or described.get("n_head") or max(1, n_embd // HEAD_DIM),
        layer_norm_epsilon=described.get("layer_norm_epsilon", 1e-5),
    )
    model = GPT(config)
    load_state_dict(model, arrays, transpose=TRANSPOSED)
    return model.eval()


def _described(path: Path) -> dict[str, Any]:
    """The contents of config.json beside the file, if it exists."""
    file = path.with_name("config.json")
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (ValueError, OSError) as error:
        raise InteropError(f"[gpt] {file} cannot be read: {error}.") from None
    if not isinstance(found, dict):
        raise InteropError(f"[gpt] {file} holds no object.")
    return found


def _arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of the file that are weights, without "transformer."."""
    found = {name.removeprefix("transformer."): array for name, array in read_arrays(path).items()}
    head = found.pop(HEAD, None)
    if head is not None and not np.array_equal(head, found.get("wte.weight", head)):
        raise InteropError(f"[gpt] {path} has an {HEAD} that is not wte.weight; here they are one.")
    return {name: array for name, array in found.items() if not any(fnmatchcase(name, mask) for mask in MASKS)}
