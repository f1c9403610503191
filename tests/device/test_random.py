"""Random numbers: threefry's published vectors, JAX's bits, the same on every device and in every run, and fair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from cases import threefry_reference
from helpers import assert_close, assert_same_bits, grad_of
from shadergrad.drive.execute import programs
from shadergrad.primitives.random import threefry2x32

# Random123's known answers for threefry2x32, 20 rounds: key, counter, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]

# Computed with JAX 0.10.2: seed, draw, shape, words.
JAX_BITS = [
    (0, 0, (3,), [3617712097, 783310428, 975722988]),
    (0, 1, (2, 3), [31327077, 89727312, 2497208264, 1554082365, 957939715, 512339923]),
    (42, 5, (), [1779231354]),
    (4294967295, 2, (5,), [931732070, 733929833, 1957526311, 709271959, 1483226930]),
    (1234567890123, 0, (2, 2), [929920967, 2669718158, 1023648082, 4061861545]),
    (7, 3, (1,), [993572756]),
]
JAX_UNIFORM = [
    0.8673704862594604,
    0.5563143491744995,
    0.3006770610809326,
    0.33249056339263916,
    0.9920781850814819,
    0.2056882381439209,
]
JAX_NORMAL = [
    1.1140471696853638,
    0.14163129031658173,
    -0.5224542021751404,
    -0.43304625153541565,
    2.412498712539673,
    -0.8214735984802246,
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_threefry_gives_the_published_answers(key: Any, counter: Any, expected: Any) -> None:
    words = threefry2x32(np.array(key, np.uint32), *(np.array([c], np.uint32) for c in counter))
    assert tuple(int(w[0]) for w in words) == expected
    assert threefry_reference(*key, *counter) == expected


def bits(seed: int, draws: int, shape: tuple[int, ...], device: str) -> np.ndarray:
    """The words of draw number `draws` of a seed."""
    generator = sg.Generator(device, seed)
    for _ in range(draws):
        generator.bits(())
    return sg.Tensor._of(generator.bits(shape)).numpy()


@pytest.mark.parametrize(("seed", "draw", "shape", "expected"), JAX_BITS)
def test_bits_are_those_of_jax(seed: int, draw: int, shape: tuple[int, ...], expected: list[int], device: str) -> None:
    """jax.random.bits(jax.random.fold_in(jax.random.PRNGKey(seed), draw), shape), with partitionable threefry."""
    assert_same_bits(bits(seed, draw, shape, device), np.array(expected, np.uint32).reshape(shape))


def test_uniform_numbers_are_those_of_jax(device: str) -> None:
    """jax.random.uniform(jax.random.fold_in(jax.random.PRNGKey(7), 0), (6,))."""
    sg.manual_seed(7)
    assert_same_bits(sg.rand(6, device=device), np.array(JAX_UNIFORM, np.float32))


def test_normal_numbers_are_those_of_jax(device: str) -> None:
    """jax.random.normal, whose erfinv is another approximation."""
    sg.manual_seed(7)
    assert_close(sg.randn(6, device=device), np.array(JAX_NORMAL, np.float32), 1e-5, 1e-6)


# ---------------------------------------------------------------------------------------------- devices and seeds

DRAWS: dict[str, Any] = {
    "rand": lambda d: sg.rand(3, 5, device=d),
    "rand of 0-d": lambda d: sg.rand(device=d),
    "rand of nothing": lambda d: sg.rand(0, 3, device=d),
    "randint": lambda d: sg.randint(-4, 9, (17,), device=d),
    "randint from 0": lambda d: sg.randint(5, size=(2, 3), device=d),
    "randperm": lambda d: sg.randperm(11, device=d),
    "rand_like": lambda d: sg.rand_like(sg.zeros(2, 2, device=d)),
    "randint_like": lambda d: sg.randint_like(sg.zeros(5, device=d), 3),
    "random_": lambda d: sg.zeros(9, device=d).random_(3, 40),
    "bernoulli": lambda d: (sg.arange(40, device=d) / 40).bernoulli(),
    "bernoulli_": lambda d: sg.zeros(40, device=d).bernoulli_(0.3),
    "dropout": lambda d: sg.nn.functional.dropout(sg.ones(40, device=d), 0.25),
    "dropout of channels": lambda d: sg.nn.functional.dropout2d(sg.ones(4, 10, 2, 2, device=d), 0.25),
    "positions of a DataLoader": lambda d: sg.cat(list(sg.data.DataLoader(sg.arange(9), 2, shuffle=True, device=d))),
}

# Of the same bits; a logarithm or a product may round otherwise, which moves a drawn position where two are that close
ROUNDED: dict[str, Any] = {
    "randn": lambda d: sg.randn(1000, device=d),
    "normal": lambda d: sg.normal(2.0, 3.0, (50,), device=d),
    "uniform_": lambda d: sg.zeros(50, device=d).uniform_(-0.3, 0.7),
    "exponential_": lambda d: sg.zeros(50, device=d).exponential_(),
    "geometric_": lambda d: sg.zeros(50, device=d).geometric_(0.3),
    "cauchy_": lambda d: sg.zeros(50, device=d).cauchy_(),
    "log_normal_": lambda d: sg.zeros(50, device=d).log_normal_(),
    "multinomial": lambda d: (sg.arange(20, device=d) + 1.0).multinomial(10),
    "multinomial with replacement": lambda d: (sg.arange(20, device=d) + 1.0).multinomial(50, replacement=True),
    "trunc_normal_": lambda d: sg.nn.init.trunc_normal_(sg.zeros(50, device=d)),
    "orthogonal_": lambda d: sg.nn.init.orthogonal_(sg.zeros(4, 5, device=d)),
    "gumbel_softmax": lambda d: sg.nn.functional.gumbel_softmax(sg.zeros(3, 4, device=d)),
    "rrelu": lambda d: sg.nn.functional.rrelu(-sg.ones(20, device=d), training=True),
    "distributions": lambda d: sg.distributions.Normal(sg.zeros(20, device=d), sg.ones(20, device=d)).sample(),
    "attention": lambda d: sg.nn.functional.scaled_dot_product_attention(
        *(sg.ones(2, 64, 16, device=d) * sg.arange(16, device=d) for _ in "qkv"), dropout_p=0.3
    ),
}


@pytest.mark.parametrize("name", [*DRAWS, *ROUNDED])
def test_draws_are_the_same_on_every_device(name: str, webgpu: str) -> None:
    """And as many, so that the next is too."""
    found, states = [], []
    for device in ("cpu", webgpu):
        sg.manual_seed(3)
        found.append([(DRAWS | ROUNDED)[name](device).numpy() for _ in range(2)])
        states.append(sg.get_rng_state())
    for a, b in zip(*found, strict=True):
        if name in DRAWS:
            assert_same_bits(a, b)
        else:
            # near its poles a tangent makes more of a rounding
            assert_close(a, b, 2e-5 if name == "cauchy_" else 1e-5, 1e-6)
    assert_same_bits(*states)


def test_draws_on_several_devices_follow_each_other(webgpu: str) -> None:
    sg.manual_seed(3)
    expected = [sg.rand(2).numpy() for _ in range(6)]
    sg.manual_seed(3)
    found = [sg.rand(2, device=d).numpy() for d in ("cpu", webgpu, webgpu, "cpu", webgpu, "cpu")]
    for a, b in zip(found, expected, strict=True):
        assert_same_bits(a, b)


def of_a_program(made: str, runs: str, compiled: bool = True) -> tuple[Any, ...]:
    """A model made on one device that runs on another: its weights, the order of its batches, its masks, the next draws."""
    sg.manual_seed(7)
    model = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.Dropout(0.5)).to(made).to(runs)
    data = sg.data.DataLoader(sg.data.TensorDataset(sg.arange(6)), 3, shuffle=True)
    weights = model.state_dict()["0.weight"].cpu().numpy()

    def written(x: sg.Tensor) -> sg.Tensor:
        return model(x) != 0

    step = sg.compile(written)
    orders, masks = [], []
    for _ in range(2):
        for (batch,) in data:
            orders.append(batch.numpy())
            masks.append((step if compiled else written)(sg.ones(5, 3, device=runs)).numpy())
    assert step.captures == compiled
    return weights, np.array(orders), np.array(masks), sg.rand(3, device=runs).numpy(), sg.get_rng_state()


def test_a_program_draws_the_same_wherever_its_model_was_made(webgpu: str) -> None:
    weights, *others = of_a_program("cpu", "cpu", compiled=False)
    for made, runs in (("cpu", "cpu"), ("cpu", webgpu), (webgpu, webgpu), (webgpu, "cpu")):
        moved, *found = of_a_program(made, runs)
        assert_close(moved, weights, 1e-6, 1e-7)
        for a, b in zip(found, others, strict=True):
            assert_same_bits(a, b)


def test_a_compiled_step_that_seeds_draws_the_same_each_time(device: str) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        sg.manual_seed(4)
        return x + sg.rand(3, device=device)

    sg.manual_seed(4)
    expected, following = sg.rand(3, device=device).numpy(), sg.rand(3).numpy()
    for seed in (4, 5, 4):
        sg.manual_seed(seed)
        assert_same_bits(step(sg.zeros(3, device=device)), expected)
    assert_same_bits(sg.rand(3), following)


def test_a_step_that_cannot_be_captured_has_drawn_nothing(device: str) -> None:
    sg.manual_seed(4)
    with pytest.raises(sg.CompileError, match="state of a generator"):
        sg.compile(lambda: sg.rand(3, device=device) + int(sg.get_rng_state()[2]))()
    assert sg.get_rng_state().tolist() == [0, 4, 0]
    after = sg.rand(3, device=device).numpy()
    sg.manual_seed(4)
    assert_same_bits(sg.rand(3, device=device), after)


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_draws_again(name: str, device: str) -> None:
    sg.manual_seed(11)
    first = [DRAWS[name](device).numpy() for _ in range(3)]
    sg.manual_seed(11)
    for value in first:
        assert_same_bits(DRAWS[name](device), value)


def test_each_draw_differs_from_the_one_before(device: str) -> None:
    sg.manual_seed(0)
    draws = [sg.rand(4, device=device).numpy().tobytes() for _ in range(5)]
    assert len(set(draws)) == 5


def test_seeds_of_64_bits_differ(device: str) -> None:
    """The high word counts, and negative seeds are taken modulo 2 ** 64."""
    draws = [bits(seed, 0, (2,), device).tobytes() for seed in (0, 1, 1 << 32, (1 << 32) + 1, -1)]
    assert len(set(draws)) == 5
    assert draws[4] == bits((1 << 64) - 1, 0, (2,), device).tobytes()


def test_a_generator_is_apart_from_the_default_one(device: str) -> None:
    sg.manual_seed(5)
    expected = [sg.rand(3, device=device).numpy() for _ in range(2)]
    sg.manual_seed(5)
    mine = sg.Generator(device, 99)
    first = sg.rand(3, device=device).numpy()
    own = sg.rand(3, device=device, generator=mine).numpy()
    second = sg.rand(3, device=device).numpy()
    assert_same_bits(first, expected[0])
    assert_same_bits(second, expected[1])
    assert_same_bits(sg.rand(3, device=device, generator=sg.Generator(device, 99)), own)


def test_a_generators_state_continues_where_it_was(device: str) -> None:
    generator = sg.Generator(device, 4)
    sg.rand(3, device=device, generator=generator)
    state = generator.get_state()
    expected = sg.rand(3, device=device, generator=generator).numpy()
    again = sg.Generator(device, 0)
    again.set_state(state)
    assert_same_bits(sg.rand(3, device=device, generator=again), expected)


def test_what_was_drawn_before_a_new_seed_keeps_its_value(device: str) -> None:
    sg.manual_seed(1)
    pending = sg.rand(4, device=device)
    sg.manual_seed(2)
    sg.manual_seed(1)
    assert_same_bits(pending, sg.rand(4, device=device).numpy())


# ---------------------------------------------------------------------------------------------- statistics

MANY = 40_000


def test_uniform_numbers_are_fair(device: str) -> None:
    sg.manual_seed(0)
    x = sg.rand(MANY, device=device).numpy().astype(np.float64)
    assert 0 <= x.min() < 1e-3
    assert 1 - 1e-3 < x.max() < 1
    assert abs(x.mean() - 0.5) < 4 * np.sqrt(1 / 12 / MANY)
    counts = np.histogram(x, 20, (0, 1))[0]
    assert ((counts - MANY / 20) ** 2 / (MANY / 20)).sum() < 50, "chi squared of 19 degrees of freedom, beyond 1e-4"
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 4 / np.sqrt(MANY)


def test_normal_numbers_are_fair(device: str) -> None:
    sg.manual_seed(0)
    x = sg.randn(MANY, device=device).numpy().astype(np.float64)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 4 / np.sqrt(MANY)
    assert abs(x.std() - 1) < 4 / np.sqrt(2 * MANY)
    assert abs((x**3).mean()) < 4 * np.sqrt(15 / MANY)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / MANY)
    assert abs((np.abs(x) < 1).mean() - 0.682689) < 0.01


def test_draws_about_a_mean_have_no_gradient(device: str) -> None:
    """As in PyTorch, where it is zero: the score function of a draw relies on that."""
    mean = sg.tensor([0.5, -2.0], device=device, requires_grad=True)
    sg.manual_seed(0)
    drawn = sg.normal(mean, mean.exp())
    assert not drawn.requires_grad
    (-0.5 * (drawn - mean) ** 2).sum().backward()  # the logarithm of a density
    assert mean.grad is not None
    assert_close(mean.grad, (drawn - mean).detach().numpy(), 1e-6, 1e-6)


def test_whole_numbers_cover_their_range_evenly(device: str) -> None:
    sg.manual_seed(0)
    x = sg.randint(-3, 4, (MANY,), device=device).numpy()
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert ((counts - MANY / 7) ** 2 / (MANY / 7)).sum() < 30


def test_a_permutation_has_every_number_once(device: str) -> None:
    sg.manual_seed(0)
    assert sorted(sg.randperm(50, device=device).tolist()) == list(range(50))
    assert sg.randperm(0, device=device).tolist() == []
    assert sg.randperm(50, device=device).tolist() != list(range(50))


def test_random_tensors_may_require_gradients(device: str) -> None:
    w = sg.randn(3, device=device, requires_grad=True)
    (w * 2).sum().backward()
    assert grad_of(w).tolist() == [2, 2, 2]


def test_float64_random_numbers_on_cpu() -> None:
    sg.manual_seed(0)
    x = sg.rand(5, dtype=sg.float64)
    assert x.dtype is sg.float64
    sg.manual_seed(0)
    assert_same_bits(x.float(), sg.rand(5).numpy())


@pytest.mark.parametrize(
    ("low", "high"), [(-(2**63), 2**63 - 1), (-(2**40), 2**50), (2**40, 2**40 + 5), (0, 2**32), (-(2**31), 2**31)]
)
def test_integers_beyond_32_bits_are_drawn_on_cpu(low: int, high: int) -> None:
    sg.manual_seed(0)
    drawn = sg.randint(low, high, (1000,), dtype=sg.int64).tolist()
    assert low <= min(drawn)
    assert max(drawn) < high
    tenths = np.bincount([(x - low) * 5 // (high - low) for x in drawn], minlength=5)
    assert tenths.min() > 150, tenths  # 200 are expected in each fifth: four deviations
    assert sg.randint(low, high, (2,)).dtype is (sg.int32 if high - low == 2**32 and low else sg.int64)
    assert len({x & 0xFFFF for x in drawn}) > (4 if high - low < 10 else 900)  # the low bits are random too


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 257, "uint8"),
        (-1, 5, "uint8"),
        (-1, 2, "bool"),
        (0, 2**31 + 1, "int32"),
        (0, 70000, "float16"),
        (-129, 0, "int8"),
    ],
)
def test_bounds_that_a_dtype_does_not_hold_are_refused_as_in_pytorch(low: int, high: int, dtype: str) -> None:
    for t in (sg, torch):
        with pytest.raises(RuntimeError, match=r"(from|to - 1) is out of bounds for"):
            t.randint(low, high, (2,), dtype=getattr(t, dtype))
    if high > 0 and dtype != "int32":
        with pytest.raises(sg.DTypeError, match="is out of bounds for"):
            sg.zeros(2, dtype=getattr(sg, dtype)).random_(low, high)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_random_whole_numbers_are_those_that_a_dtype_holds(dtype: str, device: str) -> None:
    kind = getattr(sg, dtype)
    if dtype == "float64" and device != "cpu":
        kind = sg.float32
    drawn = sg.zeros(200, dtype=kind, device=device).random_().float().tolist()
    assert max(drawn) <= 2 / sg.finfo(kind).eps
    assert len(set(drawn)) > 50
    assert all(x == int(x) for x in drawn)


def test_integers_beyond_32_bits_are_refused_on_webgpu(webgpu: str) -> None:
    with pytest.raises(sg.DTypeError, match="randint"):
        sg.randint(0, 2**40, (2,), device=webgpu)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(sg.ShapeError, match="from=3 >= to=3"):
        sg.randint(3, 3, (2,))
    with pytest.raises(sg.DTypeError, match="do not fit int64"):
        sg.randint(0, 2**63 + 1, (2,))
    with pytest.raises(sg.DTypeError, match="randint"):
        sg.rand(3, dtype=sg.int32)


def test_draws_in_a_loop_compile_no_plan_each(device: str) -> None:
    sg.manual_seed(0)
    for _ in range(20):
        sg.rand(3, device=device).numpy()
    before = programs.compiled
    for _ in range(40):
        sg.rand(3, device=device).numpy()
    assert programs.compiled == before
