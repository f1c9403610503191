"""Random numbers: functions and methods that draw from generators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..arguments import checked
from ..dtypes import DType, FloatLimits, default_dtype, float32, int32, int64, parse_dtype, uint64
from ..errors import ArgumentTypeError, DTypeError, ShapeError
from ..graph import build
from ..graph.build import cast
from ..graph.node import make
from ..plan import IN_BERNOULLI, IN_MULTINOMIAL
from ..primitives import elementwise as e
from ..runtime.device import get_device
from .axes import check_sizes, common_shape, sizes_of
from .base import TensorBase
from .coercion import host_tensor
from .comparison import where
from .counts import CountedTensor
from .creation import _given, finish
from .generator import Generator, signed_bits, source, uniform_bits
from .handle import wrap
from .index import holds
from .placement import LARGEST, check_storable, integer_range, resolve_device


def _floating(dtype: Any, device: str) -> DType:
    kind = default_dtype() if dtype is None else parse_dtype(dtype)
    if kind.category != 2:
        raise DTypeError(f"[rand] random numbers are floating, not {kind.name}. Hint: use randint.")
    check_storable(kind, device)
    return kind


@checked
def rand(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Any:
    """Uniform on [0, 1), with 23 random bits (float16: 11, bfloat16: 8), of shape `size`, given as numbers or as one sequence. With a complex
    dtype, both parts are uniform.

    generator: by default the device's own, which manual_seed seeds. Raises DTypeError for a dtype of integers,
    DeviceError for a generator of another device.

    >>> x = sg.rand(2, 3)
    >>> x.shape, ((x >= 0) & (x < 1)).all()
    (shadergrad.Size([2, 3]), tensor(True))
    """
    name = resolve_device(device)
    if dtype is not None and parse_dtype(dtype).is_complex:
        return _complex(rand, "rand", sizes, size, dtype, name, generator, 1.0, requires_grad)
    kind = _floating(dtype, name)
    node = uniform_bits(source(generator, device).bits(check_sizes(_given(sizes, size, "rand"), "rand")))
    if kind.is_half:  # rounded, the largest numbers would be 1
        steps = 1 / FloatLimits.of(kind).eps * 2
        node = make(e.Floor(), node * steps) * (1 / steps)
    return finish(cast(node, kind), requires_grad)


def _complex(
    draw: Any,
    what: str,
    sizes: Any,
    size: Any,
    dtype: Any,
    device: str,
    generator: Any,
    scale: float,
    requires_grad: bool,
) -> Any:
    """Complex numbers whose parts are drawn apart."""
    kind = parse_dtype(dtype)
    check_storable(kind, device)
    parts = draw(2, *_given(sizes, size, what), dtype=kind.real, device=device, generator=generator) * scale
    return finish((parts[0] + parts[1] * 1j).to(dtype=kind)._node, requires_grad)


@checked
def randn(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Any:
    """Standard normal, of shape `size`: sqrt(2) erfinv(u), u uniform on (-1, 1), as in JAX. With a complex dtype each part has variance
    1/2.

    generator: by default the device's own, which manual_seed seeds. Raises DTypeError for a dtype of integers,
    DeviceError for a generator of another device.

    >>> sg.randn(2, 3).shape
    shadergrad.Size([2, 3])
    """
    name = resolve_device(device)
    if dtype is not None and parse_dtype(dtype).is_complex:
        return _complex(randn, "randn", sizes, size, dtype, name, generator, math.sqrt(0.5), requires_grad)
    kind = _floating(dtype, name)
    spread = signed_bits(source(generator, device).bits(check_sizes(_given(sizes, size, "randn"), "randn")))
    node = make(e.Erfinv(), spread) * math.sqrt(2.0)
    return finish(cast(node, kind), requires_grad)


@checked
def rand_like(
    x: TensorBase,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Any:
    """rand with the shape, dtype and device of x unless options give others.

    Raises DTypeError for an x of integers, unless a dtype is given.

    >>> sg.rand_like(sg.zeros(2, 3)).shape
    shadergrad.Size([2, 3])
    """
    return rand(
        *x.shape,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
        generator=generator,
    )


@checked
def randn_like(
    x: TensorBase,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Any:
    """randn with the shape, dtype and device of x unless options give others.

    Raises DTypeError for an x of integers, unless a dtype is given.

    >>> sg.randn_like(sg.zeros(2, 3)).shape
    shadergrad.Size([2, 3])
    """
    return randn(
        *x.shape,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
        requires_grad=requires_grad,
        generator=generator,
    )


@checked
def randint(
    low: int = 0,
    high: int | Sequence[int] | None = None,
    size: Any = (),
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Any:
    """Integers on [low, high), int32, of shape `size`; with one bound, randint(high, size), they start at 0. Bounds beyond int32 give
    int64, on the cpu device.

    Raises ShapeError if high is not above low, DTypeError if the device or `dtype` cannot hold them. They are 32 random bits
    modulo high - low, or 64 bits if the range exceeds 32 bits, so in wide ranges the lowest numbers are slightly more frequent.

    >>> x = sg.randint(1, 7, (2, 3))
    >>> x.shape, ((x >= 1) & (x < 7)).all()
    (shadergrad.Size([2, 3]), tensor(True))
    """
    if isinstance(high, list | tuple):  # randint(high, size)
        high, size = None, high
    if high is None:
        low, high = 0, low
    assert isinstance(high, int)
    if high <= low:
        raise ShapeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    name = resolve_device(device)
    kind = int32 if low >= -(2**31) and high <= 2**31 else int64
    least, most = integer_range(kind, name)
    count = high - low
    if low < least or high > most + 1 or count >= 2 ** (32 if get_device(name).target.language == "wgsl" else 64):
        raise DTypeError(
            f"[randint] the numbers from {low} to {high} do not fit {kind.name} on {name}, or are all of them."
        )
    if dtype is not None:
        _check_bounds(low, high, parse_dtype(dtype))
    shape = check_sizes(sizes_of((size,), "randint"), "randint")
    bits = source(generator, device).bits(shape if count < 2**32 else (2, *shape))
    if kind is int64 or count >= 2**32:
        bits = cast(bits, uint64)
    if count >= 2**32:
        whole = wrap(bits)
        bits = (whole[0] * 2**32 + whole[1])._node
    quotient = make(e.FloorDiv(), bits, build.like(bits, count))
    remainder = make(e.Sub(), bits, make(e.Mul(), quotient, build.like(bits, count)))
    result = wrap(make(e.Cast(kind), remainder)) + low
    result = result if dtype is None else result.to(dtype=dtype)
    return result.requires_grad_() if requires_grad else result


def _check_bounds(low: int, high: int, dtype: DType) -> None:
    """Raises DTypeError, with PyTorch's message, for integer bounds that a dtype cannot hold."""
    largest = LARGEST.get(dtype)
    if largest is not None:
        least, most = -largest, largest
    elif dtype.category < 2:
        least, most = (0, 1) if dtype.name == "bool" else dtype.range
    else:
        return
    for number, what in ((low, "from"), (high - 1, "to - 1")):
        if not least <= number <= most:
            raise DTypeError(f"{what} is out of bounds for {dtype.name}: {number} is not in [{least:.6g}, {most:.6g}].")


