"""Memory formats, bytes of elements, and questions about a tensor's shape and storage."""

from __future__ import annotations

from typing import Any

from ..arguments import checked
from ..errors import ArgumentTypeError, ShapeError
from ..tensor import Tensor
from ..tensor.dtype_views import signs
from .installation import install_methods, install_properties

strided = "strided"
preserve_format, contiguous_format, channels_last = "preserve_format", "contiguous_format", "channels_last"
channels_last_3d = "channels_last_3d"
newaxis = None


@checked
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0. Raises ShapeError for another number of them.

    >>> sg.is_nonzero(sg.tensor([2.0]))
    True
    """
    return bool(input)


@checked
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> sg.is_same_size(sg.ones(2), sg.zeros(2))
    True
    """
    return input.shape == other.shape


def _is_sparse(self: Tensor) -> bool:
    """False: all tensors are dense.

    >>> sg.ones(2).is_sparse
    False
    """
    return False


def _to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, in `dtype` where one is named: all tensors are dense. masked_grad, which is of sparse ones, changes nothing.

    >>> sg.ones(2).to_dense(dtype=sg.int32)
    tensor([1, 1])
    """
    return self if dtype is None else self.to(dtype=dtype)


def _layout(self: Tensor) -> str:
    """'strided', as sg.strided.

    >>> sg.ones(2).layout == sg.strided
    True
    """
    return strided


def _itemsize(self: Tensor) -> int:
    """Bytes of an element, as element_size().

    >>> sg.ones(2).itemsize
    4
    """
    return self.element_size()


def _nbytes(self: Tensor) -> int:
    """Bytes of all elements.

    >>> sg.ones(2).nbytes
    8
    """
    return self.element_size() * self.numel()


def _mH(self: Tensor) -> Tensor:
    """The matrices transposed, and conjugated where they are complex.

    >>> sg.ones(2, 3).mH.shape
    shadergrad.Size([3, 2])
    """
    if self.ndim == 1:
        raise ShapeError("tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return self.mT.conj()  # type: ignore[attr-defined]


def _H(self: Tensor) -> Tensor:
    """A matrix transposed, and conjugated where it is complex.

    >>> sg.ones(2, 3).H.shape
    shadergrad.Size([3, 2])
    """
    if self.ndim not in (0, 2):
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor. Hint: .mH, of batches."
        )
    return _mH(self)


def _is_nonzero(self: Tensor) -> bool:
    """Whether the one element is not 0. Raises ShapeError for another number of them.

    >>> sg.tensor(0).is_nonzero()
    False
    """
    return is_nonzero(self)


def _resolved(self: Tensor) -> Tensor:
    """A copy where the tensor is a conjugated view (`is_conj`) or shows negative parts of one (`is_neg`), else the tensor itself.

    >>> sg.tensor([1j]).conj().resolve_conj().is_conj()
    False
    """
    return self.clone() if any(_signs(self)) else self


def _signs(self: Tensor) -> tuple[bool, bool]:
    shared = self._shared
    return (False, False) if shared is None else signs((*shared.path, *self._path))


def _is_conj(self: Tensor) -> bool:
    """Whether the tensor is a view that conjugates what it shows.

    >>> sg.ones(2).is_conj(), sg.tensor([1j]).conj().is_conj()
    (False, True)
    """
    return _signs(self)[0]


def _is_neg(self: Tensor) -> bool:
    """Whether the tensor is a view of the imaginary parts of a conjugated view.

    >>> sg.ones(2).is_neg(), sg.tensor([1j]).conj().imag.is_neg()
    (False, True)
    """
    return _signs(self)[1]


def _delete_part(self: Tensor, key: object) -> None:
    """Refuse `del x[...]`: a tensor keeps its elements."""
    raise ArgumentTypeError("Tensor does not support deleting items")


install_methods({
    "is_nonzero": _is_nonzero, "to_dense": _to_dense, "resolve_conj": _resolved, "resolve_neg": _resolved, "is_conj": _is_conj, "is_neg": _is_neg,
})  # fmt: skip
Tensor.__delitem__ = _delete_part  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
install_properties(
    {
        "is_sparse": _is_sparse,
        "is_sparse_csr": _is_sparse,
        "is_quantized": _is_sparse,
        "layout": _layout,
        "itemsize": _itemsize,
        "nbytes": _nbytes,
        "mH": _mH,
        "H": _H,
    }
)
