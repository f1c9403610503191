"""The table of names: aliases, in-place forms, and the methods that are also functions of the package (sg.exp).

An entry is all that a name needs: its method, docstring and type are generated (`make stubs` writes names.pyi and functions.pyi). The
docstring of a method with an in-place form contains an example `>>> x.name(...)`, where x is a name or an expression; the in-place form
must give the same result in this example, and return x itself.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from types import FunctionType
from typing import Any

from ..arguments import checked
from ..errors import AutogradError, DeviceError, DTypeError
from ..graph.node import mode
from .handle import Handle
from .precision import follows_policy
from .random import RandomTensor

ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapaxes_": "transpose_",
    "swapdims": "transpose",
    "swapdims_": "transpose_",
    "trapz": "trapezoid",
    "true_divide": "div",
}

# each also as name_(), which writes the result into the tensor and returns it
IN_PLACE = (
    "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh",
    "baddbmm", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clamp", "clamp_max", "clamp_min", "clip", "copysign", "cos", "cosh", "cumprod", "cumsum", "deg2rad",
    "digamma", "div", "divide", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "float_power", "floor",
    "floor_divide", "fmod", "frac", "gcd", "ge", "greater", "greater_equal", "gt", "heaviside", "hypot", "index_add",
    "index_copy", "index_fill", "index_put", "index_reduce", "lcm", "ldexp", "le", "lerp", "less", "less_equal",
    "lgamma", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt",
    "masked_fill", "masked_scatter", "mul", "multiply", "nan_to_num", "ne", "neg", "negative", "nextafter", "not_equal",
    "pow", "put", "rad2deg", "reciprocal", "relu", "remainder", "renorm", "round", "rsqrt", "scatter", "scatter_add",
    "scatter_reduce", "sgn", "sigmoid", "sign", "sin", "sinc", "sinh", "sqrt", "square", "sub", "subtract", "tan",
    "tanh", "tril", "triu", "true_divide", "trunc", "xlogy",
)  # fmt: skip

# augmented assignments, such as `x //= 2`, and the methods whose in-place forms they are; `@=` has none, as in PyTorch
AUGMENTED = {
    "add": "add",
    "and": "bitwise_and",
    "floordiv": "floor_divide",
    "lshift": "bitwise_left_shift",
    "mod": "remainder",
    "mul": "mul",
    "or": "bitwise_or",
    "pow": "pow",
    "rshift": "bitwise_right_shift",
    "sub": "sub",
    "truediv": "div",
    "xor": "bitwise_xor",
}

# functions below that have no `out=` in PyTorch
WITHOUT_OUT = frozenset((
    "adjoint", "allclose", "argwhere", "as_strided", "bincount", "broadcast_to", "chunk", "clone", "corrcoef", "count_nonzero", "cov",
    "cumulative_trapezoid", "detach", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "dist", "dsplit",
    "equal", "flatten", "flip", "fliplr", "flipud", "hsplit", "index_fill", "index_put", "is_floating_point",
    "is_signed", "isclose", "isfinite", "isinf", "isnan", "isreal", "masked_fill", "masked_scatter", "moveaxis",
    "movedim", "narrow", "numel", "permute", "positive", "prelu", "put", "ravel", "relu", "reshape", "roll", "rot90",
    "rsub", "select", "select_scatter", "split", "split_with_sizes", "squeeze", "std_mean", "swapaxes", "swapdims", "t",
    "tensor_split", "tile", "trace", "transpose", "trapezoid", "trapz", "unbind", "unflatten", "unique",
    "unique_consecutive", "unsqueeze", "var_mean", "vsplit", "zero_",
))  # fmt: skip

# functions whose `out=` must have the result's dtype, as in PyTorch
SAME_DTYPE_OUT = frozenset(
    (
        "abs",
        "absolute",
        "aminmax",
        "cat",
        "ceil",
        "fix",
        "floor",
        "frac",
        "neg",
        "negative",
        "nonzero",
        "round",
        "sgn",
        "sign",
        "trunc",
        "gather",
        "index_select",
        "kthvalue",
        "multinomial",
        "sort",
        "take",
        "topk",
    )
)

# each also as a function of the package, whose first argument is the tensor
FUNCTIONS = (
    "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "adjoint",
    "all", "allclose", "amax", "amin", "aminmax", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argsort", "argwhere", "as_strided", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm",
    "bernoulli", "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bmm", "broadcast_to", "bucketize", "ceil", "chunk", "clamp", "clamp_max", "clamp_min", "clip",
    "clone", "copysign", "corrcoef", "cos", "cosh", "count_nonzero", "cov", "cross", "cummax", "cummin", "cumprod",
    "cumsum", "cumulative_trapezoid", "deg2rad", "detach", "diag", "diag_embed", "diagflat", "diagonal",
    "diagonal_scatter", "diff", "digamma", "dist", "div", "divide", "dot", "dsplit", "eq", "equal", "erf", "erfc",
    "erfinv", "exp", "exp2", "expm1", "fix", "flatten", "flip", "fliplr", "flipud", "float_power", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "frac", "frexp", "gather", "gcd", "ge", "ger", "greater", "greater_equal",
    "gt", "heaviside", "histc", "histogram", "hsplit", "hypot", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "index_select", "inner", "is_floating_point", "is_signed", "isclose", "isfinite", "isinf", "isnan",
    "isneginf", "isposinf", "isreal", "kron", "kthvalue", "lcm", "ldexp", "le", "lerp", "less", "less_equal", "lgamma",
    "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logsumexp", "lt", "masked_fill", "masked_scatter",
    "masked_select", "matmul", "max", "maximum", "mean", "median", "min", "minimum", "mm", "mode", "moveaxis",
    "movedim", "msort", "mul", "multinomial", "multiply", "mv", "nan_to_num", "nanmean", "nanmedian", "nanquantile",
    "nansum", "narrow", "ne", "neg", "negative", "nextafter", "nonzero", "norm", "not_equal", "numel", "outer",
    "permute", "positive", "pow", "prelu", "prod", "put", "quantile", "rad2deg", "ravel", "reciprocal", "relu",
    "remainder", "renorm", "reshape", "roll", "rot90", "round", "rsqrt", "rsub", "scatter", "scatter_add",
    "scatter_reduce", "searchsorted", "select", "select_scatter", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc",
    "sinh", "slice_scatter", "softmax", "sort", "split", "split_with_sizes", "sqrt", "square", "squeeze", "std",
    "std_mean", "sub", "subtract", "sum", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh",
    "tensor_split", "tile", "topk", "trace", "transpose", "trapezoid", "trapz", "tril", "triu", "true_divide", "trunc",
    "unbind", "unflatten", "unique", "unique_consecutive", "unsqueeze", "var", "var_mean", "vdot", "vsplit", "xlogy",
    "zero_",
)  # fmt: skip


# and in place: torch.neg_(x) is x.neg_()
IN_PLACE_FUNCTIONS = (
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "asin_", "asinh_",
    "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "cos_", "cosh_", "deg2rad_", "detach_", "erf_",
    "erfc_", "exp2_", "exp_", "expm1_", "fill_", "fix_", "floor_", "frac_", "gcd_", "index_put_", "lcm_", "ldexp_", "log10_",
    "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "relu_", "round_", "rsqrt_",
    "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_",
)  # fmt: skip


class NamedTensor(RandomTensor):
    """A tensor with all methods, under all names."""

    __slots__ = ()

    def _receive(self, value: Any, what: str) -> None:
        """Take the result of a function with out=self: cast to this dtype, and in the result's shape."""
        if mode.grad and (self.requires_grad or value.requires_grad):
            raise AutogradError(
                f"{what}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad."
            )
        integers = value.dtype.category == self.dtype.category == 1  # positions are int32 here, int64 in PyTorch
        if what in SAME_DTYPE_OUT and value.dtype is not self.dtype and not integers:
            raise DTypeError(
                f"[{what}] Expected out tensor to have dtype {value.dtype.name}, but got {self.dtype.name}"
            )
        if value.dtype.category > self.dtype.category:
            raise DTypeError(
                f"[{what}] result type {value.dtype.name} can't be cast to the desired output type {self.dtype.name}"
            )
        if value.shape == self.shape:
            self._update_in_place(value, what)
            return
        if self.numel():
            warnings.warn(
                f"{what}(): an output with one or more elements was resized since it had shape {list(self.shape)}, which "
                f"does not match the required output shape {list(value.shape)}. Hint: give an empty tensor, or that shape.",
                stacklevel=4,
            )
        if value.device != self.device:
            raise DeviceError(f"[{what}] the value is on {value.device}, `out` on {self.device}.")
        self.data = value.detach().to(dtype=self.dtype)


