"""Operations of all processes of a group, on tensors of any device.

In: tensors. Out: the tensors, with new values, and None; with async_op=True a Work, after whose wait() they have them. Values are sent
from host memory to host memory: those of a GPU are read first and written afterwards. All processes compare operation, dtype, shape and op
(headers.py): if they differ, all processes raise DistError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..drive import execute
from ..drive.tracing import current
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Tensor
from .engines import REDUCED, Pending, ReduceOp
from .errors import NoGroupError
from .groups import GroupMember, ProcessGroup, chosen
from .headers import Behind, Received, Sent, started, words_of
from .work import Work

WIDER = {
    "int16": np.int32,
    "uint16": np.int32,
    "uint32": np.int64,
    "bool": np.uint8,
}  # dtypes that are reduced as another dtype


def array_of(tensor: Any, what: str) -> np.ndarray:
    """The values of a tensor, as a fresh array in C order. Raises DTypeError for anything but a tensor, CompileError in a capture."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(
            f"[distributed.{what}] takes tensors, not {type(tensor).__name__}. Hint: sg.tensor(...); objects travel by all_gather_object and "
            "broadcast_object_list."
        )
    if current.trace is not None:
        current.trace.on_read(f"distributed.{what}")
    return np.ascontiguousarray(execute.download(tensor._node)).reshape(tensor.shape)


def put(tensor: Tensor, array: np.ndarray) -> Tensor:
    """Give a tensor the values of an array, whatever its history."""
    with grad_mode(False):
        tensor.write_(array.reshape(tensor.shape))
    return tensor


def _give(
    words: str, group: ProcessGroup, begin: Callable[[], Pending], finish: Callable[[], Any], async_op: bool
) -> Work | None:
    """Begin an operation. `words`, the header of the call, must be equal in all processes: it is compared first, or, with async_op, meanwhile."""
    compared = started(words, group)
    if async_op:
        return Work(Behind(compared, begin()), finish)
    compared.wait()
    Work(begin(), finish).wait()
    return None


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    if group_rank is not None:
        if rank is not None or not 0 <= group_rank < group.size():
            raise ArgumentError(
                f"[distributed.{what}] give a rank, or one within the group from 0 to {group.size() - 1}."
            )
        return group_rank
    return group.number_of(0 if rank is None else rank, what)


