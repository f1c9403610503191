"""Training in several processes, one a GPU: process groups and what they do together, by PyTorch's names.

PyTorch's gloo connects the processes (the extra `distributed`), or mpi4py. docs/distributed.md tells how to start them.
"""

from __future__ import annotations

from .. import config as _config
from . import default_hooks
from . import library as _library
from .collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    send,
)
from .default_hooks import ErrorFeedback
from .engines import ReduceOp
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, NoGroupError
from .groups import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
)
from .launch import local_rank
from .objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from .reducer import GradBucket
from .stores import FileStore, HashStore, PrefixStore, TCPStore
from .work import Future, Work


def is_nccl_available() -> bool:
    """False: WebGPU devices exchange values through host memory.

    >>> sg.distributed.is_nccl_available()
    False
    """
    return False


def is_gloo_available() -> bool:
    """Whether PyTorch, which has gloo, is installed.

    >>> sg.distributed.is_gloo_available() in (True, False)
    True
    """
    return _library.is_installed()


def is_mpi_available() -> bool:
    """Whether mpi4py is installed.

    >>> sg.distributed.is_mpi_available() in (True, False)
    True
    """
    return _library.is_installed("mpi4py")


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process.

    >>> sg.distributed.is_torchelastic_launched()
    False
    """
    return bool(_config.launched_with("TORCHELASTIC_RUN_ID"))


__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "ErrorFeedback",
    "FileStore",
    "Future",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "NoGroupError",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "default_hooks",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "local_rank",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]
