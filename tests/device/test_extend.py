"""The public door for kernels written by hand, used as a stranger would: on both devices, forward, backward, compiled."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import extend
from shadergrad.extend import CheckError, Operation, Shader, Spec, check, random_key, threefry2x32, wgsl_functions

# -- a stranger's operation: the leaky maximum of neighbours, x[i] or 0.9 x[i-1] if that is more


def elementwise(n: int, value: str) -> Shader:
    return Shader(f"let t = wg * 64 + i32(lid);\nif (t < {n}) {{ result[t] = {value}; }}", 64, max(1, -(-n // 64)))


@dataclass(frozen=True)
class Envelope(Operation):
    """x (n,) to its running maximum (n,), which falls by a factor at each step."""

    decay: float
    arguments = ("x",)

    def infer(self, x: Spec) -> Spec:
        if x.ndim != 1:
            raise sg.ShapeError(f"[envelope] x is {x.shape}; one axis is wanted.")
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        result, last = np.empty_like(x), x[:1]
        for k in range(len(x)):
            last = np.maximum(x[k : k + 1], last * x.dtype.type(self.decay))
            result[k] = last[0]
        return result

    def shader(self, limits: Any, x: Spec) -> Shader:
        body = f"""
var last = x[0];
for (var k = 0; k < {x.size}; k++) {{
  last = max(x[k], {self.decay} * last);
  result[k] = last;
}}"""
        return Shader(body, threads=1, workgroups=1)

    def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> tuple[sg.Tensor | None]:
        return (EnvelopeGradient(self.decay)(g, result, x),)


@dataclass(frozen=True)
class EnvelopeGradient(Operation):
    """The gradient g (n,) handed back to where each maximum came from."""

    decay: float
    arguments = ("g", "y", "x")

    def infer(self, g: Spec, y: Spec, x: Spec) -> Spec:
        return x

    def numpy(self, g: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        result, carried = np.zeros_like(x), x.dtype.type(0)
        for k in reversed(range(len(x))):
            carried += g[k]
            if y[k] == x[k]:
                result[k], carried = carried, x.dtype.type(0)
            carried *= x.dtype.type(self.decay)
        return result

    def shader(self, limits: Any, g: Spec, y: Spec, x: Spec) -> Shader:
        body = f"""
