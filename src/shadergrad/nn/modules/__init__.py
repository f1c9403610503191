"""Names that PyTorch has only in torch.nn.modules: hooks of all modules, and helpers for state dicts."""

from . import module, utils

__all__ = ["module", "utils"]