def _alias(alias: str, name: str) -> FunctionType:
    """A copy of the method `name`, whose docstring and errors use the name `alias`."""
    method = getattr(NamedTensor, name)
    copy = FunctionType(method.__code__, method.__globals__, alias, method.__defaults__, method.__closure__)
    functools.update_wrapper(copy, method)
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__name__ = copy.__qualname__ = alias
    text = CALLED.sub(rf"\1.{alias}(", _marked(method, name)).replace(MARK, f".{name}(")
    copy.__doc__ = f"Another name of `{name}`: {text}"
    return copy


MARK = "\0"  # marks calls of the method in a docstring, so that one pattern serves all names: compiling one for each takes 0.1 s
CALLED = re.compile(rf"(>>> .*){MARK}")
FIRST_CALL = re.compile(rf"((?:^>>>[\s\S]*?)?)^>>> (?!\w+ = )(.+?){MARK}(.*\n)((?:(?!>>>).+\n?)*)", re.MULTILINE)


def _marked(method: Any, name: str) -> str:
    return inspect.cleandoc(method.__doc__ or "").replace(f".{name}(", MARK)


def _in_place_form(name: str) -> Any:
    method = getattr(NamedTensor, name)

    @functools.wraps(method)
    def form(self: Any, *args: Any, **options: Any) -> Any:
        return self._update_in_place(method(self, *args, **options), f"{name}_")

    form.__name__ = form.__qualname__ = f"{name}_"
    form.__doc__ = _in_place_doc(name, _marked(method, name)).replace(MARK, f".{name}(")
    return form


