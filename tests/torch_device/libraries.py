"""Libraries on top of PyTorch, for tests that are skipped where one is absent, and a small model that several of them train."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
import without_binaries

TOKENS = torch.arange(16).reshape(2, 8) * 7 % 50
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def package(name: str) -> Any:
    """A package; the test is skipped where it is absent or its binary parts do not load."""
    without_binaries.declare_operators()
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} does not load here: {str(error).splitlines()[0]}")


def named(module: str, name: str) -> Any:
    """A name of a package that imports its parts when they are asked for."""
    try:
        return getattr(package(module), name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{module}.{name} does not load here: {str(error).splitlines()[0]}")


def transformer(config: str, model: str, **options: Any) -> Any:
    return named("transformers", model)(named("transformers", config)(**options))


def llama() -> Any:
    return transformer(
        "LlamaConfig", "LlamaForCausalLM", **{**SMALL, "num_attention_heads": 4}, num_key_value_heads=2,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
