"""Data sets, samplers, batches and the loader: PyTorch's behaviour, the same order whatever the number of workers."""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_same_bits
from shadergrad.data import (
    BatchSampler,
    ConcatDataset,
    DataError,
    DataLoader,
    Dataset,
    IterableDataset,
    LoaderTimeoutError,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)
from shadergrad.errors import DeviceError, ShadergradError, ShapeError

WORKERS = [0, 1, 4]
Pair = namedtuple("Pair", ["left", "right"])


class Squares(Dataset):
    """Sample i is i squared; each takes a time of its own, so that workers finish out of order."""

    def __init__(self, size: int = 23, slow: bool = True) -> None:
        self.size = size
        self.slow = slow
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        if self.slow:
            time.sleep((index * 7 % 5) * 1e-3)
        return np.full(2, index**2, np.float32), index

    def __len__(self) -> int:
        return self.size


class Stream(IterableDataset):
    def __init__(self, size: int = 23) -> None:
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        for k in range(self.size):
            time.sleep((k * 7 % 5) * 1e-3)
            yield np.full(2, k, np.int32)


def values(batches: Any) -> list[Any]:
    """Batches of tensors as nested lists."""

    def plain(batch: Any) -> Any:
        return batch.tolist() if hasattr(batch, "tolist") else [plain(part) for part in batch]

    return [plain(batch) for batch in batches]


def data_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("data-")]


