"""autocast and GradScaler: PyTorch's result dtypes operator by operator, its skipping, in compiled and uncompiled steps."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad.data.digits import load_digits
from shadergrad.errors import PrecisionWarning
from shadergrad.tensor import precision

X = np.random.default_rng(0).random((4, 4)).astype(np.float32) * 0.8 + 0.1
IMAGE = np.random.default_rng(1).random((2, 3, 8, 8)).astype(np.float32)

# of a matrix, and of the same again in the first dtype
MATRICES = """
a @ b|a.mm(b)|t.matmul(a, b)|a.addmm(a, b)|a.addmv(a[0], b[0])|a.mv(b[0])|a[0].dot(b[0])|a.outer(b[0]) if 0 else a[0].outer(b[0])
a[None].bmm(b[None])|a[None].baddbmm(a[None], b[None])|t.einsum('ij,jk->ik', a, b)|t.tensordot(a, b, 1)|f.linear(a, b)|f.linear(a, b, b[0])
f.prelu(a, b[0, :1])|t.linalg.multi_dot([a, b, a])|t.linalg.vecdot(a, b)|a[0].inner(b[0])
a + b|a * b|a / b|a - 1|a * 2.5|a > b|a.relu()|a.exp()|a.log()|a.sqrt()|a.rsqrt()|a.tanh()|a.sigmoid()|a.erf()|a ** 2|a.pow(b)|2.0 ** a
a.sum()|a.sum(0)|a.mean()|a.var()|a.std(0)|a.prod()|a.prod(0)|a.amax(0)|a.cumsum(0)|a.cumprod(0)|a.norm()|a.logsumexp(0)|a.softmax(0)
a.log_softmax(0)|a.trace()|a.clamp(0.2, 0.5)|a.abs()|a.floor()|a.sin()|a.tan()|a.sinh()|a.acos()|a.expm1()|a.log1p()|a.reciprocal()
a.addcmul(a, a)|a.addcdiv(a, a)|a.lerp(a, 0.5)|a.atan2(a)|a.where(a > 0.5, b.to(a.dtype))|t.cat([a, b])|t.stack([a, b])|a.T|a[1:]|a.reshape(-1)
f.mse_loss(a, b)|f.l1_loss(a, b)|f.smooth_l1_loss(a, b)|f.huber_loss(a, b)|f.kl_div(a.log(), b, reduction="sum")|f.binary_cross_entropy_with_logits(a, b)
f.soft_margin_loss(a, b)|f.margin_ranking_loss(a, b, b)|f.hinge_embedding_loss(a, b)|f.cross_entropy(a, t.arange(4))|f.nll_loss(a, t.arange(4))
f.triplet_margin_loss(a, b, a)|f.cosine_embedding_loss(a, b, b[0])|f.poisson_nll_loss(a, b)|f.gelu(a)|f.silu(a)|f.softplus(a)|f.elu(a)|f.mish(a)
f.layer_norm(a, (4,))|f.softmax(a, 0)|f.log_softmax(a, 1)|f.normalize(a)|f.cosine_similarity(a, a)|f.dropout(a, 0.5)|f.embedding(t.arange(3), a)
f.scaled_dot_product_attention(a[None, None], b[None, None], a[None, None])
"""
IMAGES = """
f.conv2d(a, b[:, :, :3, :3])|f.conv1d(a[0], b[0, :, :, :3].permute(1, 0, 2))|f.conv_transpose2d(a, b[:3 if 0 else 2].permute(1, 0, 2, 3))
f.avg_pool2d(a, 2)|f.max_pool2d(a, 2)|f.adaptive_avg_pool2d(a, 1)|f.batch_norm(a, None, None, training=True)|f.group_norm(a, 3)
f.interpolate(a, scale_factor=2)|f.pad(a, (1, 1))|f.unfold(a, 2)|f.instance_norm(a)
"""
LINES = [(line, X) for part in MATRICES.strip().split("\n") for line in part.split("|")]
LINES += [(line, IMAGE) for part in IMAGES.strip().split("\n") for line in part.split("|")]


def result(line: str, lib: Any, data: np.ndarray, dtypes: tuple[str, str], **options: Any) -> str:
    """The dtype of the result, or that there is an error."""
    a, b = (lib.tensor(data).to(getattr(lib, name)) for name in dtypes)
    try:
        with lib.autocast("cpu", **options):
            found = eval(line, {"t": lib, "f": lib.nn.functional, "a": a, "b": b})
    except (RuntimeError, TypeError, ValueError):
        return "an error"
    return str(found.dtype).rpartition(".")[2]


@pytest.mark.parametrize(
    "dtypes",
    [("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("float64", "float64")],
    ids="-".join,
)
@pytest.mark.parametrize(("line", "data"), LINES, ids=[line for line, _ in LINES])
def test_results_have_pytorchs_dtypes(line: str, data: np.ndarray, dtypes: tuple[str, str]) -> None:
    wanted = result(line, torch, data, dtypes)
    if wanted == "an error":
        pytest.skip("PyTorch refuses it")
    assert result(line, sg, data, dtypes) == wanted


def test_values_are_those_of_a_product_of_halves(device: str) -> None:
    x, w = sg.tensor(X, device=device), sg.tensor(X.T.copy(), device=device)
    with sg.autocast(device, dtype=sg.bfloat16):
        found = x @ w
    assert found.dtype is sg.bfloat16
    np.testing.assert_array_equal(found.float().numpy(), (x.to("bfloat16") @ w.to("bfloat16")).float().numpy())


def test_lists_of_gpus_differ_from_those_of_the_cpu(webgpu: str) -> None:
    x = sg.tensor(X, device=webgpu)
    with sg.autocast("webgpu"):
        half = x @ x
        found = [
            half,
            half.exp(),
            half.softmax(0),
            half.sum(),
            half.relu(),
            half**2,
            F.layer_norm(half, (4,)),
            F.mse_loss(half, x),
            half + x,
        ]
        assert (sg.tensor(X) @ sg.tensor(X)).dtype is sg.float32  # on the cpu, which is not named
        with pytest.raises(sg.ShadergradError, match="unsafe to autocast"):
            F.binary_cross_entropy(x, x)
    names = [y.dtype.name for y in found]
    assert names == ["float16", "float32", "float32", "float32", "float16", "float32", "float32", "float32", "float32"]


def test_contexts_nest_and_decorate() -> None:
    x = sg.tensor(X)

    @sg.autocast("cpu", dtype=sg.float16)
    def product() -> sg.Tensor:
        return x @ x

    def kind() -> str:
        return (x @ x).dtype.name

    assert (product().dtype.name, kind()) == ("float16", "float32")
    with sg.autocast("cpu"):
        assert (kind(), sg.is_autocast_enabled("cpu")) == ("bfloat16", True)
        with sg.autocast("cpu", enabled=False):
            assert (kind(), sg.is_autocast_enabled("cpu")) == ("float32", False)
            with sg.autocast("cpu", dtype=sg.float16):
                assert kind() == "float16"
        assert (kind(), product().dtype.name) == ("bfloat16", "float16")
    assert kind() == "float32"


STATE = """
t.get_autocast_dtype("cpu"), t.get_autocast_dtype("cuda"), t.get_autocast_cpu_dtype(), t.get_autocast_gpu_dtype(), t.is_autocast_cache_enabled()
t.set_autocast_dtype("cpu", t.float16); t.get_autocast_dtype("cpu"), t.is_autocast_enabled("cpu"), product(), under("cpu")
t.set_autocast_cpu_dtype(t.bfloat16); t.get_autocast_dtype("cpu"), under("cpu"), under("cpu", dtype=t.float16)
t.set_autocast_enabled("cpu", True); product(), t.is_autocast_enabled("cpu"), t.is_autocast_cpu_enabled(), under("cpu", enabled=False)
product(); t.set_autocast_cpu_enabled(False); product(), t.is_autocast_cpu_enabled()
within(lambda: t.set_autocast_dtype("cpu", t.float16)), t.set_autocast_dtype("cpu", t.bfloat16), product()
within(lambda: t.set_autocast_enabled("cpu", False)), product(), within(t.clear_autocast_cache)
t.set_autocast_cache_enabled(False); t.is_autocast_cache_enabled(), t.set_autocast_cache_enabled(True), under("cpu")
"""


@pytest.mark.filterwarnings("ignore:.*is deprecated", "ignore:.*deprecated")
def test_the_state_is_read_and_set_as_pytorchs() -> None:
    """By the functions that libraries call outside of contexts, and within."""
    found = []
    for lib in (torch, sg):

        def product(lib: Any = lib) -> str:
            return str((lib.ones(2, 2) @ lib.ones(2, 2)).dtype)

        def under(*args: Any, lib: Any = lib, product: Any = product, **options: Any) -> str:
            with lib.autocast(*args, **options):
                return product()

        def within(do: Any, lib: Any = lib, product: Any = product) -> str:
            with lib.autocast("cpu"):
                do()
                return product()

        names = {"t": lib, "product": product, "under": under, "within": within}
        lines = []
        for line in STATE.strip().split("\n"):
            *statements, last = line.split("; ")
            exec("\n".join(statements), names)
            lines.append(str(eval(last, names)).replace("shadergrad.", "torch."))
        found.append(lines)
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_layers_run_in_the_lower_dtype_where_pytorchs_do(kind: str, device: str) -> None:
    """On GPUs all of them; on the cpu those that PyTorch's cpu does."""
    wanted = "bfloat16"
    if device == "cpu":
        try:
            with torch.autocast("cpu"):
                y = getattr(torch.nn, kind)(3, 4)(torch.ones(2, 3))
        except RuntimeError as error:  # oneDNN has no bfloat16 LSTM for processors without AVX-512
            if kind != "LSTM" or "primitive descriptor" not in str(error):
                raise
        else:
            wanted = str((y[0] if isinstance(y, tuple) else y).dtype).removeprefix("torch.")
    layer, x = getattr(sg.nn, kind)(3, 4).to(device), sg.ones(2, 3, device=device, requires_grad=True)
    with sg.autocast("cpu" if device == "cpu" else "webgpu", dtype=sg.bfloat16):
        found = layer(x)
    parts = (
        [found]
        if isinstance(found, sg.Tensor)
        else [found[0], *([found[1]] if isinstance(found[1], sg.Tensor) else found[1])]
    )
    assert {p.dtype.name for p in parts} == {wanted}
    parts[0].float().sum().backward()
    assert layer.get_parameter("weight_hh" if "Cell" in kind else "weight_hh_l0").grad is not None
    assert x.grad is not None
    assert x.grad.dtype is sg.float32


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_of_halves_are_as_exact_as_pytorchs(kind: str, device: str) -> None:
    data = np.random.default_rng(2).standard_normal((20, 3, 8)).astype(np.float32)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(8, 16).half()
    ours = getattr(sg.nn, kind)(8, 16)
    ours.load_state_dict({k: sg.tensor(v.float().numpy()) for k, v in theirs.state_dict().items()})
    x = torch.tensor(data).half()
    exact = getattr(torch.nn, kind)(8, 16).double()
    exact.load_state_dict({k: v.double() for k, v in theirs.state_dict().items()})
    wanted, near = exact(x.double())[0].detach().numpy(), theirs(x)[0].detach().double().numpy()
    found = ours.to(device).to("float16")(sg.tensor(x.numpy(), device=device))[0].float().detach().numpy()
    assert abs(found - wanted).max() <= 1.2 * abs(near - wanted).max()