var carried = 0.0;
for (var k = {x.size - 1}; k >= 0; k--) {{
  carried += g[k];
  let own = y[k] == x[k];
  result[k] = select(0.0, carried, own);
  carried = {self.decay} * select(carried, 0.0, own);
}}"""
        return Shader(body, threads=1, workgroups=1)


WAVE = 1.5 + np.sin(np.arange(23, dtype=np.float32) * 0.9) + 0.1 * np.arange(23, dtype=np.float32)


def test_a_strangers_kernel_is_right_on_both_devices(webgpu: str) -> None:
    check(Envelope(0.75), WAVE, device=webgpu)
    check(Envelope(0.0), WAVE, device=webgpu)


def test_it_fits_among_tensor_operations(device: str) -> None:
    """Expressions and views before it, a reduction behind it, gradients through all."""
    x = sg.tensor(WAVE, device=device, requires_grad=True)
    y = Envelope(0.75)((x * 2).flip(0))
    (y * y).sum().backward()
    expected = Envelope(0.75).numpy(2 * WAVE[::-1])
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-6)
    back = EnvelopeGradient(0.75).numpy(2 * expected, expected, 2 * WAVE[::-1])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 2 * back[::-1], rtol=1e-5)


def test_it_is_trained_in_a_compiled_step(device: str) -> None:
    def trained(wrap: Callable[..., Any]) -> list[float]:
        gain = sg.ones(1, device=device, requires_grad=True)
        optimizer = sg.optim.SGD([gain], lr=0.01)

        @wrap
        def step(x: sg.Tensor) -> sg.Tensor:
            optimizer.zero_grad()
            loss = (Envelope(0.75)(x * gain) - 1.0).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return [step(sg.tensor(WAVE, device=device)).item() for _ in range(4)]

    losses = trained(sg.compile)
    assert losses[3] < losses[0]
    np.testing.assert_allclose(losses, trained(lambda f: f), rtol=1e-5)


def test_equal_operations_on_equal_inputs_are_computed_once(webgpu: str) -> None:
    step = sg.compile(lambda x: Envelope(0.75)(x).sum() + Envelope(0.75)(x).exp().sum() + Envelope(0.5)(x).sum())
    step(sg.tensor(WAVE, device=webgpu))
    kernels = [step.plan.kernels[d.kernel] for d in step.plan.dispatches]
    assert sum(k.archetype == "call" for k in kernels) == 2
    assert "envelope" in step.explain()


def test_parameters_that_are_equal_but_not_the_same_are_told_apart(device: str) -> None:
    @dataclass(frozen=True)
    class Over(Operation):
        zero: float
        arguments = ("x",)

        def infer(self, x: Spec) -> Spec:
            return x

        def numpy(self, x: np.ndarray) -> np.ndarray:
            return np.copysign(x, x.dtype.type(self.zero))

        def shader(self, limits: Any, x: Spec) -> Shader:
            return elementwise(x.size, "abs(x[t])" if np.copysign(1, self.zero) > 0 else "-abs(x[t])")

    x = sg.ones(3, device=device)
    assert (Over(0.0)(x) + 2 * Over(-0.0)(x)).tolist() == [-1.0] * 3


def test_a_name_of_the_library_is_free() -> None:
    """An operation called Add is no rival of the addition."""

    @dataclass(frozen=True)
    class Add(Operation):
        arguments = ("x",)

        def infer(self, x: Spec) -> Spec:
            return x

        def numpy(self, x: np.ndarray) -> np.ndarray:
            return x + 100

    step = sg.compile(lambda x: Add()(x) + x)
    assert step(sg.ones(2)).tolist() == [102.0, 102.0]
    assert sg.ones(2).add(1).tolist() == [2.0, 2.0]


# -- several kernels


@dataclass(frozen=True)
class Shifted(Operation):
    by: int
    arguments = ("x",)

    def infer(self, x: Spec) -> Spec:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x + x.dtype.type(self.by)

    def shader(self, limits: Any, x: Spec) -> Shader:
        return elementwise(x.size, f"x[t] + {self.by}")


@dataclass(frozen=True)
class Composed(Operation):
    """What `made` makes of x; it is for the GPU, the cpu device gives x + 3."""

    made: Callable[[sg.Tensor], Any] = field(hash=False)
    arguments = ("x",)

    def infer(self, x: Spec) -> Spec:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x + x.dtype.type(3)

    def compose(self, x: sg.Tensor) -> Any:
        return self.made(x)

    def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> tuple[sg.Tensor]:
        return (g,)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: Shifted(2)(Shifted(1)(x)),
        lambda x: Composed(lambda y: Shifted(1)(y))(x) + 2,
        lambda x: (Shifted(1)(x).detach() + sg.full_like(x, 2.0)).reshape(-1).reshape(x.shape),
        lambda x: x + 1 + sg.arange(1, 2, device=x.device) * 2,
    ],
    ids=["two kernels", "within one another", "with constants and views", "tensors alone"],
)
def test_compositions(made: Callable[[sg.Tensor], sg.Tensor], webgpu: str) -> None:
    check(Composed(made), np.arange(6, dtype=np.float32).reshape(2, 3), device=webgpu)
    x = sg.zeros(4, device=webgpu)
    np.testing.assert_array_equal(sg.compile(lambda x: Composed(made)(x) * 2)(x).numpy(), np.full(4, 6.0))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: x * x.sum().item(), r"compose\(\) reads a value \(item\(\)\)"),
        (lambda x: x + sg.tensor([1.0], device=x.device), r"compose\(\) uses a tensor that it was not given"),
        (lambda x: x + sg.rand(3, device=x.device), r"compose\(\) changes a tensor, or draws random numbers"),
        (lambda x: x.add_(1), r"compose\(\) changes a tensor"),
        (lambda x: x[:2], r"compose\(\) gives float32 \(2,\); infer\(\) says float32 \(3,\)"),
        (lambda x: x > 0, r"compose\(\) gives bool \(3,\)"),
        (lambda x: 3.0, r"compose\(\) gives a float, not a tensor"),
    ],
)
def test_what_a_composition_must_not(made: Callable[[sg.Tensor], Any], message: str, webgpu: str) -> None:
    sg.rand(1, device=webgpu).numpy()  # the generator is there
    y = Composed(made)(sg.ones(3, device=webgpu))
    with pytest.raises(sg.CompileError, match=r"\[composed\] " + message):
        y.numpy()
    assert sg.ones(3, device=webgpu).add(1).tolist() == [2.0, 2.0, 2.0], "the device goes on"


# -- what the checks find


@dataclass(frozen=True)
class Cube(Operation):
    """x cubed, with parts to be exchanged for wrong ones."""

    in_shader: str = "x[t] * x[t] * x[t]"
    slope: float = 3.0
    of_gpu: float = 0.0  # what a GPU's gradient has more
    shape: tuple[int, ...] | None = None
    arguments = ("x",)

    def infer(self, x: Spec) -> Spec:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        y = x * x * x
        return y if self.shape is None else y.reshape(self.shape)

    def shader(self, limits: Any, x: Spec) -> Shader:
        return elementwise(x.size, self.in_shader)

    def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> tuple[sg.Tensor]:
        return (self.slope * x * x * g + (0.0 if x.device == "cpu" else self.of_gpu),)


NUMBERS = np.array([[-1.5, 0.25, 2.0], [0.5, 1.0, -0.75]], np.float32)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            Cube(in_shader="x[t] * x[t]"),
            r"the value on webgpu .* 5 of 6 elements differ, most at \(0, 0\): 2.25 and -3.375",
        ),
        (
            Cube(in_shader="select(x[t] * x[t] * x[t], bitcast<f32>(0x7fc00000u + u32(t)), t == 4)"),
            r".* most at \(1, 1\): nan and 1",
        ),
        (Cube(of_gpu=1.0), "the gradient of x on webgpu is not that of the NumPy twin: 6 of 6"),
        (Cube(slope=2.0), r"gradient\(\) is not the derivative of numpy\(\): Jacobian mismatch"),
    ],
)
def test_check_finds_what_is_wrong(wrong: Cube, message: str, webgpu: str) -> None:
    check(Cube(), NUMBERS, device=webgpu)
    with pytest.raises(CheckError, match=r"\[cube\] " + message):
        check(wrong, NUMBERS, device=webgpu)


def test_not_a_number_is_equal_to_itself_in_a_check(webgpu: str) -> None:
    check(Shifted(1), np.array([np.nan, np.inf, 1.0], np.float32), device=webgpu)


def test_integers_and_bools_are_compared_exactly(webgpu: str) -> None:
    @dataclass(frozen=True)
    class Odd(Operation):
        bit: str = "1"
        arguments = ("n", "wanted")

        def infer(self, n: Spec, wanted: Spec) -> Spec:
            return Spec(n.shape, "bool")

        def numpy(self, n: np.ndarray, wanted: np.ndarray) -> np.ndarray:
            return (n % 2 == 1) & wanted

        def shader(self, limits: Any, n: Spec, wanted: Spec) -> Shader:
            return elementwise(n.size, f"u32(n[t] & {self.bit}) * wanted[t]")

    numbers, wanted = np.arange(70, dtype=np.int32), np.arange(70) % 3 > 0
    check(Odd(), numbers, wanted, device=webgpu)
    with pytest.raises(CheckError, match="the value on webgpu"):
        check(Odd("i32(t != 67)"), numbers, wanted, device=webgpu)


def test_arrays_bound_as_vectors(webgpu: str) -> None:
    @dataclass(frozen=True)
    class Doubled(Operation):
        vectors: frozenset[str] = frozenset({"x", "result"})
        threads: int = 64
        arguments = ("x",)

        def infer(self, x: Spec) -> Spec:
            return x

        def numpy(self, x: np.ndarray) -> np.ndarray:
            return x + x

        def shader(self, limits: extend.Limits, x: Spec) -> Shader:
            body = f"let t = wg * 64 + i32(lid);\nif (t < {x.size // 4}) {{ result[t] = 2.0 * x[t]; }}"
            return Shader(body, self.threads, 1, vectors=self.vectors)

    check(Doubled(), np.arange(12, dtype=np.float32), device=webgpu)
    for wrong, message in (
        (Doubled(), "'result' is to be bound as vectors, but has 10 elements, no multiple of four"),
        (Doubled(frozenset({"y"})), "'y' is to be bound as vectors, but is no array of it"),
        (Doubled(threads=1 << 20), "the shader wants 1048576 threads a workgroup; the device allows"),
    ):
        y = wrong(sg.ones(10, device=webgpu))
        with pytest.raises(sg.CompileError, match=re.escape(message)):
            y.numpy()


# -- errors


def test_what_is_no_call_is_refused() -> None:
    @dataclass
    class Changeable(Operation):
        n: int
        arguments = ("x",)

    class Plain(Operation):
        arguments = ("x",)

    @dataclass(frozen=True, eq=False)
    class Alone(Operation):
        arguments = ("x",)

    @dataclass(frozen=True)
    class Named(Shifted):
        arguments: tuple[str, ...] = ("x",)

    x, no_tensor = sg.ones(3), cast(Any, NUMBERS)
    for call, error, message in (
        (lambda: Cube()(x, x), sg.ShapeError, r"\[cube\] takes 1 tensors (x), not 2."),
        (lambda: Cube()(no_tensor), sg.DTypeError, "[cube] x is a ndarray, not a tensor. Hint: sg.tensor(...)."),
        (lambda: Envelope(0.5)(sg.ones(2, 2)), sg.ShapeError, "[envelope] x is (2, 2); one axis is wanted."),
        (lambda: Cube(shape=(3, 1))(x).numpy(), sg.ShapeError, "[cube] numpy() gives float32 (3, 1); infer() says float32 (3,)."),
        (lambda: Cube(shape=[3])(x), sg.CompileError, "[cube] cannot be hashed: unhashable type: 'list'."),  # type: ignore[arg-type]
        (lambda: Named(1, ())(x), sg.CompileError, "[Named] `arguments` is empty"),
        (lambda: Named(1, ("wg",))(x), sg.CompileError, "[Named] the argument 'wg' cannot be"),
        (lambda: Named(1, ("x", "x"))(x, x), sg.CompileError, "[Named] the argument 'x' cannot be"),
        (lambda: Named(1, ("2x",))(x), sg.CompileError, "[Named] the argument '2x' cannot be"),
        (lambda: Operation()(x), sg.CompileError, "[operation] is no frozen dataclass"),
        (lambda: Changeable(1)(x), sg.CompileError, "[changeable] is no frozen dataclass"),
        (lambda: Plain()(x), sg.CompileError, "[plain] is no frozen dataclass"),
        (lambda: Alone()(x), sg.CompileError, "[alone] is no frozen dataclass"),
        (lambda: Spec((-1,), "float32"), sg.ShapeError, "[Spec] the shape is (-1,); sizes are whole numbers from 0."),
        (lambda: Spec((2.5,), "float32"), sg.ShapeError, "[Spec] the shape is (2.5,)"),  # type: ignore[arg-type]
        (lambda: Spec((2,), "float31"), sg.DTypeError, "float31"),
        (lambda: Shader("result[0] = 1.0;", 0, 1), sg.CompileError, "1 workgroups of 0 threads; at least one of each is needed."),
        (lambda: Shader(" \n", 1, 1), sg.CompileError, "[Shader] the body is empty"),
        (lambda: wgsl_functions("sg_nonsense"), sg.CompileError, "there is no 'sg_nonsense'; there are "),
        (lambda: check(Cube(shape=(2, 3)), NUMBERS.T, device="cpu"), sg.ShapeError, "[cube] numpy() gives float32 (2, 3)"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            call()
        assert message.replace("\\[", "[").replace("\\]", "]") in str(caught.value)
        assert isinstance(caught.value, sg.ShadergradError)


def test_parts_that_are_missing_are_named(webgpu: str) -> None:
    @dataclass(frozen=True)
    class Bare(Operation):
        arguments = ("x",)

    @dataclass(frozen=True)
    class Shaped(Bare):
        def infer(self, x: Spec) -> Spec:
            return x

    @dataclass(frozen=True)
    class Unshaped(Bare):
        def infer(self, x: Spec) -> Any:
            return x.shape

    for call, error, message in (
        (lambda: Bare()(sg.ones(1)), sg.CompileError, r"\[bare\] infer\(\) is missing"),
        (lambda: Shaped()(sg.ones(1)).numpy(), sg.CompileError, r"\[shaped\] has no NumPy twin"),
        (lambda: Shaped()(sg.ones(1, device=webgpu)).numpy(), sg.CompileError, r"\[shaped\] has no shader"),
        (lambda: Unshaped()(sg.ones(1)), sg.ShapeError, r"infer\(\) gives a tuple, not a Spec"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_shader_that_does_not_compile_is_named(webgpu: str) -> None:
    y = Cube(in_shader="y[t]")(sg.ones(3, device=webgpu))
    with pytest.raises(sg.CompileError, match="cube"):
        y.numpy()


def test_what_the_device_cannot_hold_is_refused(webgpu: str) -> None:
    @dataclass(frozen=True)
    class Long(Shifted):
        def infer(self, x: Spec) -> Spec:
            return Spec(x.shape, "float64")

    with pytest.raises(sg.DTypeError, match="float64 is not available on webgpu"):
        Long(1)(sg.ones(3, device=webgpu))


def test_a_twin_cannot_write_into_a_tensor() -> None:
    class Careless(Shifted):
        def numpy(self, x: np.ndarray) -> np.ndarray:
            x += 1
            return x

    x = sg.tensor([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        Careless(1)(x).numpy()
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_nothing_is_run_for_a_result_without_elements(device: str) -> None:
    x = sg.ones(0, device=device, requires_grad=True)
    y = Cube()(x)
    y.sum().backward()
    assert y.tolist() == []
    assert x.grad is not None
    assert tuple(x.grad.shape) == (0,)


def test_a_gradient_is_not_lost_in_silence(device: str) -> None:
    x = sg.ones(3, device=device, requires_grad=True)
    with pytest.raises(sg.AutogradError, match=r"\[shifted\] has no gradient, and x requires one"):
        Shifted(1)(x)
    assert Shifted(1)(x.detach()).tolist() == [2.0, 2.0, 2.0]
    with sg.no_grad():
        assert not Shifted(1)(x).requires_grad


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda g: (), "gives 0 gradients for 1 inputs"),
        (lambda g: (g, None), "gives 2 gradients for 1 inputs"),
        (lambda g: (g.reshape(3, 1),), r"gives float32 \(3, 1\) on cpu for x, which is float32 \(3,\) on cpu"),
        (lambda g: (g.to(dtype="int32"),), "gives int32"),
        (lambda g: (1.0,), "gives a float for x, not a tensor"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(gradient: Callable[[sg.Tensor], Any], message: str) -> None:
    class Wrong(Cube):
        def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> Any:
            return gradient(g)

    y = Wrong()(sg.ones(3, requires_grad=True)).sum()
    with pytest.raises(sg.AutogradError, match=r"\[wrong\] gradient\(\) " + message):
        y.backward()


def test_an_input_may_have_no_gradient_and_a_lone_one_needs_no_tuple(device: str) -> None:
    class Lone(Cube):
        def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> Any:
            return g

    class Stopped(Cube):
        def gradient(self, g: sg.Tensor, result: sg.Tensor, x: sg.Tensor) -> Any:
            return (None,)

    x = sg.ones(3, device=device, requires_grad=True)
    (Lone()(x) + Stopped()(x)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


# -- random numbers


@dataclass(frozen=True)
class Words(Operation):
    count: int
    arguments = ("key",)

    def infer(self, key: Spec) -> Spec:
        return Spec((self.count,), "uint32")

    def numpy(self, key: np.ndarray) -> np.ndarray:
        counters = np.arange(self.count, dtype=np.uint32)
        return threefry2x32(key, np.zeros_like(counters), counters)[0]

    def shader(self, limits: Any, key: Spec) -> Shader:
        made = elementwise(self.count, "sg_threefry(key[0], key[1], 0u, u32(t)).x")
        return Shader(made.body, made.threads, made.workgroups, wgsl_functions("sg_threefry"))


def test_shaders_draw_under_a_key(webgpu: str) -> None:
    check(Words(100), np.array([3, 2**32 - 5], np.uint32), device=webgpu)


def test_a_generator_of_another_device_is_refused(webgpu: str) -> None:
    with pytest.raises(sg.DeviceError, match="the generator is on cpu, the key is wanted on webgpu"):
        random_key(webgpu, sg.Generator("cpu"))


def test_keys_follow_the_seed_and_are_new_in_every_run_of_a_step(device: str) -> None:
    step = sg.compile(lambda x: Words(4)(random_key(device)) + x)
    zero = sg.zeros(4, dtype=sg.uint32, device=device)
    runs = []
    for _ in range(2):
        sg.manual_seed(5)
        runs.append([tuple(step(zero).tolist()) for _ in range(3)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3
    sg.manual_seed(5)
    assert tuple(Words(4)(random_key(device)).tolist()) == runs[0][0]
    assert random_key(device, sg.Generator(device, 5)).tolist() == random_key(device, sg.Generator(device, 5)).tolist()


# -- the documents


def test_every_public_name_of_the_door_says_what_it_is() -> None:
    for name in extend.__all__:
        value = getattr(extend, name)
        if callable(value):
            assert len((value.__doc__ or "").split()) > 8, name