def assert_soon(condition: Callable[[], bool]) -> None:
    """True in a while: at once on a machine that does nothing else, within a minute on any."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def assert_no_workers_left() -> None:
    assert_soon(lambda: not data_threads())


# --- data sets


def test_a_tensor_dataset_gives_rows_of_arrays_and_of_tensors(device: str) -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6, dtype=np.int32)
    host = TensorDataset(a, b)
    placed = TensorDataset(sg.tensor(a, device=device), sg.tensor(b, device=device))
    assert len(host) == len(placed) == 6
    assert isinstance(host[2][0], np.ndarray)
    for dataset in (host, placed):
        assert values([dataset[2], dataset[-1]]) == [[[4.0, 5.0], 2], [[10.0, 11.0], 5]]
        assert values([dataset.batch_of(np.array([5, 0, -2]))]) == [[[[10.0, 11.0], [0.0, 1.0], [8.0, 9.0]], [5, 0, 4]]]


def test_arrays_of_different_lengths_make_no_dataset() -> None:
    with pytest.raises(ShapeError, match=r"size mismatch.*\(3, 2\), \(4,\)"):
        TensorDataset(np.zeros((3, 2)), np.zeros(4))
    with pytest.raises(DataError, match="at least one"):
        TensorDataset()


def test_a_subset_and_a_concatenation_find_their_samples() -> None:
    squares = Squares(10, slow=False)
    both = Subset(squares, [7, 1]) + Subset(squares, [2, 3, 4])
    assert [int(both[i][1]) for i in range(len(both))] == [7, 1, 2, 3, 4]
    assert both[-1][1] == 4
    assert both[-5][1] == 7
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"index {index} is out of range for 5"):
            both[index]
    with pytest.raises(DataError, match="not an IterableDataset"):
        ConcatDataset([Stream()])


@pytest.mark.filterwarnings("ignore:Length of split")  # an empty part, which is meant
@pytest.mark.parametrize(
    ("size", "lengths", "counts"),
    [
        (10, [7, 3], [7, 3]),
        (10, [0.5, 0.25, 0.25], [6, 2, 2]),
        (10, [1], [10]),
        (10, [10, 0], [10, 0]),
        (1, [0.5, 0.5], [1, 0]),
        (0, [0.5, 0.5], [0, 0]),
        (1, [1], [1]),
    ],
)
def test_a_random_split_shares_out_all_samples_as_pytorch_does(size: int, lengths: list, counts: list) -> None:
    parts = random_split(TensorDataset(np.arange(size)), lengths)
    reference = torch.utils.data.random_split(torch.utils.data.TensorDataset(torch.arange(size)), lengths)
    assert [len(p) for p in parts] == [len(p) for p in reference] == counts
    assert sorted(int(p[i][0]) for p in parts for i in range(len(p))) == list(range(size))


def test_a_random_split_is_decided_by_its_generator() -> None:
    def split(seed: int) -> list[list[int]]:
        parts = random_split(Squares(50, slow=False), [30, 20], sg.Generator("cpu", seed))
        return [p.indices.tolist() for p in parts]

    assert split(3) == split(3) != split(4)
    assert split(3)[0] != sorted(split(3)[0])


@pytest.mark.parametrize("lengths", [[7, 4], [0.5, 0.4], [-1, 11], [9.5, 0.5]])
def test_lengths_that_do_not_add_up_are_refused(lengths: list) -> None:
    with pytest.raises(DataError, match="add up to"):
        random_split(Squares(10), lengths)


# --- samplers


def test_random_samplers_give_every_sample_once_in_an_order_that_the_seed_decides() -> None:
    def orders(seed: int) -> list[list[int]]:
        sampler = RandomSampler(range(20), generator=sg.Generator("cpu", seed))
        return [list(sampler), list(sampler)]

    first, second = orders(1)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert orders(1) == [first, second]
    assert orders(2) != [first, second]
    assert sorted(SubsetRandomSampler([5, 9, 5])) == [5, 5, 9]
    assert list(SubsetRandomSampler([])) == []


def test_manual_seed_decides_the_order_where_no_generator_is_given() -> None:
    def order() -> list[int]:
        sg.manual_seed(11)
        return list(RandomSampler(range(9)))

    assert order() == order()


def test_a_random_sampler_gives_as_many_as_asked() -> None:
    assert len(RandomSampler(range(5), num_samples=12)) == 12
    for wanted in (0, 3, 5, 12):
        assert len(list(RandomSampler(range(5), num_samples=wanted))) == wanted
    counts = Counter(RandomSampler(range(5), num_samples=12))
    assert set(counts) == set(range(5))
    assert set(counts.values()) <= {2, 3}
    drawn = list(RandomSampler(range(1000), replacement=True))
    assert len(drawn) == 1000
    assert 500 < len(set(drawn)) < 750  # 1 - 1/e of them
    assert 0 <= min(drawn) <= max(drawn) < 1000
    assert list(RandomSampler([])) == []


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_decide_how_often_an_index_comes(replacement: bool) -> None:
    weights = [0.0, 1.0, 3.0, 0.0, 6.0]
    generator = sg.Generator("cpu", 0)
    if replacement:
        counts = Counter(WeightedRandomSampler(weights, 20_000, generator=generator))
        assert set(counts) == {1, 2, 4}
        for index in counts:
            assert counts[index] / 20_000 == pytest.approx(weights[index] / 10, abs=0.015)
    else:
        draws = [list(WeightedRandomSampler(weights, 3, False, generator)) for _ in range(300)]
        assert all(sorted(d) == [1, 2, 4] for d in draws)
        first = Counter(d[0] for d in draws)
        assert first[4] / 300 == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize(
    ("weights", "count", "words"),
    [
        ([1, -1], 1, "negative"),
        ([1, float("nan")], 1, "finite"),
        ([0, 0], 1, "0 weights are above zero"),
        ([1, 0], 2, "1 weights are above zero"),
        ([1], 0, "at least 1"),
    ],
)
def test_impossible_weights_are_refused(weights: list, count: int, words: str) -> None:
    with pytest.raises(DataError, match=words):
        WeightedRandomSampler(weights, count, replacement=False)


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [0, 1, 6, 7])
def test_batches_of_indices_are_pytorchs(size: int, drop_last: bool) -> None:
    ours = BatchSampler(SequentialSampler(range(size)), 3, drop_last)
    theirs = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(size)), 3, drop_last)
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)


# --- collate


def test_samples_become_batches_within_containers() -> None:
    samples = [{"x": np.full(2, k, np.float64), "pair": Pair(k, (k / 2, True)), "name": f"n{k}"} for k in range(3)]
    batch = default_collate(samples)
    assert batch["x"].dtype == sg.float64
    np.testing.assert_array_equal(batch["x"], [[0, 0], [1, 1], [2, 2]])
    assert isinstance(batch["pair"], Pair)
    assert batch["pair"].left.dtype == sg.int32
    halves, flags = batch["pair"].right
    assert (halves.dtype, flags.dtype) == (sg.float32, sg.bool)
    assert halves.tolist() == [0, 0.5, 1]
    assert batch["name"] == ["n0", "n1", "n2"]
    assert default_collate([1, 2**40]).dtype == sg.int64
    assert default_collate([[1, 2], [3, 4]])[1].tolist() == [2, 4]


def test_tensors_are_stacked_where_they_are(device: str) -> None:
    batch = default_collate([sg.full((2,), k, device=device) for k in range(3)])
    assert batch.device == device
    assert batch.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_the_tape_runs_through_a_batch_of_tensors() -> None:
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    default_collate([x, x * 3]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([], "no sample"),
        ([np.zeros(2), np.zeros(3)], r"different shapes.*\(2,\), \(3,\)"),
        ([(1, 2), (1,)], r"samples of \[1, 2\] parts"),
        ([{"a": 1}, {"b": 1}], "different keys"),
        ([object()], "cannot make a batch of object"),
    ],
)
def test_samples_that_do_not_fit_together_are_refused(samples: list, words: str) -> None:
    with pytest.raises(ShadergradError, match=words):
        default_collate(samples)


# --- the loader


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_come_in_order_whatever_the_number_of_workers(workers: int, drop_last: bool) -> None:
    loader = DataLoader(Squares(), 4, num_workers=workers, drop_last=drop_last)
    batches = list(loader)
    assert len(batches) == len(loader) == (5 if drop_last else 6)
    assert [index for _, indices in values(batches) for index in indices] == list(range(20 if drop_last else 23))
    assert batches[1][0].tolist() == [[16, 16], [25, 25], [36, 36], [49, 49]]
    assert isinstance(batches[0][0], sg.Tensor)
    assert_no_workers_left()


RANDOM_ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "RandomSampler": lambda o: RandomSampler(range(50), **o),
    "RandomSampler with replacement": lambda o: RandomSampler(range(50), replacement=True, **o),
    "SubsetRandomSampler": lambda o: SubsetRandomSampler(list(range(50)), **o),
    "WeightedRandomSampler": lambda o: WeightedRandomSampler(np.ones(50), 50, **o),
    "WeightedRandomSampler without replacement": lambda o: WeightedRandomSampler(np.ones(50), 50, False, **o),
    "DataLoader": lambda o: DataLoader(np.arange(50), 1, shuffle=True, collate_fn=lambda rows: int(rows[0]), **o),
}


@pytest.mark.parametrize("given", [True, False], ids=["own generator", "default generator"])
@pytest.mark.parametrize("kind", RANDOM_ORDERS)
def test_every_epoch_has_another_order_and_all_come_again_with_the_seed(kind: str, given: bool) -> None:
    def epochs() -> list[list[int]]:
        sg.manual_seed(4)
        order = RANDOM_ORDERS[kind]({"generator": sg.Generator("cpu", 4)} if given else {})
        return [list(order) for _ in range(4)]

    found = epochs()
    assert len({tuple(epoch) for epoch in found}) == 4
    assert epochs() == found


def test_the_shuffled_order_is_the_seeds_and_not_the_workers() -> None:
    def epochs(workers: int, seed: int) -> list[Any]:
        loader = DataLoader(Squares(), 4, shuffle=True, seed=seed, num_workers=workers)
        return [values(loader), values(loader)]

    reference = epochs(0, seed=5)
    assert epochs(1, seed=5) == epochs(4, seed=5) == reference
    assert reference[0] != reference[1]
    assert epochs(0, seed=6) != reference
    for epoch in reference:
        assert sorted(i for _, indices in epoch for i in indices) == list(range(23))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("drop_last", [True, False])
def test_a_stream_comes_in_order_too(workers: int, drop_last: bool) -> None:
    loader = DataLoader(Stream(), 4, num_workers=workers, drop_last=drop_last)
    found = [row[0] for batch in values(loader) for row in batch]
    assert found == list(range(20 if drop_last else 23))
    with pytest.raises(TypeError):
        len(loader)
    assert [row[0] for row in values(DataLoader(Stream(3), None, num_workers=workers))] == [0, 1, 2]
    assert_no_workers_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_on_the_device_asked_for(workers: int, device: str) -> None:
    samples = [{"x": np.ones(3, np.float32), "y": k, "name": "n"} for k in range(4)]
    (batch,) = DataLoader(samples, 4, num_workers=workers, device=device)
    assert batch["x"].device == batch["y"].device == device
    assert (batch["x"].dtype, batch["y"].dtype) == (sg.float32, sg.int32)
    assert batch["y"].tolist() == [0, 1, 2, 3]
    assert batch["name"] == ["n"] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_of_tensors_is_indexed_where_it_is(workers: int, device: str) -> None:
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    dataset = TensorDataset(sg.tensor(x, device=device), sg.arange(5, device=device))
    loader = DataLoader(Subset(dataset, [4, 2, 0]), 2, num_workers=workers)
    assert values(loader) == [[[[8, 9], [4, 5]], [4, 2]], [[[0, 1]], [0]]]
    assert next(iter(loader))[0].device == device
    assert next(iter(DataLoader(dataset, 2, device="cpu")))[0].device == "cpu"


def test_arrays_go_through_worker_and_training_step_alike(device: str) -> None:
    """Uploads ahead of time beside a compiled step: the same weights as without workers."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((96, 8)).astype(np.float32), rng.standard_normal((96, 1)).astype(np.float32)

    def train(workers: int) -> np.ndarray:
        sg.manual_seed(0)
        model = sg.nn.Linear(8, 1).to(device)
        optimizer = sg.optim.SGD(model.parameters(), lr=0.05)

        @sg.compile
        def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
            optimizer.zero_grad()
            loss = sg.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        loader = DataLoader(TensorDataset(x, y), 16, shuffle=True, seed=1, num_workers=workers, device=device)
        for _ in range(5):
            for batch in loader:
                step(*batch)
        return model.weight.detach().numpy()

    assert_same_bits(train(3), train(0))


