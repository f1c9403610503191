"""Which parts of the language the library passes, and which are still to come.

A statement is generated only if all of its features are allowed. `make test` leaves out those of TO_COME;
`scripts/programs.py` runs them too, one by one with --by-feature. When a part works, its line goes.
"""

from __future__ import annotations

from functools import cache

VIEWS = (
    "row", "select", "slice", "step slice", "narrow", "split", "chunk", "unbind", "iteration", "transpose", "permute",
    "expand", "diagonal", "unfold", "unsqueeze", "squeeze", "flatten", "view", "reshape", "all of it", "newaxis",
    "detach", "data", "no-op",
)  # fmt: skip
OTHER_ALIASES = ("grad", "grad.data", "state_dict", "Parameter", "data assign", "result")

# what every program may use: a program of these alone is the ground that other features stand on
CORE = frozenset({"step", "backward", "Parameter", "module", "optimizer", "zero_grad", "write in no_grad"})

ALL = CORE | {
    *VIEWS,
    # changes in place: of a view's memory, and of memory that a named view shows
    *(f"through {kind}" for kind in (*VIEWS, *OTHER_ALIASES)),
    *(f"shared {kind}" for kind in (*VIEWS, "Parameter", "data assign", "result")),
    "set row", "set slice", "set step slice", "set index", "set int64 index", "set all", "set column", "set mask", "masked_fill_",
    "augmented", "index_add_", "index_fill_", "init", "copy_", "data assign", "Parameter of a tensor", "grad alias",
    # gradients
    "write in graph", "tracked value written", "tracked value written in no_grad", "average of a leaf", "update by hand",
    "autograd.grad", "grad None", "grad assign", "grad assign of a tensor", "result is a gradient", "zero_grad to zero", "requires_grad_", "detach_", "no_grad result",
    "second backward", "history written in no_grad", "view made in no_grad", "copy by clone", "copy by tensor()", "copy by deepcopy", "copies together", "deepcopy of a gradient", "flag of a shared tensor", "leaf changed after use", "int32", "int64", "layout",
    # what PyTorch refuses
    "refused leaf write", "refused leaf view write", "refused second backward", "saved value changed",
    "refused overlapping write", "refused write to one of several views", "refused write to view made in no_grad",
    "refused backward", "refused flag", "refused detach_", "refused shapes", "refused view", "refused otherwise",
    # Python around a step
    "global number", "attribute number", "dict number", "cell number", "cell tensor", "flag", "None", "string", "counter",
    "counter unread", "list append", "list read", "attribute store", "attribute state", "dict store", "exception in step",
    "number argument", "flag argument", "offset argument", "None argument", "captured name rebound", "list number", "list of tensors",
    "which list", "which tensor", "swap", "shared list", "function", "module parameter replaced", "load_state_dict", "threads", "mask",
    "gradient changed between calls", "capture written between calls", "flag changed between calls",
    # calls
    "argument written", "capture written in step", "gradient written in step", "same argument twice", "shared argument written", "arguments that share memory", "captured argument",
    "argument that shares memory with a capture", "other shape", "sizes", "error in step", "result shares memory",
    "attached result", "history leaves step", "history enters step", "leaf argument",
}  # fmt: skip
COMPANIONS = {  # what a feature shows only beside
    "refused leaf write": frozenset({"write in graph"}),
    "refused leaf view write": frozenset({"write in graph", "row", "through row", "shared row"}),
    "refused overlapping write": frozenset({"expand", "through expand"}),
    "refused second backward": frozenset({"second backward"}),
    "refused flag": frozenset({"requires_grad_"}),
    "refused detach_": frozenset({"detach_", "row"}),
    "refused write to one of several views": frozenset({"write in graph", "unbind", "through unbind", "shared unbind"}),
    "refused write to view made in no_grad": frozenset(
        {"write in graph", "view made in no_grad", "row", "through row"}
    ),
    "view made in no_grad": frozenset({"row", "view"}),
    "shared data assign": frozenset({"data assign"}),
    "through data assign": frozenset({"data assign", "shared data assign"}),
    "shared Parameter": frozenset({"Parameter of a tensor"}),
    "through Parameter": frozenset({"Parameter of a tensor", "shared Parameter"}),
    "shared result": frozenset(
        {
            "result shares memory",
        }
    ),
    "grad assign of a tensor": frozenset({"grad assign"}),
    "through result": frozenset({"result shares memory", "shared result"}),
    "arguments that share memory": frozenset({"row", "view", "slice", "detach", "same argument twice"}),
    "argument that shares memory with a capture": frozenset({"row", "view", "slice", "detach", "captured argument"}),
    "shared argument written": frozenset({"argument written", "same argument twice"}),
    "deepcopy of a gradient": frozenset({"copy by deepcopy"}),
    "copies together": frozenset({"copy by deepcopy", "row", "slice", "detach", "transpose"}),
    "flag of a shared tensor": frozenset({"requires_grad_", "row", "view"}),
    "flag changed between calls": frozenset({"requires_grad_"}),
    "refused view": frozenset({"transpose", "refused shapes"}),
    "saved value changed": frozenset({"masked_fill_", "set row", "augmented"}),
    "error in step": frozenset({"other shape", "refused otherwise"}),
    "exception in step": frozenset({"error in step", "refused otherwise"}),
    "history leaves step": frozenset({"write in graph", "tracked value written", "capture written in step"}),
    "tracked value written in no_grad": frozenset({"tracked value written"}),
    "history written in no_grad": frozenset({"view"}),
}

# what is not yet as in PyTorch, and where: everywhere, or in the modes named (compiled, module, webgpu)
TO_COME: dict[str, str] = {
    "second backward": "everywhere",
    "view made in no_grad": "everywhere",
    "refused view": "everywhere",
    "flag of a shared tensor": "everywhere",
    "history leaves step": "compiled module",  # modules refuse it, but into memory that a parameter shares
    "captured argument": "module",  # which is one tensor: an argument has a stand-in
    "shared result": "module",  # one with a history, of an argument that has one, has memory of its own
}
CASES_TO_COME: dict[str, str] = {}


def is_to_come(where: str | None, mode: str) -> bool:
    """Whether what is marked so does not yet work in a mode."""
    return where is not None and (where == "everywhere" or bool(set(where.split()) & set(mode.split("-"))))


@cache
def allowed(mode: str) -> frozenset[str]:
    """The features that work in a mode."""
    return ALL - {feature for feature, where in TO_COME.items() if is_to_come(where, mode)}