def _in_place_doc(name: str, text: str) -> str:
    """The docstring of name_ from that of the method, with its calls renamed: its first sentence, and its first example."""
    said = text.partition("\n\n")[0]
    call = FIRST_CALL.search(text)
    example = ""
    if call is not None:
        before, value, arguments, shown = call.groups()
        x = value if value.isidentifier() else "x"
        before += "" if x == value else f">>> x = {value}\n"
        shown = shown.strip().replace("[ True", "[True").replace("True", "1").replace("False", "0")  # cast to its dtype
        example = f"{before}>>> {x}.{name}_({arguments}{shown}\n>>> {x}\n{shown}"
    return f"""`{name}`, in place: {said}

The tensor takes the result, cast to its own dtype, and is returned. Raises AutogradError for a leaf that requires grad,
ShapeError where the result has another shape, and DTypeError where its dtype is of a higher kind (float above integer
above bool).

{example}"""


def _install() -> None:
    for alias, name in ALIASES.items():
        setattr(NamedTensor, alias, _alias(alias, name))
    for name in IN_PLACE:
        setattr(NamedTensor, f"{name}_", _in_place_form(name))
    for cls in NamedTensor.__mro__:
        if issubclass(cls, Handle):
            check_methods(cls)
    for operator, name in AUGMENTED.items():
        setattr(NamedTensor, f"__i{operator}__", getattr(NamedTensor, f"{name}_"))


def check_methods(cls: type[Any]) -> None:
    """Wrap the public methods of a tensor class in checks of their arguments. Missing, unknown and wrongly
    typed arguments raise errors with the name that the user called.
    """
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType):
            member.__qualname__ = name
            if name == "__init__":
                setattr(cls, name, checked(member, "Tensor", method=True))
            elif not name.startswith("_"):
                setattr(cls, name, checked(follows_policy(member, name), name, method=True))


_install()
