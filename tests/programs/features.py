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
    *(f"shared {kind}" for kind in (*VIEWS, *OTHER_ALIASES)),
    "set row", "set slice", "set step slice", "set index", "set int64 index", "set all", "set column", "set mask", "masked_fill_",
    "augmented", "index_add_", "index_fill_", "init", "data assign", "Parameter of a tensor", "grad alias",
    # gradients
    "write in graph", "tracked value written", "tracked value written in no_grad", "average of a leaf", "update by hand",
    "autograd.grad", "grad None", "grad assign", "zero_grad to zero", "requires_grad_", "detach_", "no_grad result",
    "second backward", "history written in no_grad", "view made in no_grad", "copy by clone", "copy by tensor()", "copy by deepcopy", "deepcopy of a gradient", "flag of a shared tensor", "leaf changed after use", "int32", "int64", "layout",
    # what PyTorch refuses
    "refused leaf write", "refused leaf view write", "refused second backward", "saved value changed",
    "refused overlapping write", "refused write to one of several views", "refused write to view made in no_grad",
    "refused backward", "refused flag", "refused detach_", "refused shapes", "refused view", "refused otherwise",
    # Python around a step
    "global number", "attribute number", "dict number", "cell number", "cell tensor", "flag", "None", "string", "counter",
    "counter unread", "list append", "list read", "attribute store", "attribute state", "dict store", "exception in step",
    "number argument", "flag argument", "offset argument", "None argument", "captured name rebound", "list number", "list of tensors",
    "function", "module parameter replaced", "load_state_dict", "threads", "mask",
    "gradient changed between calls", "capture written between calls", "flag changed between calls",
    # calls
    "argument written", "capture written in step", "gradient written in step", "same argument twice", "shared argument written", "arguments that share memory", "captured argument",
    "argument that shares memory with a capture", "other shape", "error in step", "returned capture", "result shares memory",
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
    "shared grad": frozenset({"grad alias", "through grad"}),
    "shared grad.data": frozenset({"grad alias", "through grad.data"}),
    "shared data assign": frozenset({"data assign"}),
    "through data assign": frozenset({"data assign", "shared data assign"}),
    "shared Parameter": frozenset({"Parameter of a tensor"}),
    "through Parameter": frozenset({"Parameter of a tensor", "shared Parameter"}),
    "shared result": frozenset({"result shares memory", "returned capture"}),
    "through result": frozenset({"result shares memory", "returned capture", "shared result"}),
    "returned capture": frozenset({"result shares memory"}),
    "arguments that share memory": frozenset({"row", "view", "slice", "detach", "same argument twice"}),
    "argument that shares memory with a capture": frozenset({"row", "view", "slice", "detach", "captured argument"}),
    "shared argument written": frozenset({"argument written", "same argument twice"}),
    "deepcopy of a gradient": frozenset({"copy by deepcopy"}),
    "flag of a shared tensor": frozenset({"requires_grad_", "row", "view"}),
    "error in step": frozenset({"other shape"}),
    "history leaves step": frozenset({"write in graph", "tracked value written", "capture written in step"}),
    "tracked value written in no_grad": frozenset({"tracked value written"}),
    "history written in no_grad": frozenset({"view"}),
}

