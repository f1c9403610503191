"""What programs import as torch.utils: data, checkpoint, dlpack, tensorboard."""

from . import checkpoint, data, dlpack, tensorboard

__all__ = ["checkpoint", "data", "dlpack", "tensorboard"]
