"""Loader workers beside PyTorch: tensors in samples, random numbers, the arguments about workers, streams that are divided."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad.data import (
    DataError,
    DataLoader,
    Dataset,
    IterableDataset,
    default_collate,
    get_worker_info,
)


def data_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("data-")]


def values(batches: Any) -> list[Any]:
    return [batch.tolist() if hasattr(batch, "tolist") else [part.tolist() for part in batch] for batch in batches]


class Held(Dataset):
    """Samples are views of a tensor that is yet to be computed, and computed further."""

    def __init__(self, device: str = "cpu") -> None:
        self.inner = {"x": [sg.arange(12, device=device).reshape(6, 2).float() * 2]}

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        x = self.inner["x"][0][index]
        return (x - 1) / 2, x.sum().long()


WANTED = [(np.arange(12).reshape(6, 2) - 0.5).tolist(), (np.arange(12).reshape(6, 2).sum(1) * 2).tolist()]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_samples_of_pending_tensors_are_computed_by_workers(workers: int, device: str) -> None:
    for _ in range(3):
        found = list(DataLoader(Held(device), 4, num_workers=workers))
        assert [part.device for batch in found for part in batch] == [device] * 4
        assert not workers or all(part._node.storage is not None for batch in found for part in batch)
        for k in (0, 1):
            assert [row for batch in found for row in batch[k].tolist()] == WANTED[k]


@pytest.mark.parametrize("workers", [0, 2])
def test_collate_functions_get_the_tensors_that_samples_are(workers: int) -> None:
    def padded(samples: list[Any]) -> Any:
        return sg.nn.utils.rnn.pad_sequence([x for x, _ in samples], batch_first=True), sg.stack(
            [y for _, y in samples]
        )

    x, y = next(iter(DataLoader(Held(), 6, num_workers=workers, collate_fn=padded)))
    assert [x.tolist(), y.tolist()] == WANTED


def test_workers_compute_while_a_model_trains(device: str) -> None:
    """The consumer captures, replays and reads, draws dropout, and workers compute and draw at the same time."""
    sg.manual_seed(0)
    model = sg.nn.Sequential(sg.nn.Linear(2, 8), sg.nn.Dropout(0.5), sg.nn.Linear(8, 1)).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=1e-3)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    class Noisy(Held):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)[0] + sg.rand(2).to(device) * 0

    for _ in range(5):
        total = 0
        for x in DataLoader(Noisy(device), 2, num_workers=3, shuffle=True):
            assert np.isfinite(step(x).item())
            total += x.sum().item()
        assert total == np.sum(WANTED[0])


def test_many_threads_may_make_views_of_one_tensor(device: str) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            found = list(DataLoader(Held(device), 1, num_workers=6))
            assert [row for batch in found for row in batch[0].tolist()] == WANTED[0]
    finally:
        sys.setswitchinterval(interval)


def test_a_tensor_that_requires_a_gradient_does_not_leave_a_worker() -> None:
    class Trainable(Held):
        def __getitem__(self, index: int) -> Any:
            return sg.ones(2, requires_grad=True) * index

    with pytest.raises(DataError, match=r"requires a gradient.*detach\(\)"):
        next(iter(DataLoader(Trainable(), 2, num_workers=2)))
    with sg.no_grad():  # as the consumer, so its workers
        assert len(list(DataLoader(Trainable(), 2, num_workers=2))) == 3


class Random(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return sg.rand(3)


def test_what_workers_draw_depends_on_the_seed_and_the_epoch_alone() -> None:
    drawn = {}
    for workers in (1, 2, 4):
        sg.manual_seed(5)
        before = sg.rand(2).tolist()
        loader = DataLoader(Random(), 2, num_workers=workers)
        drawn[workers] = [values(loader), values(loader), before, sg.rand(2).tolist()]
    assert drawn[1] == drawn[2] == drawn[4]
    first, second, _, after = drawn[1]
    assert first != second
    assert len({str(row) for batch in first for row in batch}) == 8  # no two samples alike
    sg.manual_seed(5)
    sg.rand(2)
    assert after == sg.rand(2).tolist()  # workers draw from streams of their own
    seeded = [values(DataLoader(Random(), 2, num_workers=2, seed=s)) for s in (1, 1, 2)]
    assert seeded[0] == seeded[1] != seeded[2]


def test_a_worker_knows_who_it_is() -> None:
    class Asking(Held):
        def __getitem__(self, index: int) -> Any:
            info = get_worker_info()
            return (-1, -1, -1) if info is None else (info.id, info.num_workers, int(info.dataset is self))

    assert values(DataLoader(Asking(), 6))[0] == [[-1] * 6] * 3
    (ids, counts, same) = values(DataLoader(Asking(), 6, num_workers=3))[0]
    assert set(ids) <= {0, 1, 2}
    assert (set(counts), set(same)) == ({3}, {1})
    assert get_worker_info() is None


def ranges(of: Any, getter: Any) -> Any:
    class Range(of):
        def __init__(self) -> None:
            self.start, self.end = 0, 23

        def __iter__(self) -> Iterator[int]:
            return iter(range(self.start, self.end))

    def divide(number: int) -> None:
        info = getter()
        share = -(-23 // info.num_workers)
        info.dataset.start, info.dataset.end = number * share, min(23, (number + 1) * share)

    return Range, divide


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [None, 3])
def test_a_stream_that_worker_init_fn_divides_comes_as_in_pytorch(size: int | None, drop_last: bool) -> None:
    if size is None and drop_last:
        return
    found = []
    for of, loader, getter in (
        (IterableDataset, DataLoader, get_worker_info),
        (torch.utils.data.IterableDataset, torch.utils.data.DataLoader, torch.utils.data.get_worker_info),
    ):
        kind, divide = ranges(of, getter)
        made = loader(
            kind(),
            size,
            num_workers=2,  # PyTorch warns of more than there are cores
            worker_init_fn=divide,
            drop_last=drop_last,
        )
        found.append([[b if size is None else b.tolist() for b in made] for _ in range(2)])
    assert found[0] == found[1]
    kind, divide = ranges(IterableDataset, get_worker_info)
    once = DataLoader(kind(), 4, num_workers=2, worker_init_fn=lambda _: None)
    assert [k for b in once for k in b.tolist()] == list(range(23))


def test_persistent_workers_stay_and_begin_once() -> None:
    begun: list[int] = []
    kept = DataLoader(Held(), 2, num_workers=2, persistent_workers=True, worker_init_fn=begun.append)
    first = values(kept)
    threads = {t.ident for t in data_threads()}
    assert values(kept) == first
    next(iter(kept))  # an epoch that is left
    assert values(kept) == first
    assert {t.ident for t in data_threads()} == threads
    assert sorted(begun) == sorted(set(begun))
    del kept
    gc.collect()
    deadline = time.monotonic() + 20
    while data_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not data_threads()


def test_a_worker_whose_last_job_was_dropped_keeps_no_loader() -> None:
    """It waits for another job, which may never come."""
    gate, begun = threading.Event(), threading.Event()

    class Slow(Held):
        def __getitem__(self, index: int) -> Any:
            begun.set()
            gate.wait(20)
            return super().__getitem__(index)

    kept = DataLoader(Slow(), 2, num_workers=2, persistent_workers=True)
    batches = iter(kept)
    begun.wait(20)
    alive = weakref.ref(kept.dataset)
    del batches  # its jobs that have not begun are dropped
    gate.set()
    deadline = time.monotonic() + 20
    del kept
    while alive() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert alive() is None


def test_out_of_order_a_slow_batch_holds_up_no_other() -> None:
    gate = threading.Event()

    class Slow(Held):
        def __getitem__(self, index: int) -> Any:
            if index == 0:
                gate.wait(60)
            return index

    loader = DataLoader(Slow(), 1, num_workers=2, in_order=False)
    found = []
    for batch in loader:
        found.append(batch.item())
        if len(found) == 5:
            gate.set()
    assert sorted(found) == list(range(6))
    assert found[-1] == 0
    kind, _ = ranges(IterableDataset, get_worker_info)
    assert sorted(k for b in DataLoader(kind(), 4, num_workers=3, in_order=False) for k in b.tolist()) == list(
        range(23)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefetch_factor": 2}, "prefetch_factor is about workers"),
        ({"persistent_workers": True}, "persistent_workers is about workers"),
        ({"multiprocessing_context": "fork"}, "multiprocessing_context is about workers"),
        ({"multiprocessing_context": "thread", "num_workers": 1}, "'fork', 'spawn' and 'forkserver'"),
    ],
)
def test_arguments_about_workers_are_refused_where_pytorch_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        DataLoader(Held(), 2, **options)
    with pytest.raises(ValueError, match=r"."):
        torch.utils.data.DataLoader(range(3), 2, **options)  # type: ignore[arg-type]


PYTORCHS = [
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "timeout",
    "worker_init_fn",
]
PYTORCHS += ["drop_last", "persistent_workers", "multiprocessing_context", "generator", "in_order"]


def test_arguments_of_pytorchs_loader_are_attributes_of_ours() -> None:
    given: list[dict[str, Any]] = [
        {},
        {"num_workers": 2},
        {"batch_size": None},
        {"pin_memory": True, "num_workers": 1, "in_order": False},
    ]
    for options in given:
        ours = DataLoader(range(9), **options)
        theirs = torch.utils.data.DataLoader(range(9), **options)  # type: ignore[arg-type]
        for name in PYTORCHS:
            assert getattr(ours, name) == getattr(theirs, name), name
        assert (ours.collate_fn is default_collate) == (theirs.collate_fn is torch.utils.data.default_collate)


def test_what_decides_the_batches_is_fixed() -> None:
    loader = DataLoader(range(9), 2)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} cannot be set"):
            setattr(loader, name, None)
    loader.num_workers = 2
    assert values(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


LEAVES = """
import time, sys
import numpy as np
import shadergrad as sg

