"""Loops whose operators are recognised, not recorded (torch/sequences.py): against PyTorch's cpu, whatever changes from step to step."""

from __future__ import annotations

import copy
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shadergrad.drive import execute

torch = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = nn.functional
STEPS = 9


@pytest.fixture
def met(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The operators that were not recognised, as they come."""
    from shadergrad.torch import sequences

    found: list[Any] = []
    other = sequences._other

    def noted(op: Any, *rest: Any) -> Any:
        found.append(op)
        return other(op, *rest)

    sequences.tree.forget()
    monkeypatch.setattr(sequences, "_other", noted)
    yield found
    sequences.begin()


def trained(model: Any, step: Callable[[Any, Any, int], Any], optimizer: Callable[..., Any]) -> Any:
    """The parameters on our device after some steps, and those of PyTorch's cpu."""
    found = []
    for place in ("webgpu", "cpu"):
        m: Any = copy.deepcopy(model).to(place)
        o = optimizer(m.parameters())
        for k in range(STEPS):
            o.zero_grad()
            step(m, o, k)
        found.append([p.detach().cpu() for p in m.parameters()])
    return zip(*found, strict=True)


def check(pairs: Any, rtol: float = 1e-4, atol: float = 2e-5) -> None:
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def batch(m: Any, k: int, rows: int = 16) -> tuple[Any, Any]:
    place = next(m.parameters()).device
    generator = torch.Generator().manual_seed(k)
    x = torch.randn(rows, 8, generator=generator)
    return x.to(place), torch.randint(3, (rows,), generator=generator).to(place)


def perceptron() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def step(m: Any, o: Any, k: int) -> Any:
    x, y = batch(m, k)
    loss = F.cross_entropy(m(x), y)
    loss.backward()
    o.step()
    return loss


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "AdamW, one by one": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
    "Adam, capturable": lambda p: torch.optim.Adam(p, torch.tensor(0.01)),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, torch_device: Any, met: list[Any]) -> None:
    counts: list[int] = []

    def counted(m: Any, o: Any, k: int) -> None:
        before = len(met)
        step(m, o, k)
        if next(m.parameters()).device.type == "webgpu":
            counts.append(len(met) - before)

    check(trained(perceptron(), counted, OPTIMIZERS[name]))
    uploads = 2
    assert counts[-1] == uploads, "the last steps are recognised as a whole, but for the batches from the host"


def test_what_comes_again_compiles_nothing(torch_device: Any, met: list[Any]) -> None:
    model = perceptron().to("webgpu")
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    before = 0
    for k in range(10):
        if k == 8:
            before = execute.programs.compiled
        optimizer.param_groups[0]["lr"] = 0.01 / (k + 1)
        step(model, optimizer, k)
    assert execute.programs.compiled == before


def test_a_schedule_and_clipping(torch_device: Any, met: list[Any]) -> None:
    def scheduled(m: Any, o: Any, k: int) -> None:
        x, y = batch(m, k)
        F.cross_entropy(m(x) * (1 + 0.1 * k), y).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5 + 0.01 * k)
        o.param_groups[0]["lr"] = 0.1 * 0.9**k
        o.step()

    check(trained(perceptron(), scheduled, OPTIMIZERS["SGD"]))


def test_other_lengths_branches_and_reads(torch_device: Any, met: list[Any]) -> None:
    seen: dict[str, list[float]] = {"webgpu": [], "cpu": []}

    def changing(m: Any, o: Any, k: int) -> None:
        x, y = batch(m, k, 16 if k % 3 else 5)
        h = m(x)
        if k in (4, 6):
            h = h.tanh() * 2
        loss = F.cross_entropy(h, y)
        if k % 4 == 1:
            seen[x.device.type].append(loss.item())
        loss.backward()
        if k != 5:
            o.step()
        with torch.no_grad():
            seen[x.device.type].append(m(x).abs().max().item())

    check(trained(perceptron(), changing, OPTIMIZERS["Adam"]))
    assert seen["webgpu"] == pytest.approx(seen["cpu"], rel=1e-4)


def test_values_that_are_kept(torch_device: Any, met: list[Any]) -> None:
    """Results of each step, read long after; the last one keeps more alive than those before."""
    kept: dict[str, list[Any]] = {"webgpu": [], "cpu": []}

    def keeping(m: Any, o: Any, k: int) -> None:
        x, y = batch(m, k)
        h = m[0](x)
        loss = F.cross_entropy(m[1:](h), y)
        loss.backward()
        o.step()
        kept[x.device.type].append(loss.detach())
        if k in (3, 8):
            kept[x.device.type] += [h.detach(), h.detach().t()[1:3], m[0].weight.grad]

    check(trained(perceptron(), keeping, OPTIMIZERS["SGD"]))
    check(zip([t.cpu() for t in kept["webgpu"]], kept["cpu"], strict=True))


