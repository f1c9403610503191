"""torch.utils' names: data, checkpoint, dlpack, tensorboard."""

from . import checkpoint, data, dlpack, tensorboard

__all__ = ["checkpoint", "data", "dlpack", "tensorboard"]