def test_a_parameter_is_cast_anew_after_its_cast_is_forgotten() -> None:
    w, x = sg.ones(2, 2, requires_grad=True), sg.ones(2, 2)
    with sg.autocast("cpu"):
        _ = x @ w
        assert len(precision.here.casts or ()) == 1
        sg.clear_autocast_cache()
        assert not precision.here.casts
        _ = x @ w
        assert len(precision.here.casts or ()) == 1
    sg.set_autocast_cache_enabled(False)
    try:
        with sg.autocast("cpu"):
            assert precision.here.casts is None
    finally:
        sg.set_autocast_cache_enabled(True)


def test_what_is_not_there_warns_and_changes_nothing() -> None:
    with pytest.warns(PrecisionWarning, match="no device 'cuda'"), sg.autocast("cuda"):
        assert (sg.ones(2, 2) @ sg.ones(2, 2)).dtype is sg.float32
    with pytest.warns(PrecisionWarning, match="float16 or bfloat16, not float32"), sg.autocast("cpu", dtype=sg.float32):
        assert (sg.ones(2, 2) @ sg.ones(2, 2)).dtype is sg.float32
    with sg.autocast("cuda", enabled=False):
        pass
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        sg.autocast(sg.float16)  # pyright: ignore[reportArgumentType]