class Reduced:
    """An array in the dtype in which it is reduced. op: of the engine; AVG is a sum, divided afterwards."""

    def __init__(self, array: np.ndarray, op: Any, what: str) -> None:
        if not isinstance(op, ReduceOp):
            raise ArgumentError(f"[distributed.{what}] op is {op!r}. Hint: sg.distributed.ReduceOp.SUM.")
        self._dtype, self._averages = array.dtype, op is ReduceOp.AVG
        if array.dtype.kind == "c":
            if op not in (ReduceOp.SUM, ReduceOp.AVG):
                raise DTypeError(f"[distributed.{what}] {op.name} of complex numbers is not defined.")
            array = array.view(np.float32 if array.dtype == np.complex64 else np.float64)
        if op.name.startswith("B") and array.dtype.kind == "f":
            raise DTypeError(f"[distributed.{what}] {op.name} is for integers and bools, not {array.dtype}.")
        if self._averages and array.dtype.kind != "f":
            raise DTypeError(f"[distributed.{what}] AVG is for floating point numbers, not {array.dtype}.")
        if array.dtype == bool:  # a sum is "any", as PyTorch's
            op = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}.get(op, op)
        self.array = array.astype(WIDER.get(array.dtype.name, array.dtype))
        if self.array.dtype.name not in REDUCED:
            raise DTypeError(f"[distributed.{what}] {array.dtype} cannot be reduced. Hint: float32.")
        self.op = ReduceOp.SUM if self._averages else op

    def result(self, array: np.ndarray, size: int) -> np.ndarray:
        """The result in the tensor's dtype; an average is divided here."""
        if self._averages:
            array = array / np.asarray(size, array.dtype)
        return array.view(self._dtype) if self._dtype.kind == "c" else array.astype(self._dtype, copy=False)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Put the reduction of all processes' tensors into each of them.

    op: of ReduceOp, also AVG. Raises NoGroupError in a process outside the group, DTypeError for a dtype that op does not support,
    DistBackendError if another process has ended.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = sg.tensor([1.0, 2.0])
    >>> sg.distributed.all_reduce(x)
    >>> x
    tensor([1., 2.])
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "all_reduce")
    given = Reduced(array_of(tensor, "all_reduce"), op, "all_reduce")
    return _give(
        words_of("all_reduce", tensor, op.name),
        found,
        lambda: found.engine.all_reduce(given.array, given.op),
        lambda: [put(tensor, given.result(given.array, found.size()))],
        async_op,
    )


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As all_reduce, into the tensor of process dst alone; the tensors of the others stay as they are.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.reduce(sg.ones(2), dst=0)
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "reduce")
    root = root_of(found, dst, group_dst, "reduce")
    given = Reduced(array_of(tensor, "reduce"), op, "reduce")

    def finish() -> list[Tensor]:
        return [put(tensor, given.result(given.array, found.size())) if found.rank() == root else tensor]

    words = words_of("reduce", tensor, op.name, f"to {root}")
    return _give(words, found, lambda: found.engine.reduce(given.array, root, given.op), finish, async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Put the tensor of process src into all of them. Shapes and dtypes are the same everywhere.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.broadcast(sg.ones(2), src=0)
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "broadcast")
    root = root_of(found, src, group_src, "broadcast")
    array = array_of(tensor, "broadcast")
    return _give(
        words_of("broadcast", tensor, f"from {root}"),
        found,
        lambda: found.engine.broadcast(raw(array), root),
        lambda: [tensor if found.rank() == root else put(tensor, array)],
        async_op,
    )


def raw(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, sent without interpretation."""
    return array.reshape(-1).view(np.uint8)


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Put the tensor of process k into number k of tensor_list, in every process. Raises ShapeError if there are not as many
    tensors as processes, or their shapes differ.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> parts = [sg.zeros(2)]
    >>> sg.distributed.all_gather(parts, sg.ones(2))
    >>> parts
    [tensor([1., 1.])]
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "all_gather")
    _check_list(tensor_list, tensor, found, "all_gather")
    array = array_of(tensor, "all_gather")
    out = np.empty((found.size(), *array.shape), array.dtype)
    return _give(
        words_of("all_gather", tensor),
        found,
        lambda: found.engine.all_gather(raw(array), raw(out)),
        lambda: [put(t, a) for t, a in zip(tensor_list, out, strict=True)],
        async_op,
    )


def _check_list(tensors: Sequence[Any], like: Any, group: ProcessGroup, what: str) -> None:
    if len(tensors) != group.size():
        raise ShapeError(f"[distributed.{what}] got {len(tensors)} tensors for {group.size()} processes.")
    for t in tensors:
        if tuple(t.shape) != tuple(like.shape) or t.dtype is not like.dtype:
            raise ShapeError(
                f"[distributed.{what}] one of the tensors is {t.dtype} of {tuple(t.shape)}, the other {like.dtype} of {tuple(like.shape)}."
            )


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """all_gather into one tensor: (size * n, ...), or (size, n, ...), of inputs (n, ...).

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> whole = sg.zeros(2)
    >>> sg.distributed.all_gather_into_tensor(whole, sg.ones(2))
    >>> whole
    tensor([1., 1.])
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "all_gather_into_tensor")
    array = array_of(input_tensor, "all_gather_into_tensor")
    _check_whole(output_tensor, input_tensor, found, "all_gather_into_tensor")
    out = np.empty(tuple(output_tensor.shape), array.dtype)
    return _give(
        words_of("all_gather_into_tensor", input_tensor),
        found,
        lambda: found.engine.all_gather(raw(array), raw(out)),
        lambda: put(output_tensor, out),
        async_op,
    )


