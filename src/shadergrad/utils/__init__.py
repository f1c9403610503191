"""What programs import as torch.utils: data, checkpoint, tensorboard."""

from . import checkpoint, data, tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]