def test_a_weight_is_cast_once_and_has_float32_gradients(device: str) -> None:
    layer = sg.nn.Linear(4, 4).to(device)
    x = sg.tensor(X, device=device)
    with sg.autocast(device, dtype=sg.bfloat16):
        loss = layer(layer(x)).float().sum()
    loss.backward()
    assert layer.weight.grad is not None
    assert (layer.weight.dtype, layer.weight.grad.dtype) == (sg.float32, sg.float32)
    reference = torch.nn.Linear(4, 4)
    reference.load_state_dict({k: torch.tensor(v.cpu().numpy()) for k, v in layer.state_dict().items()})
    with torch.autocast("cpu"):
        theirs = reference(reference(torch.tensor(X))).float().sum()
    theirs.backward()
    assert reference.weight.grad is not None
    np.testing.assert_allclose(layer.weight.grad.numpy(), reference.weight.grad.numpy(), rtol=0.03, atol=0.03)
    with sg.autocast(device, dtype=sg.bfloat16):
        before = layer(x)
        with sg.no_grad():
            layer.weight.mul_(2)
            layer.bias = None
        after = layer(x)  # not of the cast that was made before
    np.testing.assert_allclose(
        after.detach().float().numpy(), X @ layer.weight.detach().numpy().T, rtol=0.02, atol=0.02
    )
    assert before.tolist() != after.tolist()


