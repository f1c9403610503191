"""torch.distributed.tensor's placements, which libraries use while they are imported.

Placements are plain values, stored in tables of parallel plans. DTensor, distribute_tensor and all other names that distribute tensors are
placeholders, which raise when they are used. https://docs.pytorch.org/docs/stable/distributed.tensor.html
"""

from __future__ import annotations

import dataclasses


class Placement:
    """How a tensor is distributed along one axis of a mesh of processes."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process holds a part; with `dim`, a part along that axis."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process holds the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of the processes' values; with `reduce_op`, the reduction of that name."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each process holds a part along the axis `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each process holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclasses.dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Each process holds a partial value; the tensor is their reduction by `reduce_op` ("sum", "avg", "product", "min", "max")."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
