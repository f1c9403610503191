"""autocast and GradScaler by the name that they had first: see shadergrad.amp."""

from ..amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