def _check_whole(whole: Any, part: Any, group: ProcessGroup, what: str) -> None:
    size = group.size()
    n = part.shape
    if tuple(whole.shape) not in ((size, *n), (size * (n[0] if n else 1), *n[1:])) or whole.dtype is not part.dtype:
        raise ShapeError(
            f"[distributed.{what}] the whole is {whole.dtype} of {tuple(whole.shape)}, one part of {size} is {part.dtype} of {tuple(n)}."
        )


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the inputs of all processes; process k gets part k of the result: the inverse of all_gather_into_tensor.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> part = sg.zeros(2)
    >>> sg.distributed.reduce_scatter_tensor(part, sg.ones(2))
    >>> part
    tensor([1., 1.])
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "reduce_scatter_tensor")
    _check_whole(input, output, found, "reduce_scatter_tensor")
    return _reduce_scatter(output, array_of(input, "reduce_scatter_tensor"), op, found, async_op)


def _reduce_scatter(output: Any, array: np.ndarray, op: Any, group: ProcessGroup, async_op: bool) -> Work | None:
    given = Reduced(array, op, "reduce_scatter")
    rows = given.array.reshape(group.size(), -1)
    out = np.empty(rows.shape[1], rows.dtype)
    return _give(
        words_of("reduce_scatter", output, op.name),
        group,
        lambda: group.engine.reduce_scatter(rows, out, given.op),
        lambda: put(output, given.result(out, group.size())),
        async_op,
    )


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """reduce_scatter_tensor, of a list with a tensor for each process.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> part = sg.zeros(2)
    >>> sg.distributed.reduce_scatter(part, [sg.ones(2)])
    >>> part
    tensor([1., 1.])
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "reduce_scatter")
    _check_list(input_list, output, found, "reduce_scatter")
    array = np.stack([array_of(t, "reduce_scatter") for t in input_list])
    return _reduce_scatter(output, array, op, found, async_op)


def gather(
    tensor: Any,
    gather_list: Sequence[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """all_gather into the list of process dst alone. The other processes pass no list.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> parts = [sg.zeros(2)]
    >>> sg.distributed.gather(sg.ones(2), parts, dst=0)
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "gather")
    root = root_of(found, dst, group_dst, "gather")
    array = array_of(tensor, "gather")
    is_root = found.rank() == root
    if is_root != bool(gather_list):
        raise ArgumentError("[distributed.gather] the process dst gives gather_list, and no other.")
    if is_root:
        assert gather_list is not None
        _check_list(gather_list, tensor, found, "gather")
    out = np.empty((found.size(), *array.shape), array.dtype) if is_root else None
    return _give(
        words_of("gather", tensor, f"to {root}"),
        found,
        lambda: found.engine.gather(raw(array), None if out is None else raw(out), root),
        lambda: [put(t, a) for t, a in zip(gather_list or (), () if out is None else out, strict=True)],
        async_op,
    )


