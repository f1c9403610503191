"""How gradients travel: PyTorch's default communication hooks of DistributedDataParallel, which it knows, and runs without calling them."""

from __future__ import annotations

from typing import Any

from .channels import Compression
from .errors import DistError


class ErrorFeedback:
    """The state for fp16_compress_hook and bf16_compress_hook that adds what rounding loses to the next step's gradients.

    >>> type(sg.distributed.ErrorFeedback()).__name__
    'ErrorFeedback'
    """


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The mean, as without a hook: for DistributedDataParallel.register_comm_hook.

    >>> sg.distributed.default_hooks.allreduce_hook.__name__
    'allreduce_hook'
    """
    raise _refused()


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of halves: half the bytes.

    >>> sg.distributed.default_hooks.fp16_compress_hook.__name__
    'fp16_compress_hook'
    """
    raise _refused()


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of bfloat16 numbers: half the bytes, and the range of float32.

    >>> sg.distributed.default_hooks.bf16_compress_hook.__name__
    'bf16_compress_hook'
    """
    raise _refused()


def _refused() -> DistError:
    return DistError(
        "[register_comm_hook] the default hooks are names for DistributedDataParallel.register_comm_hook, and are not called. Hint: in a hook "
        "of your own, all_reduce(bucket.buffer(), async_op=True).get_future()."
    )


def compression_of(hook: Any) -> Compression | None:
    """What a default hook means; None for a hook of a program's own."""
    return {allreduce_hook: "", fp16_compress_hook: "float16", bf16_compress_hook: "bfloat16"}.get(hook)  # type: ignore[return-value]