def test_a_subclass_that_makes_its_samples_differently_is_asked_for_each() -> None:
    class Negative(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return tuple(-a for a in super().__getitem__(index))

    assert values(DataLoader(Negative(np.arange(3)), 3)) == [[[0, -1, -2]]]
    assert values(DataLoader(Subset(Negative(np.arange(3)), [2, 1]), 2)) == [[[-2, -1]]]


@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_and_collate_functions_of_ones_own_are_used(workers: int) -> None:
    dataset = Squares(8, slow=False)
    assert values(DataLoader(dataset, 2, sampler=[3, 1, 2], num_workers=workers))[1] == [[[4, 4]], [2]]
    batches = values(DataLoader(dataset, batch_sampler=[[0, 7], [5]], num_workers=workers))
    assert [indices for _, indices in batches] == [[0, 7], [5]]
    summed = DataLoader(dataset, 4, collate_fn=lambda s: sum(i for _, i in s), num_workers=workers)
    assert list(summed) == [6, 22]
    single = list(DataLoader(dataset, None, num_workers=workers))
    assert len(single) == 8
    assert single[3][0].tolist() == [9, 9]
    assert single[3][1] == 3


def test_samples_asked_for_together_come_from_getitems() -> None:
    class Rows(Dataset):
        def __len__(self) -> int:
            return 4

        def __getitems__(self, rows: list[int]) -> list[int]:
            return [10 * row for row in rows]

    assert values(DataLoader(Rows(), 2)) == [[0, 10], [20, 30]]


def test_only_so_many_batches_are_made_ahead() -> None:
    dataset = Squares(100, slow=False)
    iterator = iter(DataLoader(dataset, 1, num_workers=2, prefetch_factor=3))
    for taken in (1, 2):
        next(iterator)
        assert_soon(lambda enough=taken + 2 * 3: len(dataset.asked) >= enough)
        time.sleep(0.1)  # for more than that
        assert len(dataset.asked) == taken + 2 * 3


@pytest.mark.slow
def test_workers_leave_when_the_loop_breaks() -> None:
    for _ in DataLoader(Squares(1000), 2, num_workers=3):
        assert len(data_threads()) == 3
        break
    gc.collect()
    assert_no_workers_left()
    for _ in DataLoader(Stream(1000), 2, num_workers=3):
        break
    gc.collect()
    assert_no_workers_left()


class Faulty(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 9:
            raise KeyError("sample nine is spoiled")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_workers_exception_is_raised_at_its_place_with_its_traceback(workers: int) -> None:
    iterator = iter(DataLoader(Faulty(), 4, num_workers=workers))
    assert len([next(iterator), next(iterator)]) == 2
    with pytest.raises(KeyError, match="sample nine is spoiled") as caught:
        next(iterator)
    text = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError("sample nine is spoiled")' in text  # the line of the data set
    assert ("in DataLoader worker" in text) == (workers > 0)
    assert "at batch 2" in text or workers == 0
    with pytest.raises(StopIteration):
        next(iterator)
    assert_no_workers_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_in_a_stream_is_raised_after_what_came_before(workers: int) -> None:
    class Broken(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            yield from range(4)
            raise OSError("the tape is torn")

    iterator = iter(DataLoader(Broken(), 2, num_workers=workers))
    assert values([next(iterator), next(iterator)]) == [[0, 1], [2, 3]]
    with pytest.raises(OSError, match="the tape is torn"):
        next(iterator)
    assert_no_workers_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_iteration_in_a_dataset_does_not_end_the_epoch_quietly(workers: int) -> None:
    class Stops(Squares):
        def __getitem__(self, index: int) -> Any:
            raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(DataLoader(Stops(), 2, num_workers=workers))


def test_a_worker_that_takes_too_long_is_a_timeout() -> None:
    release = threading.Event()

    class Stuck(Squares):
        def __getitem__(self, index: int) -> Any:
            release.wait(30)
            return index

    iterator = iter(DataLoader(Stuck(), 2, num_workers=1, timeout=0.2))
    with pytest.raises(LoaderTimeoutError, match=r"timed out after 0\.2 seconds"):
        next(iterator)
    release.set()
    assert_no_workers_left()


def test_a_timeout_error_of_the_dataset_is_its_own() -> None:
    class Remote(Squares):
        def __getitem__(self, index: int) -> Any:
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer") as caught:
        next(iter(DataLoader(Remote(), 2, num_workers=1, timeout=20)))
    assert not isinstance(caught.value, LoaderTimeoutError)


def test_each_worker_begins_with_the_function_given() -> None:
    begun: list[int] = []
    list(DataLoader(Squares(), 2, num_workers=3, worker_init_fn=begun.append))
    assert sorted(begun) == [0, 1, 2]

    def fails(number: int) -> None:
        raise RuntimeError(f"worker {number} has no licence")

    with pytest.raises(RuntimeError, match="has no licence"):
        next(iter(DataLoader(Squares(), 2, num_workers=1, worker_init_fn=fails)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"timeout": -1}, "timeout is -1"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"shuffle": True, "sampler": [0]}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "drop_last"),
        ({"seed": 1, "generator": sg.Generator()}, "give one of them"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DataLoader(Squares(), **options)


def test_unknown_devices_streams_with_an_order_and_lengths_that_lack_are_refused() -> None:
    with pytest.raises(DeviceError, match="mars"):
        DataLoader(Squares(), device="mars")
    with pytest.raises(DataError, match="decides its own order"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(DataError, match="has no length"):
        DataLoader(Dataset())