def test_random_numbers_are_drawn_anew(torch_device: Any, met: list[Any]) -> None:
    x = torch.ones(64, 8, device="webgpu")

    def masks() -> list[Any]:
        torch.manual_seed(3)
        found = []
        for _ in range(6):
            h = F.dropout(x * 2, 0.5)
            noise = torch.empty_like(x).bernoulli_(0.5)
            found.append(h + noise + torch.randn_like(x))
            torch.webgpu.synchronize()
        return [t.cpu() for t in found]

    first, second = masks(), masks()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(first))


def test_numbers_keep_their_digits(torch_device: Any, met: list[Any], device: str) -> None:
    if device != "cpu":
        pytest.skip("a GPU has no float64")
    x = torch.linspace(0, 1, 7, dtype=torch.float64)
    y = x.to("webgpu")
    for k in range(8):
        number = 0.1 + k * 1e-9
        x = x * number + torch.add(x, x, alpha=1 / 3 + k * 1e-9)
        y = y * number + torch.add(y, y, alpha=1 / 3 + k * 1e-9)
        torch.webgpu.synchronize()
    torch.testing.assert_close(y.cpu(), x, rtol=1e-14, atol=0)


def test_the_default_dtype_counts(torch_device: Any, met: list[Any]) -> None:
    try:
        for k in range(8):
            torch.set_default_dtype(torch.float16 if k > 5 else torch.float32)
            x = torch.zeros(3, device="webgpu") + torch.ones(3, device="webgpu")
            assert x.dtype is (torch.float16 if k > 5 else torch.float32)
            torch.webgpu.synchronize()
    finally:
        torch.set_default_dtype(torch.float32)


def test_writes_through_views(torch_device: Any, met: list[Any]) -> None:
    found = []
    for place in ("webgpu", "cpu"):
        x = torch.arange(24.0, device=place).reshape(4, 6)
        for k in range(STEPS):
            part = x[1:3, ::2]
            part.mul_(1.5)
            x.t()[2].add_(k)
            x.view(-1)[5:9] = x.view(-1)[0:4].sin()
            part.copy_(part + x[0, 1])
            if place == "webgpu":
                torch.webgpu.synchronize()
        found.append(x.cpu())
    torch.testing.assert_close(*found)


def test_layouts_sizes_and_what_is_read_count(torch_device: Any, met: list[Any]) -> None:
    """Of tensors that are made alike, and differ later: strides, a size given in place, a truth that the program asks for."""
    found: dict[str, list[Any]] = {"webgpu": [], "cpu": []}
    for place, results in found.items():
        steps = torch.zeros(1, device=place)
        for k in range(10):
            x = torch.arange(12.0, device=place).reshape(3, 4)
            y = x if k < 6 else x.view(4, 3).t()
            z = torch.ones(4, device=place) * 2
            z.resize_(2)
            steps.add_(1)
            is_eighth = torch.equal(steps, torch.full((1,), 8.0, device=place))
            results += [y * 2, z + 1, torch.tensor(is_eighth)]
            if place == "webgpu":
                torch.webgpu.synchronize()
    check(zip([t.cpu() for t in found["webgpu"]], found["cpu"], strict=True))


def test_tensors_with_and_without_a_gradient_follow_one_entry(torch_device: Any, met: list[Any]) -> None:
    """The guard of an entry compares requires_grad, which does not matter to a value."""
    x = y = torch.ones(3, device="webgpu")
    for k in range(12):
        met.clear()
        x.requires_grad_(k % 2 == 1)
        with torch.no_grad():
            y = (x * 2 + x).exp()
        torch.webgpu.synchronize()
        assert k < 3 or not met
    torch.testing.assert_close(y.cpu(), torch.full((3,), 3.0).exp())


def test_the_guard_of_an_entry_tells_layouts_apart(torch_device: Any) -> None:
    from shadergrad.torch.private import guard_of

    x = torch.zeros(3, 4, device="webgpu")
    guard, gone = guard_of([x]), weakref.ref(x)
    assert guard.check(torch.ones_like(x))
    others = [torch.zeros(4, 3, device=x.device).t(), x[:2], x[:, :3], x.int(), x.reshape(12), x[:1].expand(3, 4)]
    others += [torch._neg_view(x), x.cpu()]
    assert not any(guard.check(other) for other in others)
    del x, others
    assert gone() is None