def test_functions_follow_their_decorators() -> None:
    seen: list[Any] = []

    class Product(sg.autograd.Function):
        @staticmethod
        @sg.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: sg.Tensor, b: sg.Tensor) -> sg.Tensor:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @sg.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: sg.Tensor) -> Any:
            a, b = ctx.saved_tensors
            seen.append((g @ b).dtype)
            return (g @ b.T.to(g.dtype)).float(), (a.T.to(g.dtype) @ g).float()

    class Cast(sg.autograd.Function):
        @staticmethod
        @sg.amp.custom_fwd(device_type="cpu", cast_inputs=sg.float32)
        def forward(ctx: Any, a: sg.Tensor) -> sg.Tensor:
            seen.append((a.dtype, (a @ a).dtype))
            return a * 2

        @staticmethod
        @sg.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: sg.Tensor) -> sg.Tensor:
            seen.append((g @ g).dtype)
            return g * 2

    x = sg.tensor(X, requires_grad=True)
    with sg.autocast("cpu"):
        y = Product.apply(x, x)
    assert y.dtype is sg.bfloat16
    y.float().sum().backward()
    with sg.autocast("cpu"):
        z = Cast.apply(x.to("bfloat16"))
    z.sum().backward()
    assert seen == [sg.bfloat16, (sg.float32, sg.float32), sg.float32]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_scaler_is_pytorchs(device: str, compiled: bool) -> None:
    """The scale, parameters and the state of the optimizer, through steps of which some are skipped."""
    factors = [1.0, 1.0, np.inf, 1.0, 1.0, 1.0, np.nan, 1.0]
    start = np.random.default_rng(3).standard_normal(5).astype(np.float32)

    def train(lib: Any, wrap: Any, **where: Any) -> Any:
        w = lib.tensor(start, requires_grad=True, **where)
        optimizer = lib.optim.AdamW([w], lr=0.1)
        scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((w * x) ** 2).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            lib.nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss

        step, scales = wrap(step), []
        for factor in factors:
            step(lib.tensor([factor, 1, 2, 3, 4], dtype=lib.float32, **where))
            scales.append(scaler.get_scale())
        return (
            w.detach().numpy(),
            scales,
            scaler.state_dict(),
            optimizer.state_dict()["state"][0]["step"].item(),
            step,
            scaler,
        )

    ours = train(sg, sg.compile if compiled else lambda f: f, device=device)
    theirs = train(torch, lambda f: f)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    assert ours[1:4] == theirs[1:4]
    if compiled:
        assert ours[4].captures == 1
    again = pickle.loads(pickle.dumps(ours[5]))
    assert again.state_dict() == ours[2]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_that_unscaling_makes_infinite_skips_the_step(device: str, compiled: bool) -> None:
    w = sg.tensor([1.0, 2.0], device=device, requires_grad=True)
    optimizer, scaler = sg.optim.SGD([w], lr=0.1), sg.amp.GradScaler(device, init_scale=2.0**-40)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        scaler.scale((w * x).sum() * 2.0**40).backward()
        scaler.step(optimizer)
        scaler.update()

    step = sg.compile(step) if compiled else step
    step(sg.tensor([1.0, 2.0**100], device=device))
    assert w.tolist() == [1.0, 2.0]
    assert scaler.get_scale() == 2.0**-41


