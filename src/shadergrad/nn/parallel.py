"""Several devices: DataParallel runs its module where it is, DistributedDataParallel trains it in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DeviceError
from .distributed_data_parallel import DistributedDataParallel
from .module import Module


class DataParallel(Module):
    """The module itself, under `.module`. The batch is not split, as in PyTorch with at most one GPU.

    device_ids, output_device and dim are accepted without effect. Raises DeviceError for more than one device.

    >>> model = nn.DataParallel(nn.Linear(2, 1))
    >>> model(sg.ones(3, 2)).shape, list(model.state_dict())
    (shadergrad.Size([3, 1]), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise DeviceError(
                f"[DataParallel] one device computes, not {len(device_ids)}. Hint: leave device_ids out; the module runs where "
                "its parameters are."
            )
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


__all__ = ["DataParallel", "DistributedDataParallel"]