def test_parts_of_one_storage_are_told_apart(torch_device: Any, met: list[Any]) -> None:
    """With one shape and the same strides, at another offset."""
    x, found = torch.arange(6.0, device="webgpu").reshape(3, 2), []
    for k in range(12):
        found.append(x[k % 3 if k > 5 else 0] * 2)
        torch.webgpu.synchronize()
    expected = [torch.arange(6.0).reshape(3, 2)[k % 3 if k > 5 else 0] * 2 for k in range(12)]
    check(zip([y.cpu() for y in found], expected, strict=True))


def test_a_tensor_that_is_given_twice(torch_device: Any, met: list[Any]) -> None:
    """Of a list, each is written in turn: what is given twice is written twice. Two tensors of one value are still two."""
    found = []
    for place in ("webgpu", "cpu"):
        x, y = torch.ones(3, device=place), torch.ones(3, device=place) * 2
        for k in range(16):
            torch._foreach_mul_([x, x if k in (7, 12, 13, 14) else y], 1.5)
            torch._foreach_add_([x, y], [y, x])
            if k in (5, 8, 9, 10, 11):
                y.copy_(x)
            x, y = x / 4, y / 3
            if place == "webgpu":
                torch.webgpu.synchronize()
        found.append(torch.stack([x, y]).cpu())
    torch.testing.assert_close(*found)


def test_what_comes_from_outside_may_be_of_another_kind(torch_device: Any, met: list[Any]) -> None:
    """A number, a range, a value in memory, and one that waits: with one shape and dtype each."""
    found: dict[str, list[Any]] = {"webgpu": [], "cpu": []}
    for place, results in found.items():
        x, c = torch.ones(3, device=place), torch.full((3,), 2.0, device=place)
        made: dict[int, Callable[..., Any]] = {
            5: lambda c: torch.arange(3.0, device=c.device),
            8: lambda c: torch.tensor([3.0, 1.0, 2.0]).to(c.device),
            11: lambda c: torch.full((3,), 5.0, device=c.device),
            14: lambda c: torch.zeros(3, device=c.device),
            17: lambda c: torch.ones(2, 3, device=c.device).cumsum(0)[1],
            20: lambda c: torch.full((3,), 7.0, device=c.device),
        }
        for k in range(24):
            x = (x * 0.5 + c).sin()
            results.append(x)
            if place == "webgpu":
                torch.webgpu.synchronize()
            if k in made:
                c = made[k](c)
    check(zip([t.cpu() for t in found["webgpu"]], found["cpu"], strict=True))


def test_an_error_ends_nothing_else(torch_device: Any, met: list[Any]) -> None:
    a, b = torch.ones(3, device="webgpu"), torch.ones(4, device="webgpu")
    for k in range(6):
        c = a * 2
        with pytest.raises(RuntimeError):
            torch.add(c, b)
        assert (c + k).tolist() == [2.0 + k] * 3


def test_threads_follow_sequences_of_their_own(torch_device: Any, met: list[Any]) -> None:
    found: dict[int, Any] = {}

    def work(seed: int) -> None:
        torch.manual_seed(0)
        x = torch.linspace(0, 1, 12, device="webgpu").reshape(3, 4) + seed
        for k in range(30):
            x = (x.sin() + x * 0.5).softmax(-1) * (1 + k % 3)
            if k % 5 == 4:
                torch.webgpu.synchronize()
        found[seed] = x.cpu()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed in range(3):
        x = torch.linspace(0, 1, 12).reshape(3, 4) + seed
        for k in range(30):
            x = (x.sin() + x * 0.5).softmax(-1) * (1 + k % 3)
        torch.testing.assert_close(found[seed], x, rtol=1e-4, atol=1e-5)


def test_a_value_of_another_thread_is_there(torch_device: Any, met: list[Any]) -> None:
    for k in range(6):
        x = torch.full((3,), float(k), device="webgpu") * 2 + 1
        read: list[Any] = []
        reader = threading.Thread(target=lambda x=x, read=read: read.append(x.tolist()))
        reader.start()
        reader.join()
        assert read == [[2.0 * k + 1] * 3]
        assert (x + 1).tolist() == [2.0 * k + 2] * 3