class Slow(sg.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        time.sleep(0.01)
        return sg.ones(3) * i + sg.rand(3)

loader = sg.data.DataLoader(Slow(), 4, num_workers=3, persistent_workers=PERSIST)
for k, batch in enumerate(loader):
    if k == 2:
        HOW
"""


@pytest.mark.parametrize("how", ["break", "sys.exit()", "raise KeyError", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("persist", [False, True])
def test_a_program_that_leaves_in_an_epoch_ends_without_a_word_of_its_workers(how: str, persist: bool) -> None:
    program = LEAVES.replace("HOW", how).replace("PERSIST", str(persist))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert "Exception ignored" not in done.stderr
    assert done.stderr.count("Traceback") == how.startswith("raise")


# --- data sets and samplers


def test_stacked_and_chained_data_sets_and_shares_are_pytorchs() -> None:
    import torch.utils.data as theirs

    import shadergrad.utils.data as ours

    def stream(of: Any, values: Any) -> Any:
        kind = type("Values", (of.IterableDataset,), {"__iter__": lambda self: iter(values)})
        return kind()

    found = []
    for of in (ours, theirs):
        chained = of.ChainDataset([stream(of, "ab"), stream(of, "c")]), stream(of, "d") + stream(of, [1])
        stacked = of.StackDataset([1, 2, 3], "abc"), of.StackDataset(x=[1, 2], y=[3.0, 4.0])
        batch = next(iter(of.DataLoader(stacked[1], 2)))
        shares = [
            [list(of.DistributedSampler(range(n), r, k, shuffle=False, drop_last=drop)) for k in range(r)]
            for n in (1, 2, 7, 12)
            for r in (1, 3, 5)
            for drop in (False, True)
        ]
        shuffled = [of.distributed.DistributedSampler(range(7), 2, k, seed=3) for k in range(2)]
        together = []
        for epoch in range(2):
            for sampler in shuffled:
                sampler.set_epoch(epoch)
            together.append(sorted(i for sampler in shuffled for i in sampler)[:1] + [len(set(map(tuple, shuffled)))])
        found.append(
            [
                [*map(list, chained)],
                [list(map(s.__getitem__, range(2))) for s in stacked],
                stacked[0].__getitems__([2, 0]),
            ]
            + [[len(stacked[0]), batch["x"].tolist(), batch["y"].tolist()], shares, together]
        )
    assert found[0] == found[1]
    for call, words in (
        (lambda of: of.StackDataset([1], y=[1]), "not both"),
        (lambda of: of.StackDataset(), "at least one"),
        (lambda of: of.StackDataset([1], [1, 2]), "size mismatch"),
        (lambda of: of.DistributedSampler([1], 2, 2), "Invalid rank"),
    ):
        with pytest.raises(ValueError, match=words):
            call(ours)
        with pytest.raises(ValueError, match=r"."):
            call(theirs)
    with pytest.raises(DataError, match="IterableDataset"):
        list(ours.ChainDataset([[1]]))

    class Backwards(ours.Sampler[int]):
        def __init__(self, source: Any) -> None:
            super().__init__(source)
            self.source = source

        def __iter__(self) -> Iterator[int]:
            return iter(reversed(range(len(self.source))))

    assert [b.item() for b in ours.DataLoader[int]([5, 6, 7], sampler=Backwards([5, 6, 7]))] == [7, 6, 5]


def test_default_collate_and_convert_give_tensors() -> None:
    sample = {"x": np.ones(2, np.float32), "y": (1, "a"), "z": sg.ones(1)}
    converted = sg.data.default_convert(sample)
    assert isinstance(converted["x"], sg.Tensor)
    assert converted["y"] == [1, "a"]
    batch = default_collate([sample, sample])
    assert [type(part) for part in (batch["x"], batch["y"][0], batch["z"])] == [sg.Tensor] * 3
