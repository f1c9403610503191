"""Names that PyTorch has in torch.nn.modules alone: hooks of all modules, and what helps to load state dicts."""

from . import module, utils

__all__ = ["module", "utils"]