# what is not yet as in PyTorch, and where: everywhere, or in the modes named (compiled, webgpu)
TO_COME: dict[str, str] = {
    "shared Parameter": "everywhere",
    "shared all of it": "everywhere",
    "shared argument written": "everywhere",
    "shared chunk": "everywhere",
    "shared data": "everywhere",
    "shared data assign": "everywhere",
    "shared detach": "everywhere",
    "shared diagonal": "everywhere",
    "shared expand": "everywhere",
    "shared flatten": "everywhere",
    "shared grad": "everywhere",
    "shared grad.data": "everywhere",
    "shared iteration": "everywhere",
    "shared narrow": "everywhere",
    "shared newaxis": "everywhere",
    "shared no-op": "everywhere",
    "shared permute": "everywhere",
    "shared reshape": "everywhere",
    "shared result": "everywhere",
    "shared row": "everywhere",
    "shared select": "everywhere",
    "shared slice": "everywhere",
    "shared split": "everywhere",
    "shared squeeze": "everywhere",
    "shared state_dict": "everywhere",
    "shared step slice": "everywhere",
    "shared transpose": "everywhere",
    "shared unbind": "everywhere",
    "shared unfold": "everywhere",
    "shared unsqueeze": "everywhere",
    "shared view": "everywhere",
    "through Parameter": "everywhere",
    "through all of it": "everywhere",
    "through chunk": "everywhere",
    "through data": "everywhere",
    "through data assign": "everywhere",
    "through detach": "everywhere",
    "through diagonal": "everywhere",
    "through expand": "everywhere",
    "through flatten": "everywhere",
    "through grad.data": "everywhere",
    "through iteration": "everywhere",
    "through narrow": "everywhere",
    "through newaxis": "everywhere",
    "through no-op": "everywhere",
    "through permute": "everywhere",
    "through reshape": "everywhere",
    "through result": "everywhere",
    "through row": "everywhere",
    "through select": "everywhere",
    "through slice": "everywhere",
    "through split": "everywhere",
    "through squeeze": "everywhere",
    "through state_dict": "everywhere",
    "through step slice": "everywhere",
    "through transpose": "everywhere",
    "through unbind": "everywhere",
    "through unfold": "everywhere",
    "through unsqueeze": "everywhere",
    "through view": "everywhere",
    "layout": "everywhere",
    "average of a leaf": "everywhere",
    "second backward": "everywhere",
    "all of it": "everywhere",
    "refused leaf view write": "everywhere",
    "refused overlapping write": "everywhere",
    "view made in no_grad": "everywhere",
    "history written in no_grad": "everywhere",
    "grad alias": "everywhere",
    "data assign": "everywhere",
    "refused flag": "everywhere",
    "refused view": "everywhere",
    "refused detach_": "everywhere",
    "flag of a shared tensor": "everywhere",
    "deepcopy of a gradient": "everywhere",
    "tracked value written in no_grad": "everywhere",
    "write in graph": "everywhere",
    "leaf changed after use": "everywhere",
    "tracked value written": "everywhere",
    "argument written": "compiled",
    "copy by tensor()": "compiled",
    "error in step": "compiled",
    "capture written in step": "compiled",
    "gradient written in step": "compiled",
    "result shares memory": "compiled",
    "returned capture": "compiled",
    "captured argument": "compiled",
    "argument that shares memory with a capture": "compiled",
    "arguments that share memory": "compiled",
    "flag changed between calls": "compiled",
    "history leaves step": "compiled",
    "history enters step": "compiled",
    "leaf argument": "compiled",
    "int64": "webgpu",
    "gradient changed between calls": "compiled",
}
CASES_TO_COME: dict[str, str] = {
    "data_written_in_every_way": "everywhere",
    "initialisation_of_weight_data": "everywhere",
    "weights_initialised_by_apply": "everywhere",
    "gradient_zeroed_through_data": "everywhere",
    "state_dict_entry_filled": "everywhere",
    "detached_written": "everywhere",
    "row_incremented": "everywhere",
    "views_written": "everywhere",
    "views_follow_their_base": "everywhere",
    "data_assigned_shares": "everywhere",
    "a_parameter_shares_with_its_tensor": "everywhere",
    "an_average_of_weights_leaves_their_gradient": "everywhere",
    "history_follows_a_written_view": "everywhere",
    "leaves_refuse_to_be_written": "everywhere",
    "several_addresses_of_one_element_refuse": "everywhere",
    "copies_outlive_a_step_that_overwrites": "compiled",
    "tensors_of_tensors_outlive_a_step": "everywhere",
    "views_of_weights_see_the_steps": "everywhere",
    "two_arguments_that_are_written": "everywhere",
    "an_argument_that_is_captured": "everywhere",
    "an_argument_changed_in_place": "compiled",
    "a_row_changed_by_a_step": "everywhere",
    "a_result_that_is_the_state_itself": "compiled",
    "weights_changed_between_calls": "everywhere",
    "a_gradient_made_outside": "compiled",
}


def is_to_come(where: str | None, mode: str) -> bool:
    """Whether what is marked so does not yet work in a mode."""
    return where is not None and (where == "everywhere" or bool(set(where.split()) & set(mode.split("-"))))


@cache
def allowed(mode: str) -> frozenset[str]:
    """The features that work in a mode."""
    return ALL - {feature for feature, where in TO_COME.items() if is_to_come(where, mode)}
