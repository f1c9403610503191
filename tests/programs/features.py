"""Which parts of the language the library passes, and which are still to come.

A statement is generated only if all of its features are allowed. `make test` allows FEATURES; `scripts/programs.py`
takes those of TO_COME too, one by one with --by-feature. When a part works, its line moves up.
"""

from __future__ import annotations

VIEWS = (
    "row", "select", "slice", "step slice", "narrow", "split", "chunk", "unbind", "iteration", "transpose", "permute",
    "expand", "diagonal", "unfold", "unsqueeze", "squeeze", "flatten", "view", "reshape", "view_as", "whole", "newaxis",
    "detach", "data", "no-op",
)  # fmt: skip
OTHER_ALIASES = ("grad", "grad.data", "state_dict", "Parameter", "data assign", "result")

# what every program may use: a program of these alone is the ground that other features stand on
CORE = frozenset({"step", "backward", "Parameter", "module", "optimizer", "zero_grad", "write in no_grad"})

ALL = CORE | {
    *VIEWS,
    # changes in place: of a view's memory, and of memory that a named view shows
    *(f"through {kind}" for kind in (*VIEWS, *OTHER_ALIASES)),
    *(f"shared {kind}" for kind in (*VIEWS, *OTHER_ALIASES)),
    "set row", "set slice", "set step slice", "set index", "set int64 index", "set all", "set column", "set mask", "masked_fill_",
    "augmented", "index_add_", "index_fill_", "init", "data assign", "Parameter of a tensor", "grad alias",
    # gradients
    "write in graph", "tracked value written", "tracked value written in no_grad", "average of a leaf", "update by hand",
    "autograd.grad", "grad None", "grad assign", "zero_grad to zero", "requires_grad_", "detach_", "no_grad result",
    "second backward", "history written in no_grad", "view made in no_grad", "copy by clone", "copy by tensor()", "copy by deepcopy", "int32", "int64", "layout",
    # what PyTorch refuses
    "refused leaf write", "refused leaf view write", "refused second backward", "saved value changed",
    "refused overlapping write", "refused write to one of several views", "refused write to view made in no_grad",
    "refused backward", "refused flag", "refused detach_", "refused shapes", "refused otherwise",
    # Python around a step
    "global number", "attribute number", "dict number", "cell number", "cell tensor", "flag", "None", "string", "counter",
    "counter unread", "list append", "list read", "attribute store", "attribute state", "dict store", "exception in step",
    "number argument", "flag argument", "offset argument", "None argument", "captured name rebound",
    "gradient changed between calls", "capture written between calls",
    # calls
    "argument written", "capture written in step", "same argument twice", "arguments that share memory", "captured argument",
    "argument that shares memory with a capture", "other shape", "error in step", "returned capture", "result shares memory",
    "attached result", "history leaves step", "history enters step", "leaf argument",
}  # fmt: skip
TO_COME: frozenset[str] = frozenset()
FEATURES = ALL - TO_COME