def scatter(
    tensor: Any,
    scatter_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Put number k of the list of process src into the tensor of process k. The other processes pass no list.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> part = sg.zeros(2)
    >>> sg.distributed.scatter(part, [sg.ones(2)], src=0)
    >>> part
    tensor([1., 1.])
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "scatter")
    root = root_of(found, src, group_src, "scatter")
    is_root = found.rank() == root
    if is_root != bool(scatter_list):
        raise ArgumentError("[distributed.scatter] the process src gives scatter_list, and no other.")
    out = array_of(tensor, "scatter")
    given = None
    if is_root:
        assert scatter_list is not None
        _check_list(scatter_list, tensor, found, "scatter")
        given = np.stack([array_of(t, "scatter") for t in scatter_list])
    return _give(
        words_of("scatter", tensor, f"from {root}"),
        found,
        lambda: found.engine.scatter(None if given is None else raw(given), raw(out), root),
        lambda: [put(tensor, out)],
        async_op,
    )


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send part k of the input, cut evenly along the first axis, to process k; part k of the output comes from process k.

    Raises ShapeError if the first axis cannot be cut evenly. Parts of different sizes are not supported.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> out = sg.zeros(2)
    >>> sg.distributed.all_to_all_single(out, sg.ones(2))
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "all_to_all_single")
    if output_split_sizes or input_split_sizes:
        raise ArgumentError("[distributed.all_to_all_single] parts of unlike sizes are not supported. Hint: pad them.")
    if tuple(output.shape) != tuple(input.shape) or not input.shape or input.shape[0] % found.size():
        raise ShapeError(
            f"[distributed.all_to_all_single] {tuple(input.shape)} cannot be cut into {found.size()} parts for {tuple(output.shape)}."
        )
    array = array_of(input, "all_to_all_single")
    out = np.empty_like(array)
    words = words_of("all_to_all_single", input)
    return _give(
        words, found, lambda: found.engine.all_to_all(raw(array), raw(out)), lambda: put(output, out), async_op
    )


def _peer(group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    if rank is None and group_rank is None:
        raise NoGroupError(f"[distributed.{what}] say with which process. recv from any is not supported.")
    found = root_of(group, rank, group_rank, what)
    if found == group.rank():
        raise NoGroupError(f"[distributed.{what}] process {found} would wait for itself.")
    return found


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work:
    """Send a tensor to process dst, which must receive it; returns a Work.

    >>> try:
    ...     sg.distributed.isend(sg.ones(1), dst=1)
    ... except sg.distributed.DistError as error:
    ...     print(str(error)[:19])
    [distributed.isend]
    """
    found = chosen(group, "isend")
    peer = _peer(found, dst, group_dst, "isend")
    array = array_of(tensor, "isend")
    return Work(Sent(words_of("", tensor), found.engine, raw(array), peer, tag), lambda: [tensor])


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work:
    """Receive into a tensor from process src; returns a Work.

    >>> try:
    ...     sg.distributed.irecv(sg.ones(1), src=1)
    ... except sg.distributed.DistError as error:
    ...     print(str(error)[:19])
    [distributed.irecv]
    """
    return _received(tensor, src, group, tag, group_src, is_async=True)


def _received(tensor: Any, src: int | None, group: Any, tag: int, group_src: int | None, is_async: bool) -> Work:
    found = chosen(group, "irecv")
    peer = _peer(found, src, group_src, "irecv")
    array = array_of(tensor, "irecv")
    received = Received(words_of("", tensor), found, raw(array), peer, tag, is_async)
    return Work(received, lambda: [put(tensor, array)])


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to process dst, and wait until it is on its way.

    >>> try:
    ...     sg.distributed.send(sg.ones(1), dst=1)
    ... except sg.distributed.DistError as error:
    ...     print(str(error)[:19])
    [distributed.isend]
    """
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive into a tensor from process src. Returns src.

    >>> try:
    ...     sg.distributed.recv(sg.ones(1), src=1)
    ... except sg.distributed.DistError as error:
    ...     print(str(error)[:19])
    [distributed.irecv]
    """
    _received(tensor, src, group, tag, group_src, is_async=False).wait()
    found = chosen(group, "recv")
    return found.ranks[group_src] if group_src is not None else (src or 0)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return when all processes of the group have called it. device_ids: ignored.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.barrier()
    >>> sg.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    found = chosen(group, "barrier")
    return _give("barrier", found, found.engine.barrier, lambda: None, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """barrier, whose error names a missing process, as the error of any operation does. timeout: as in PyTorch; wait_all_ranks: ignored.

    >>> sg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> sg.distributed.monitored_barrier()
    >>> sg.distributed.destroy_process_group()
    """
    work = barrier(group, async_op=True)
    if work is not None:
        work.wait(timeout)