class Program:
    """A loop of random operators over a few tensors: most are the same in each step, some change. None makes much of a rounding."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.lines = [self.line() for _ in range(self.choose.randint(6, 18))]

    def line(self) -> Callable[[list[Any], list[Any], int], None]:
        r = self.choose
        i, j, k, when = r.randrange(5), r.randrange(5), r.randrange(5), r.randrange(2, 9)
        number = r.choice((0.5, 1.0, -0.25, -0.75))

        def at(n: int) -> float:
            return number + 0.01 * n

        def put(pool: list[Any], value: Any) -> None:
            pool[k] = value

        kinds: list[Callable[[list[Any], list[Any], int], Any]] = [
            lambda p, kept, n: put(p, p[i] * number + p[j]),
            lambda p, kept, n: put(p, (p[i] - p[j] * at(n)).tanh()),
            lambda p, kept, n: put(p, torch.addcmul(p[i], p[j], p[k], value=at(n)).sin()),
            lambda p, kept, n: put(p, p[i].softmax(-1) + p[j].t().contiguous().view(4, 4)),
            lambda p, kept, n: put(p, p[i] @ p[j].t() / 4),
            lambda p, kept, n: put(p, torch.cat([p[i][:2], p[j][2:]]).cos()),
            lambda p, kept, n: put(p, torch.where(torch.eye(4, device=p[i].device) > 0, p[j], p[i])),
            lambda p, kept, n: put(p, p[i].sum(0, keepdim=True).expand(4, 4) * 0.1),
            lambda p, kept, n: put(p, p[i].clone()),
            lambda p, kept, n: put(p, p[i]),
            lambda p, kept, n: put(p, p[i].index_select(0, torch.tensor([3, 0, 1, 2], device=p[i].device))),
            lambda p, kept, n: p[i].mul_(0.5).add_(p[j], alpha=at(n)),
            lambda p, kept, n: p[i][1:3].mul_(at(n)),
            lambda p, kept, n: p[i].t()[2].copy_(p[j][1].clone()),
            lambda p, kept, n: p[i].fill_(at(n)) if n == when else p[i].clamp_(-2, 2),
            lambda p, kept, n: torch._foreach_mul_([p[i].clone(), p[j]], [at(n), number]),
            lambda p, kept, n: torch._foreach_add_([p[i]], [p[j].clone()], alpha=at(n)),
            lambda p, kept, n: torch._foreach_add_([p[i], p[j]], [p[j].clone(), p[k].clone()]),
            lambda p, kept, n: torch._foreach_mul_([p[i], p[j if n < when else i]], 0.5),
            lambda p, kept, n: p[i].copy_(p[j]),
            lambda p, kept, n: kept.append(p[i].sum()),
            lambda p, kept, n: kept.append(p[i]) if n >= when else None,
            lambda p, kept, n: kept.append(torch.tensor(p[i].abs().mean().item())) if n % 3 == when % 3 else None,
            lambda p, kept, n: put(p, p[i] * 2) if n == when else put(p, p[j] - 1),
            lambda p, kept, n: put(p, p[i] * (p[j].sum().item() * 0.1)) if n % 2 else None,
            lambda p, kept, n: put(p, copy.deepcopy(p[i])) if n == when else None,
            lambda p, kept, n: p[i].normal_(0.0, 0.0),
            lambda p, kept, n: put(p, p[i] + torch.empty_like(p[j]).bernoulli_(1.0)),
            lambda p, kept, n: put(p, torch.full((4, 4), at(n), device=p[i].device) - p[i]),
            lambda p, kept, n: torch.webgpu.synchronize() if n % when == 0 else None,
            lambda p, kept, n: p[i].data.copy_(torch.full((4, 4), at(n))) if n == when else None,
            lambda p, kept, n: put(p, p[i].gather(1, torch.arange(4, device=p[i].device).expand(4, 4).flip(1))),
        ]
        return r.choice(kinds)

    def run(self, place: str, reads: bool) -> list[Any]:
        kept: list[Any] = []
        pool = [(torch.arange(16.0).reshape(4, 4) * (0.1 + 0.05 * k)).sin().to(place) for k in range(5)]
        for n in range(10):
            for line in self.lines:
                line(pool, kept, n)
            for k, x in enumerate(pool):
                pool[k] = x.tanh()  # so that no rounding grows
            if place == "webgpu":
                torch.webgpu.synchronize() if not reads else pool[0].sum().item()
        return [t.detach().cpu() for t in (*pool, *kept)]


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 12))])
def test_random_loops(part: int, torch_device: Any, met: list[Any], device: str) -> None:
    first = 50 * part
    for seed in range(first, first + (50 if device == "cpu" else 3)):  # most of a GPU's time would be its compiler's
        program = Program(seed)
        found, expected = program.run("webgpu", seed % 3 == 0), program.run("cpu", False)
        assert len(found) == len(expected)
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            torch.testing.assert_close(
                a, b, rtol=2e-3, atol=2e-3, equal_nan=True, msg=lambda m, k=k, seed=seed: f"seed {seed}, value {k}: {m}"
            )