@checked
def randint_like(
    x: TensorBase,
    low: int,
    high: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
) -> Any:
    """randint with the shape, dtype and device of x unless options give others; randint_like(x, high) starts at 0.

    >>> sg.randint_like(sg.zeros(2, 3), 10).shape
    shadergrad.Size([2, 3])
    """
    low, high = (0, low) if high is None else (low, high)
    wanted = x.dtype if dtype is None else dtype
    place = x.device if device is None else device
    return randint(low, high, tuple(x.shape), dtype=wanted, device=place, generator=generator)


@checked
def normal(
    mean: TensorBase | float = 0.0,
    std: TensorBase | float = 1.0,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
) -> Any:
    """Normal numbers with these means and standard deviations, numbers or tensors, which are broadcast; or of shape `size`.

    The result has no gradient with respect to them; `mean + std * sg.randn_like(mean)` has.
    Raises ShapeError for a negative number as std, ArgumentTypeError for two numbers without a size.

    >>> sg.normal(sg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 2.])
    """
    if not isinstance(std, TensorBase) and std < 0:
        raise ShapeError(f"normal expects std >= 0.0, but found std {std}")
    tensors: list[Any] = [t for t in (mean, std) if isinstance(t, TensorBase)]
    if not tensors:
        if size is None:
            raise ArgumentTypeError(
                "normal(): missing a required argument: 'size', for a mean and a std that are numbers"
            )
        return randn(*sizes_of((size,), "normal"), dtype=dtype, device=device, generator=generator) * std + mean
    shape = common_shape(*(tuple(t.shape) for t in tensors))
    for t in tensors:
        if t.dtype.category != 2:
            raise DTypeError(f"normal expects means and deviations that are floating, not {t.dtype.name}.")
    drawn = randn(*shape, dtype=tensors[0].dtype, device=tensors[0].device, generator=generator)
    mean, std = (t.detach() if isinstance(t, TensorBase) else t for t in (mean, std))
    return drawn * std + mean