def test_a_scaled_step_keeps_no_moments_until_it_knows_whether_it_counts(webgpu: str) -> None:
    model = sg.nn.Linear(64, 64).to(webgpu)
    optimizer, scaler = sg.optim.AdamW(model.parameters()), sg.amp.GradScaler(webgpu)

    @sg.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with sg.autocast(webgpu, dtype=sg.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    step(sg.randn(32, 64, device=webgpu))
    plan = step.plan
    products = [k for k in (plan.kernels[d.kernel] for d in plan.dispatches) if k.archetype == "dot"]
    assert products
    assert all(k.access.count("read_write") <= 2 for k in products)  # a gradient, at most in both dtypes


def test_a_scaler_says_what_is_called_too_early_or_twice() -> None:
    w = sg.ones(2, requires_grad=True)
    optimizer, scaler = sg.optim.SGD([w], lr=0.1), sg.amp.GradScaler()
    with pytest.raises(RuntimeError, match="_scale is None"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    with pytest.raises(RuntimeError, match="No inf checks"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(RuntimeError, match="none of its parameters has a gradient"):
        scaler.step(sg.optim.SGD([sg.ones(2, requires_grad=True)], lr=0.1))
    off = sg.amp.GradScaler(enabled=False)
    assert (off.get_scale(), off.state_dict(), off.is_enabled(), off.scale(3)) == (1.0, {}, False, 3)
    h = sg.ones(2, dtype="float16", requires_grad=True)
    scaler.scale(h.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16"):
        scaler.step(sg.optim.SGD([h], lr=0.1))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_network_trains_under_autocast(device: str, name: str, compiled: bool) -> None:
    """Near the same training in float32, and a capture for each autocast that it is called under."""
    x, y = sg.tensor(IMAGE[:, :, :4, :4].repeat(8, 0), device=device), sg.arange(16, device=device) % 4
    x = x + sg.randn(16, 3, 4, 4, device=device, generator=sg.Generator().manual_seed(1) if device == "cpu" else None)

    def train(half: bool) -> list[float]:
        sg.manual_seed(0)
        model = sg.nn.Sequential(
            sg.nn.Conv2d(3, 6, 3, padding=1), sg.nn.BatchNorm2d(6), sg.nn.ReLU(), sg.nn.Flatten(), sg.nn.Linear(96, 4)
        ).to(device)
        optimizer, scaler = sg.optim.Adam(model.parameters(), lr=0.01), sg.amp.GradScaler()

        def step() -> sg.Tensor:
            optimizer.zero_grad()
            with sg.autocast(device, dtype=getattr(sg, name), enabled=half):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = sg.compile(step) if compiled else step
        return [run().item() for _ in range(20)]

    half, single = train(True), train(False)
    assert half[-1] < 0.5 * half[0]
    np.testing.assert_allclose(half, single, rtol=0.1, atol=0.05)


def test_a_compiled_step_is_captured_anew_under_another_autocast() -> None:
    x = sg.tensor(X)
    step = sg.compile(lambda x: x @ x)
    assert step(x).dtype is sg.float32
    with sg.autocast("cpu"):
        assert step(x).dtype is sg.bfloat16
    assert step(x).dtype is sg.float32
    assert step.captures == 2


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.slow
def test_digits_are_learned_in_half_precision(webgpu: str, name: str) -> None:
    """At least 97 % of the test images, as in float32: products in halves, weights in float32, losses scaled."""
    images, labels, test_images, test_labels = load_digits()
    sg.manual_seed(0)
    layers = sg.nn.Linear(64, 128), sg.nn.ReLU(), sg.nn.Linear(128, 64), sg.nn.ReLU(), sg.nn.Linear(64, 10)
    model, scaler = sg.nn.Sequential(*layers).to(webgpu), sg.amp.GradScaler()
    optimizer = sg.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = sg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 500)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        with sg.autocast("webgpu", dtype=getattr(sg, name)):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    order = np.random.default_rng(0)
    for _ in range(500):
        batch = order.integers(0, len(images), 64)
        step(sg.tensor(images[batch], device=webgpu), sg.tensor(labels[batch], device=webgpu))
        schedule.step()
    assert step.captures == 1
    model = model.to(getattr(sg, name))  # and judged as a network of halves
    logits = model(sg.tensor(test_images, device=webgpu, dtype=name)).detach()
    assert logits.dtype.name == name
    accuracy = (logits.float().numpy().argmax(1) == test_labels).mean()
    assert accuracy >= 0.97


def test_a_checkpointed_part_runs_again_under_its_autocast(device: str) -> None:
    """Also one whose weights were cast before, or are cast again after."""
    x = sg.tensor(X, device=device, requires_grad=True)
    layer = sg.nn.Linear(4, 4).to(device)
    seen: list[str] = []

    def part(x: sg.Tensor) -> sg.Tensor:
        y = layer(x)
        seen.append(y.dtype.name)
        return y.float().tanh()

    def gradients(run: Any) -> list[np.ndarray]:
        layer.zero_grad()
        x.grad = None
        with sg.autocast(device, dtype=sg.bfloat16):
            total = run(part, x).sum() + layer(x * 2).float().sum()
        total.backward()
        found = [layer.weight.grad, x.grad]
        return [g.numpy() for g in found if g is not None]

    plain = gradients(lambda f, x: f(x))
    again = gradients(sg.checkpoint)
    assert set(seen) == {"bfloat16"}
    assert len(seen) == 3
    assert len(plain) == 2
    for a, b in zip(again, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02)


def test_compositions_are_not_remembered_from_one_autocast_to_another() -> None:
    attention = sg.nn.MultiheadAttention(4, 2, batch_first=True)
    x = sg.tensor(X)[None]
    kinds = []
    for enabled in (False, True, False, True):
        with sg.autocast("cpu", enabled=enabled):
            kinds.append(attention(x, x, x)[0].dtype.name)
    assert kinds == ["float32", "bfloat16"] * 2


def test_activations_are_stored_in_halves_by_no_more_kernels(webgpu: str) -> None:
    """Of a training step: what is between its kernels takes half of the memory, and casts have no kernels of their own."""
    x, y = sg.randn(512, 64, device=webgpu), sg.arange(512, device=webgpu) % 10
    found = []
    for half in (False, True):
        layers = sg.nn.Linear(64, 256), sg.nn.GELU(), sg.nn.Linear(256, 256), sg.nn.GELU(), sg.nn.Linear(256, 10)
        model = sg.nn.Sequential(*layers).to(webgpu)
        optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

        def step(
            x: sg.Tensor, y: sg.Tensor, model: Any = model, optimizer: Any = optimizer, half: bool = half
        ) -> sg.Tensor:
            optimizer.zero_grad()
            with sg.autocast("webgpu", dtype=sg.bfloat16, enabled=half):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = sg.compile(step)
        run(x, y)
        plan = run.plan
        temporaries = [spec for spec in plan.buffers if spec.role == "temporary"]
        activations = [
            spec for spec in temporaries if spec.shape == (512, 256)
        ]  # and no partial sums of products, which are float32
        memory = sum({spec.slot: spec.bound for spec in activations}.values())
        found.append((memory, len(plan.dispatches), {spec.dtype.name for spec in activations}))
    (before, kernels, _), (after, kernels_of_halves, dtypes) = found
    assert after < 0.6 * before, found
    assert kernels_of_halves <= kernels
    assert dtypes == {"bfloat16"}
