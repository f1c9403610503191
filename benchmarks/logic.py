"""Training logic automata: whole optimizer steps of the five published experiments; beside JAX where it is asked for.

    python benchmarks/logic.py checkerboard --device webgpu
    python benchmarks/logic.py checkerboard --device cpu --against jax --steps 3
    python benchmarks/logic.py --batch-size 64 checkerboard

A step is the soft rollout, its gradient, clipping, AdamW and the hard rollout for the loss that counts wrong bits, on one
batch, in one compiled step. It is measured in rounds: `--steps` steps are submitted, then the device is waited for once;
medians over `--rounds` rounds, ours and JAX's in turns. Peak memory is the most that buffers had taken at once since the
process began: name one experiment to have its own. Bytes are those of every buffer that a kernel reads or writes, once a
dispatch, and the share is of what a copy of 128 MiB moves a second at the end of the run. The kernels of an automaton keep
a cell's values in registers and workgroup memory, so a small share says that arithmetic and barriers take the time.

The JAX twin is the same step in the published way: every gate is the sum of its sixteen operations weighted with softmax;
same wires, logits, batch and masks. Its first soft loss must be ours but for rounding. Install jax for it.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from circuits import copy_bandwidth
from record import Folder, Measured, keep
from shadergrad.logic.experiments import CLIP, EXPERIMENTS, Experiment, Training
from shadergrad.plan import format_bytes
from shadergrad.runtime.device import get_device

WARM_UP = 2  # rounds
SAME = 2e-5  # of the first losses: XLA's softmax on the CPU sums to 1 - 2.7e-7, which 24 layers make 1e-5
BETAS, EPS, DECAY = (0.9, 0.99), 1e-8, 1e-2


@dataclass
class Runner:
    """What is measured: `call` submits a step and gives its soft loss, `wait` waits for all of them, `peak` is the most
    memory so far in bytes, None where nobody counts it."""

    name: str
    call: Callable[[], Any]
    wait: Callable[[], Any]
    peak: Callable[[], int | None]
    compiled: Any = None


def ours(training: Training, batch: tuple[Any, ...], name: str) -> Runner:
    device = get_device(name)
    step = sg.compile(training.update)
    count = getattr(device, "statistics", None)
    return Runner(
        device.describe(), lambda: step(*batch)[0], sg.sync, lambda: count().peak_bytes if count else None, step
    )


# -- the twin in JAX


def sixteen(p: Any, a: Any, b: Any) -> Any:
    """The sum of the sixteen operations on a and b, weighted with p (..., 16)."""
    ab = a * b
    operations = (
        a * 0,
        ab,
        a - ab,
        a,
        b - ab,
        b,
        a + b - 2 * ab,
        a + b - ab,
        1 - (a + b - ab),
        1 - (a + b - 2 * ab),
        1 - b,
        1 - b + ab,
        1 - a,
        1 - a + ab,
        1 - ab,
        a * 0 + 1,
    )
    return sum(p[..., i] * value for i, value in enumerate(operations))


def jax_peer(training: Training, batch: tuple[Any, ...]) -> Runner:
    import jax  # type: ignore[reportMissingImports]
    import jax.numpy as jnp  # type: ignore[reportMissingImports]

    settings, model = training.settings, training.model
    start, target, *rest = (jnp.asarray(x.numpy()) for x in batch if x is not None)
    masks = rest[0] if rest else jnp.ones((settings.ca_steps, 1, 1, 1), bool)
    layers = [*model.perception.layers, *model.update.layers]
    seen = len(model.perception.layers)
    wires = [np.array(layer.pair()) for layer in layers]
    height, width = settings.grid

    def patches(state: Any) -> Any:
        """(batch, height, width, channels, 9)."""
        padded = jnp.pad(
            state, ((0, 0), (1, 1), (1, 1), (0, 0)), "wrap" if settings.border == "periodic" else "constant"
        )
        views = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
        return jnp.stack(views, -1)

    def cell(p: Any, state: Any) -> Any:
        x = patches(state)[..., None]  # kernels last
        for weights, (a, b) in zip(p[:seen], wires[:seen], strict=True):
            x = sixteen(jnp.moveaxis(weights, 0, 1), x[..., a, :], x[..., b, :])
        x = jnp.concatenate([state, x.reshape(*state.shape[:-1], -1)], -1)
        for weights, (a, b) in zip(p[seen:], wires[seen:], strict=True):
            x = sixteen(weights, x[..., a], x[..., b])
        return x

    def loss(p: Any) -> Any:
        end, _ = jax.lax.scan(lambda s, mask: (jnp.where(mask, cell(p, s), s), None), start, masks)
        count = settings.loss_channels
        return ((end[..., :count] - target[..., :count]) ** 2).sum()

    def soft(logits: Any) -> Any:
        return loss([jax.nn.softmax(x) for x in logits])

    @jax.jit
    def step(logits: Any, first: Any, second: Any, t: Any) -> Any:
        value, gradients = jax.value_and_grad(soft)(logits)
        hard = loss([jax.nn.one_hot(x.argmax(-1), 16) for x in logits])
        gradients = [jnp.clip(g, -CLIP, CLIP) for g in gradients]
        first = [BETAS[0] * m + (1 - BETAS[0]) * g for m, g in zip(first, gradients, strict=True)]
        second = [BETAS[1] * v + (1 - BETAS[1]) * g * g for v, g in zip(second, gradients, strict=True)]
        for k, (m, v) in enumerate(zip(first, second, strict=True)):
            moved = (m / (1 - BETAS[0] ** t)) / (jnp.sqrt(v / (1 - BETAS[1] ** t)) + EPS)
            logits[k] = logits[k] - settings.lr * (moved + DECAY * logits[k])
        return logits, first, second, value, hard

    logits = [jnp.asarray(layer.logits.detach().numpy()) for layer in layers]
    state: list[Any] = [logits, [x * 0 for x in logits], [x * 0 for x in logits], None, None]
    taken = 0

    def call() -> Any:
        nonlocal taken
        taken += 1
        state[:] = step(state[0], state[1], state[2], float(taken))
        return state[3]

    device = jax.devices()[0]
    return Runner(
        f"jax {jax.__version__} on {device.device_kind}",
        call,
        lambda: jax.block_until_ready(state),
        lambda: (device.memory_stats() or {}).get("peak_bytes_in_use"),
    )


# -- measuring


def seconds_a_step(runner: Runner, steps: int) -> float:
    runner.wait()
    start = time.perf_counter()
    for _ in range(steps):
        runner.call()
    runner.wait()
    return (time.perf_counter() - start) / steps


def medians(runners: list[Runner], steps: int, rounds: int) -> list[float]:
    """Seconds a step of each, measured in turns."""
    times = [[seconds_a_step(runner, steps) for runner in runners] for _ in range(WARM_UP + rounds)]
    return [statistics.median(column) for column in zip(*times[WARM_UP:], strict=True)]


def plan_line(plan: Any, seconds: float, bandwidth: float) -> str:
    kernels = [plan.kernels[d.kernel] for d in plan.dispatches]
    moved, flops = sum(k.nbytes for k in kernels), sum(k.flops for k in kernels)
    share = f"{100 * moved / seconds / bandwidth:.1f} % of a copy's {bandwidth:.2e}"
    return f"  {len(kernels)} dispatches, {format_bytes(moved)} a step, {moved / seconds:.2e} bytes/s ({share}), {flops / seconds:.2e} flop/s"


def measure(settings: Experiment, device: str, against: str, steps: int, rounds: int) -> tuple[Any, list[Measured]]:
    """Prints what was measured; gives the plan and the milliseconds a step and bytes."""
    training = Training(settings, device=device)
    batch = (*training.batch(), training.masks())
    runners = [jax_peer(training, batch)] if against else []  # it copies the first logits
    runners.insert(0, ours(training, batch, device))
    print(f"{settings.name}, batch {settings.batch}, on {runners[0].name}")
    begun = time.perf_counter()
    losses = [float(runner.call()) for runner in runners]
    print(
        f"  first soft loss {' and '.join(f'{x:.4f}' for x in losses)}, {time.perf_counter() - begun:.1f} s to compile"
    )
    if abs(losses[0] - losses[-1]) > SAME * losses[0]:
        raise SystemExit(f"  the first losses differ: {losses[0]} is ours, {losses[-1]} JAX's")
    times = medians(runners, steps, rounds)
    print(f"  {times[0] * 1e3:.3f} ms/step (median of {rounds} x {steps})")
    for runner, spent in zip(runners[1:], times[1:], strict=True):
        print(f"  {spent * 1e3:.3f} ms/step {runner.name}: ours is {spent / times[0]:.2f} times as fast")
    peaks = [(who, runner.peak()) for who, runner in zip(("ours", "jax's"), runners, strict=False)]
    texts = [f"{format_bytes(peak)} {who}" for who, peak in peaks if peak]
    print("  peak device memory: " + (", ".join(texts) or "not counted on the cpu"))
    case = f"{settings.name}, batch {settings.batch}"
    theirs = {"JAX": times[1] * 1e3} if len(times) > 1 else {}
    found = [Measured(case, "time", times[0] * 1e3, "ms", theirs, f"median of {rounds} x {steps} steps")]
    if peaks[0][1]:
        more = {"JAX": float(peaks[1][1])} if len(peaks) > 1 and peaks[1][1] else {}
        found.append(Measured(case, "peak memory", float(peaks[0][1]), "bytes", more))
    return runners[0].compiled.plan, found


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(EXPERIMENTS)}; all by default")] = None,
    device: str = "webgpu",
    batch_size: Annotated[int, typer.Option(help="0: that of the experiment")] = 0,
    against: Annotated[str, typer.Option(help="a peer to measure beside: jax")] = "",
    steps: Annotated[int, typer.Option(help="of a round")] = 20,
    rounds: int = 7,
    results: Folder = None,
) -> None:
    """Measure whole training steps."""
    chosen = names or list(EXPERIMENTS)
    if not set(chosen) <= set(EXPERIMENTS) or against not in ("", "jax"):
        raise typer.BadParameter(f"there are {', '.join(EXPERIMENTS)}; --against jax or nothing")
    if against and importlib.util.find_spec("jax") is None:
        raise typer.BadParameter("JAX is not installed: pip install jax")
    measured = {}
    for name in chosen:
        settings = EXPERIMENTS[name]
        measured[name] = measure(replace(settings, batch=batch_size or settings.batch), device, against, steps, rounds)
        keep(results, "logic", device, measured[name][1])
    if device != "cpu":  # at last, for a copy takes memory, and would count among the peaks
        bandwidth = copy_bandwidth(device)
        for name, (plan, found) in measured.items():
            print(f"{name:18} {plan_line(plan, found[0].value / 1e3, bandwidth)}")


if __name__ == "__main__":
    typer.run(main)