@checked
def randperm(n: int, *, dtype: Any = None, device: Any = None, generator: Generator | None = None) -> Any:
    """A random permutation of 0 ... n - 1, (n,), int32 unless `dtype` says another. Drawn on the host, outside compiled steps.

    >>> sg.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    if n < 0:
        raise ShapeError(f"[randperm] n must be non-negative, but it is {n}")
    name = resolve_device(device)
    high, low = source(generator, device).host_words(n)
    return host_tensor(np.argsort(high ^ low, kind="stable").astype(np.int32), device=name).to(
        dtype=int32 if dtype is None else parse_dtype(dtype)
    )


class RandomTensor(CountedTensor):
    """Methods that draw random numbers."""

    __slots__ = ()

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers uniform on [from_, to), in place; returns self.

        >>> x = sg.zeros(4).uniform_(2, 3)
        >>> ((x >= 2) & (x < 3)).all()
        tensor(True)
        """
        if from_ > to:
            raise ShapeError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
        drawn = rand_like(self, dtype=self._drawn_dtype, generator=generator) * (to - from_) + from_
        if self.dtype.is_half and from_ < to:
            drawn = drawn.to(dtype=self.dtype)
            drawn = where(drawn < to, drawn, self.dtype.half_below(to))
        return self._update_in_place(drawn, "uniform_")

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with normal numbers of this mean and standard deviation, in place; returns self.

        >>> sg.zeros(2).normal_(mean=3, std=0)
        tensor([3., 3.])
        """
        if std < 0:
            raise ShapeError(f"normal_ expects std >= 0.0, but found std {std}")
        return self._update_in_place(
            randn_like(self, dtype=self._drawn_dtype, generator=generator) * std + mean, "normal_"
        )

    def random_(self, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Self:
        """Fill with integers from [from_, to), in place; returns self. random_(to) starts at 0.

        Without bounds up to the largest integer that the dtype represents exactly, of 31 bits at most. Raises ShapeError
        if `to` is not above from_.

        >>> x = sg.zeros(4).random_(1, 3)
        >>> ((x == 1) | (x == 2)).all()
        tensor(True)
        """
        if to is None and from_:
            from_, to = 0, from_
        if to is None:
            to = (
                2
                if self.dtype.name == "bool"
                else self.dtype.range[1] + 1
                if self.dtype.is_small
                else min(int(2 / FloatLimits.of(self.dtype).eps), 2**31 - 1)
                if self.dtype.category == 2
                else 2**31 - 1
            )
        drawn = randint(from_, to, tuple(self.shape), dtype=self.dtype, device=self.device, generator=generator)
        return self._update_in_place(drawn, "random_")

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with exponentially distributed numbers of rate lambd, in place; returns self. Raises ShapeError for lambd <= 0.

        >>> (sg.zeros(4).exponential_() >= 0).all()
        tensor(True)
        """
        if not lambd > 0:
            raise ShapeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        self._check_floating("exponential_")
        return self._update_in_place(-self._unit(generator).log() / lambd, "exponential_")

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Self:
        """Fill with geometrically distributed numbers: the number of the first success, from 1, with success probability p. In place; returns self.
        Raises ShapeError for a p outside (0, 1).

        >>> (sg.zeros(4).geometric_(0.5) >= 1).all()
        tensor(True)
        """
        if not 0 < p < 1:
            raise ShapeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        drawn = (self._unit(generator).log() / math.log1p(-p)).ceil().clamp(min=1.0)
        return self._update_in_place(drawn.to(dtype=self.dtype), "geometric_")

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with Cauchy-distributed numbers, in place; returns self. Raises ShapeError for sigma <= 0.

        >>> sg.zeros(4).cauchy_().isfinite().all()
        tensor(True)
        """
        if not sigma > 0:
            raise ShapeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        self._check_floating("cauchy_")
        angle = (self._unit(generator) - 0.5) * math.pi
        return self._update_in_place(angle.tan() * sigma + median, "cauchy_")

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Self:
        """Fill with log-normal numbers, whose logarithms have this mean and standard deviation, in place; returns self. Raises
        ShapeError for std <= 0.

        >>> (sg.zeros(4).log_normal_() > 0).all()
        tensor(True)
        """
        if not std > 0:
            raise ShapeError(f"log_normal_ expects std > 0.0, but found std={std}")
        self._check_floating("log_normal_")
        drawn = randn_like(self, dtype=self._drawn_dtype, generator=generator) * std + mean
        return self._update_in_place(drawn.exp(), "log_normal_")

    def _unit(self, generator: Generator | None) -> Self:
        """Uniform on (0, 1), both ends left out."""
        return rand(*self.shape, dtype=float32, device=self.device, generator=generator) + 2.0**-25

    @property
    def _drawn_dtype(self) -> DType:
        """The dtype in which numbers for this tensor are drawn; they are rounded once when they are assigned."""
        return float32 if self.dtype.is_half else self.dtype

    def _check_floating(self, what: str) -> None:
        if self.dtype.category != 2:
            raise DTypeError(f"[{what}] is for floating tensors, not for {self.dtype.name}.")

    def bernoulli_(self, p: TensorBase | float = 0.5, *, generator: Generator | None = None) -> Self:
        """Fill with 1 with probability p, a number or a tensor that broadcasts to self, else 0; in place, returns self.

        >>> sg.zeros(2).bernoulli_(sg.tensor([0.0, 1.0]))
        tensor([0., 1.])
        """
        if not isinstance(p, TensorBase) and not 0 <= p <= 1:
            raise ShapeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        drawn = rand(*self.shape, dtype=float32, device=self.device, generator=generator) < p
        if isinstance(p, TensorBase):
            given: Any = p
            drawn = where(holds((given >= 0) & (given <= 1), IN_BERNOULLI), drawn, False)
        return self._update_in_place(drawn.to(dtype=self.dtype), "bernoulli_")

    def bernoulli(self, *, generator: Generator | None = None) -> Self:
        """1 with the probability given by the element, else 0; of the shape and dtype of self.

        Raises DTypeError for integers. A probability outside [0, 1] raises IndexRangeError: at once on cpu, at the next read
        on webgpu.

        >>> sg.tensor([0.0, 1.0]).bernoulli()
        tensor([0., 1.])
        """
        p = self.detach()
        drawn = rand_like(self, dtype=self._drawn_dtype, generator=generator) < p
        return where(holds((p >= 0) & (p <= 1), IN_BERNOULLI), drawn, False).to(dtype=self.dtype)

    def multinomial(self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Self:
        """Positions along the last axis drawn with probabilities proportional to the elements, int32.

        self: (n,) or (rows, n), non-negative; result (num_samples,) or (rows, num_samples). By the Gumbel-max method:
        the largest of log(p) + noise, or, without replacement, the num_samples largest. Negative, infinite and NaN ones,
        and rows of zeros, raise IndexRangeError: at once on cpu, at the next read on webgpu. Raises DTypeError for integers,
        ShapeError for other shapes, for no samples, and for more of them than elements, without replacement.

        >>> sg.tensor([0.0, 1.0, 0.0]).multinomial(3, replacement=True)
        tensor([1, 1, 1])
        """
        if self.ndim not in (1, 2):
            raise ShapeError(f"[multinomial] prob_dist must be 1 or 2 dim, but its shape is {tuple(self.shape)}")
        if self.dtype.category != 2:
            raise DTypeError(f"multinomial only supports floating-point dtypes for input, got: {self.dtype.name}")
        n = self.shape[-1]
        if n > 2**24:
            raise ShapeError("number of categories cannot exceed 2^24")
        if num_samples <= 0:
            raise ShapeError(f"[multinomial] cannot sample n_sample <= 0 samples, but it is {num_samples}")
        if not replacement and num_samples > n:
            raise ShapeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        shape = (*self.shape[:-1], num_samples, n) if replacement else tuple(self.shape)
        u = rand(*shape, dtype=float32, device=self.device, generator=generator)
        noise = -(-(u + 2.0**-24).log()).log()  # u has 23 bits: never 0, never 1
        weights = self.detach()
        p = weights.log()
        score = (p.unsqueeze(-2) if replacement else p) + noise
        drawn = score.argmax(-1) if replacement else score.topk(num_samples)[1]
        right = ((weights >= 0) & weights.isfinite()).all(-1, keepdim=True) & (weights > 0).any(-1, keepdim=True)
        return where(holds(right, IN_MULTINOMIAL), drawn, 0)
