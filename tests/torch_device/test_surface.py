"""What programs do with tensors of a device beside computing: copies, files, printing, views, generators, mixed precision."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

D = "webgpu"


@pytest.fixture
def x(torch_device: Any) -> Tensor:
    return torch.arange(6.0).reshape(2, 3)


def test_the_device_says_what_it_is(x: Tensor) -> None:
    assert str(x.to(D).device) == "webgpu:0"
    assert str(x.webgpu().device) == "webgpu:0"  # type: ignore[attr-defined]
    assert nn.Linear(2, 2).webgpu().weight.device.type == D  # type: ignore[attr-defined]
    assert torch.webgpu.is_available()  # type: ignore[attr-defined]
    assert torch.webgpu.device_count() == 1  # type: ignore[attr-defined]
    assert str(torch.accelerator.current_accelerator()) == D
    with torch.device(D):
        assert torch.zeros(2).device.type == D


def test_a_machine_with_cuda_is_told_what_cuda_cannot_do(monkeypatch: pytest.MonkeyPatch, torch_device: Any) -> None:
    from shadergrad.torch import registration

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.warns(UserWarning, match="one accelerator a process"):
        registration._warn_of_cuda()


def test_values_come_back(x: Tensor) -> None:
    d = x.to(D)
    assert torch.equal(d.cpu(), x)
    assert d[1, 2].item() == 5
    assert d.tolist() == x.tolist()
    assert "device='webgpu:0'" in repr(d)
    assert "[3., 4., 5.]" in repr(d)
    assert torch.equal(x.to(D, non_blocking=True).to("cpu", non_blocking=True), x)


def test_writes_through_views_are_seen(torch_device: Any) -> None:
    a = torch.arange(24.0).reshape(2, 3, 4)
    b = a.to(D)
    for t in (a, b):
        t[0, 1] = 7
        t[:, ::2, 1:3].mul_(2)
        t.transpose(0, 2)[1].add_(1)
        t.view(-1)[3:20:5] = -1
        t.diagonal(dim1=1, dim2=2).zero_()
        t.unfold(1, 2, 1)[0, 0].fill_(9.0)
        t.permute(2, 0, 1)[1:3, :, 1].sub_(t[0, 0, 0])
    assert torch.equal(a, b.cpu())


def test_complex_numbers_and_their_parts_share_memory(torch_device: Any) -> None:
    from shadergrad.torch.storage import Place

    if Place.device != "cpu":
        with pytest.raises(TypeError, match="complex64 is not available on webgpu"):
            torch.zeros(3, dtype=torch.complex64, device=D)
        return
    a = torch.randn(3, 4, dtype=torch.complex64)
    b = a.to(D)
    for t in (a, b):
        t.real.mul_(2)
        t.imag[1] = 5
        torch.view_as_real(t)[:, 0, 1].neg_()
        t.conj()[2].add_(1j)
        torch.view_as_complex(torch.view_as_real(t))[0, 3] = 2 - 1j  # type: ignore[reportArgumentType]
    torch.testing.assert_close(b.cpu(), a)
    torch.testing.assert_close((b.conj() @ b.T).cpu(), a.conj() @ a.T)
    with pytest.raises(TypeError, match="has no view as torch"):
        torch.zeros(3, device=D).view(torch.int32).cpu()


def test_integers_of_bools_are_int64_unless_a_dtype_is_asked_for(torch_device: Any) -> None:
    here, there = torch.tensor([True, False]), torch.tensor([True, False], device="webgpu")
    for call in (
        lambda b: b * 1,
        lambda b: 1 + b,
        lambda b: b.cumsum(0),
        lambda b: torch.ops.aten._foreach_add.Scalar([b], 1)[0],
        lambda b: b.sum(dtype=torch.int32),
        lambda b: b * torch.ones(2, dtype=torch.int32, device=b.device),
        lambda b: b.to(torch.uint8) << 1,
    ):
        found, expected = call(there), call(here)
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_what_cannot_be_written_raises_as_in_pytorch(x: Tensor) -> None:
    for t in (x, x.to(D)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            t[0].expand(4, 3).add_(1)
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
            t.long().add_(1.5)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            t.add_(torch.ones(2, 2, 3, device=t.device))


def test_tensors_of_the_host_are_refused_but_for_numbers_and_indices(x: Tensor) -> None:
    d = x.to(D)
    for operation in (
        lambda: d + x,
        lambda: d @ x.T,
        lambda: d.add_(x),
        lambda: torch.cat([d, x]),
        lambda: d.gather(0, x.long()),
    ):
        with pytest.raises(RuntimeError, match="found at least two devices, webgpu:0 and cpu"):
            operation()
    assert torch.equal((d * torch.tensor(2.0)).cpu(), x * 2)
    assert torch.equal(d[torch.tensor([1, 0])].cpu(), x[[1, 0]])
    d[torch.tensor([1])] = 7.0
    d[:, torch.tensor([True, False, False])] = 8.0
    assert d.tolist() == [[8.0, 1.0, 2.0], [8.0, 7.0, 7.0]]
    generator = torch.Generator()
    for draw in (
        lambda: torch.rand(2, device=D, generator=generator),
        lambda: d.softmax(-1).multinomial(1, generator=generator),
    ):
        with pytest.raises(RuntimeError, match="generator"):
            draw()


@pytest.mark.parametrize("offsets", [[1, 2], [0, 3], [0, 2, 1]])
def test_offsets_of_bags_that_are_out_of_range_raise(offsets: list[int], torch_device: Any) -> None:
    x, table, at = (tensor.to(D) for tensor in (torch.tensor([0, 1]), torch.ones(3, 3), torch.tensor(offsets)))
    with pytest.raises(RuntimeError, match=r"embedding_bag.*offset"):
        torch.nn.functional.embedding_bag(x, table, at, mode="sum").tolist()


def test_out_says_where_numbers_become_a_tensor(torch_device: Any) -> None:
    out = torch.zeros(4, device=D)
    assert torch.linspace(0.0, 1.0, 4, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.linspace(0.0, 1.0, 4))


def test_second_derivatives(torch_device: Any) -> None:
    w = torch.randn(3)
    found = []
    for t in (w.clone().requires_grad_(), w.to(D).requires_grad_()):
        (g,) = torch.autograd.grad((t**3).sum(), t, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), t)
        found.append(h.cpu())
    torch.testing.assert_close(*found)


def test_state_dicts_files_copies_and_pickles(x: Tensor) -> None:
    model: Any = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(D)
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    twin.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    model.load_state_dict(twin.state_dict())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for where in ("cpu", None):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert {v.device.type for v in loaded.values()} == {where or D}
        assert all(torch.equal(loaded[k].cpu(), v.cpu()) for k, v in model.state_dict().items())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other[0].weight.cpu(), model[0].weight.cpu())
        other[0].weight.data.zero_()
        assert model[0].weight.abs().sum().item() > 0


def test_tied_weights_stay_tied(torch_device: Any) -> None:
    model: Any = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    for moved in (model.to(D), copy.deepcopy(model)):
        assert moved[0].weight is moved[1].weight


@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_modules_of_the_host_load_as_without_the_device(torch_device: Any) -> None:
    layer = nn.utils.weight_norm(nn.Linear(3, 2))  # which holds its parameters twice
    layer.load_state_dict({k: v * 2 for k, v in layer.state_dict().items()})
    assert not torch.__future__.get_swap_module_params_on_conversion()


def test_seeds_repeat_and_dropout_drops(torch_device: Any) -> None:
    torch.manual_seed(3)
    a = torch.rand(3, device=D).cpu()
    state = torch.webgpu.get_rng_state()  # type: ignore[attr-defined]
    b = torch.rand(3, device=D).cpu()
    torch.manual_seed(3)
    assert torch.equal(a, torch.rand(3, device=D).cpu())
    torch.webgpu.set_rng_state(state)  # type: ignore[attr-defined]
    assert torch.equal(b, torch.rand(3, device=D).cpu())
    kept = (F.dropout(torch.ones(1000, device=D), 0.3) != 0).float().mean().item()
    assert 0.6 < kept < 0.8


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, torch_device: Any) -> None:
    q, k, v = (torch.randn(2, 2, 5, 8) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    got = F.scaled_dot_product_attention(q.to(D), k.to(D), v.to(D), is_causal=causal)
    torch.testing.assert_close(got.cpu(), expected)


def test_gradients_are_clipped(x: Tensor) -> None:
    model = nn.Linear(3, 3)
    twin = copy.deepcopy(model).to(D)
    for m, given in ((model, x), (twin, x.to(D))):
        m(given).pow(2).sum().backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    assert model.weight.grad is not None
    assert twin.weight.grad is not None
    torch.testing.assert_close(twin.weight.grad.cpu(), model.weight.grad)


@pytest.mark.filterwarnings("ignore:torch.float64 is computed as float32")  # GradScaler divides by the scale in float64
def test_autocast_and_grad_scaler(x: Tensor) -> None:
    layer = nn.Linear(3, 1).to(D)
    with torch.autocast(D, dtype=torch.bfloat16):
        assert layer(x.to(D)).dtype is torch.bfloat16
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler(D, init_scale=8.0)
    before = layer.weight.detach().cpu().clone()
    scaler.scale(layer(x.to(D)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(layer.weight.detach().cpu(), before - 0.1 * x.sum(0))


def test_transforms_of_functions(x: Tensor) -> None:
    d = x.to(D)
    assert torch.equal(torch.vmap(lambda r: r * 2)(d).cpu(), x * 2)
    assert torch.equal(torch.func.grad(lambda r: (r**2).sum())(d).cpu(), 2 * x)
    layer = nn.Linear(3, 2).to(D)
    y = checkpoint(layer, d, use_reentrant=False)
    y.sum().backward()
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad.cpu(), x.sum(0).expand(2, 3))


def test_an_operator_without_a_kernel_is_named(torch_device: Any) -> None:
    from shadergrad.torch import HostFallbackError

    with pytest.raises(HostFallbackError, match=r"aten::linalg_ldl_factor_ex has no kernel"):
        torch.linalg.ldl_factor(torch.eye(3, device=D))


def test_an_operator_of_another_library_is_not_ours_of_that_name(x: Tensor) -> None:
    from shadergrad.torch import HostFallbackError

    library = torch.library.Library("shadergrad_test", "FRAGMENT")
    library.define("sin(Tensor x) -> Tensor")
    library.impl("sin", lambda x: x + 2, "CPU")
    with pytest.raises(HostFallbackError, match="shadergrad_test::sin has no kernel"):
        torch.ops.shadergrad_test.sin(x.to(D))
    library.impl("sin", lambda x: x + 3, "CompositeExplicitAutograd")
    assert torch.equal(torch.ops.shadergrad_test.sin(x.to(D)).cpu(), x + 3)
    library._destroy()


def test_the_functional_copy_has_the_form_of_its_target(x: Tensor) -> None:
    found = torch.ops.aten.copy(x.to(D).t(), torch.tensor([[1], [2], [3]], device=D))
    assert (found.dtype, found.stride()) == (torch.float32, (1, 3))
    assert found.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    "copied",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.permute(2, 0, 3, 1).clone(),
        lambda x: x[:, ::2].transpose(0, 1).clone(),
        lambda x: torch.zeros_like(x.transpose(1, 2)),
        lambda x: x.transpose(0, 1).int(),
        lambda x: torch.zeros(2, 3, 2, 4, device=x.device).to(memory_format=torch.channels_last),
        lambda x: x[0, 0].t().clone().t().view(-1),
    ],
)
def test_copies_keep_the_order_of_axes_in_memory(copied: Any, torch_device: Any) -> None:
    x = torch.arange(48.0).reshape(2, 3, 2, 4)
    expected, got = copied(x), copied(x.to(D))
    assert got.stride() == expected.stride()
    assert got.cpu().stride() == expected.stride()
    assert torch.equal(got.cpu(), expected)
