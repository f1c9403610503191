"""What programs and libraries ask of a device beside tensors: torch.webgpu, torch.accelerator, streams, memory, other processes, DLPack."""

from __future__ import annotations

import gc
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

D = "webgpu"
CPU: Any = (1, 0)  # as DLPack counts devices


def module() -> Any:
    return torch.get_device_module(D)


def test_the_accelerator_waits_and_counts(torch_device: Any) -> None:
    x = torch.ones(1000, device=D) * 2
    accelerator = torch.accelerator
    accelerator.synchronize()
    assert accelerator.is_available()
    assert (accelerator.device_count(), accelerator.current_device_index()) == (1, 0)
    accelerator.set_device_index(0)
    with accelerator.device_index(0):
        pass
    assert torch.float32 in accelerator.get_device_capability()["supported_dtypes"]
    assert accelerator.memory_stats()["num_ooms"] == 0
    assert accelerator.max_memory_allocated() >= accelerator.memory_allocated() == module().memory_allocated()
    assert accelerator.memory_reserved() <= accelerator.max_memory_reserved()
    for function in ("empty_cache", "empty_host_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        getattr(accelerator, function)()
    assert x.sum().item() == 2000


def test_memory_of_the_gpu_is_counted(webgpu: str, torch_device: Any) -> None:
    from shadergrad.torch.storage import Place

    if Place.device == "cpu":
        pytest.skip("nobody counts the cpu device's arrays")
    gc.collect()  # what other tests left may go at any time
    module().synchronize()
    before = module().memory_allocated()
    x = torch.ones(1 << 16, device=D) + 1
    module().synchronize()
    assert module().memory_allocated() - before >= x.nbytes
    assert module().max_memory_allocated() >= module().memory_allocated()
    assert "allocated_bytes.all.current" in module().memory_summary()


def test_a_second_device_is_refused(torch_device: Any) -> None:
    for function in (
        lambda: torch.accelerator.set_device_index(1),
        lambda: torch.accelerator.synchronize(1),
        lambda: torch.accelerator.device_index(1).__enter__(),
        lambda: module().set_device(1),
    ):
        with pytest.raises(RuntimeError, match="there is one device, webgpu:0"):
            function()


def test_events_time_what_streams_compute(torch_device: Any) -> None:
    begin, end = module().Event(enable_timing=True), module().Event(enable_timing=True)
    begin.record()
    with module().stream(module().Stream()):
        y = torch.ones(8, device=D).exp()
    module().current_stream().wait_stream(module().default_stream())
    end.record(module().current_stream())
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    assert module().current_stream().query()
    assert isinstance(module().current_stream(), torch.Stream)
    y.record_stream(module().current_stream())
    with pytest.raises(RuntimeError, match="an event was not recorded"):
        begin.elapsed_time(module().Event(enable_timing=True))
    with pytest.raises(RuntimeError, match="does not time"):
        begin.elapsed_time(module().Event())


def test_dlpack_gives_a_copy_to_those_who_ask_for_one(torch_device: Any) -> None:
    x = torch.arange(6.0, device=D).reshape(2, 3).t()
    assert tuple(x.__dlpack_device__()) == (15, 0)
    copied = torch.from_dlpack(x.__dlpack__(dl_device=CPU, copy=True, max_version=(1, 0)))
    assert torch.equal(copied, x.cpu())
    assert np.array_equal(np.from_dlpack(x, device="cpu", copy=True), x.cpu().numpy())
    for consumer in (
        x.__dlpack__,
        lambda: torch.utils.dlpack.to_dlpack(x),  # type: ignore[attr-defined]
        lambda: x.__dlpack__(dl_device=CPU, copy=False),
        lambda: np.from_dlpack(x),
    ):
        with pytest.raises((BufferError, RuntimeError), match=r"no address|Unsupported device"):
            consumer()
    assert torch.equal(torch.from_dlpack(np.ones(2, np.float32)).to(D).cpu(), torch.ones(2))
    host = torch.ones(2)
    assert torch.equal(torch.from_dlpack(host), host)


def test_tensors_go_to_other_processes_by_the_host(torch_device: Any) -> None:
    parameter = nn.Parameter(torch.ones(2, device=D), requires_grad=False)
    for x in (torch.arange(3.0, device=D), parameter, torch.arange(4).to(D).reshape(2, 2).t()):
        again = pickle.loads(ForkingPickler.dumps(x))
        assert (type(again), again.device.type, again.requires_grad) == (type(x), D, x.requires_grad)
        assert torch.equal(again.cpu(), x.cpu())
    with pytest.raises(RuntimeError, match="with a history"):
        ForkingPickler.dumps(torch.ones(2, device=D, requires_grad=True) * 2)


@pytest.mark.filterwarnings("ignore:.*page-locked memory")
def test_workers_of_a_loader_feed_the_device(torch_device: Any) -> None:
    loader = torch.utils.data.DataLoader(list(torch.arange(8.0)), batch_size=4, num_workers=1, pin_memory=True)  # type: ignore[arg-type]
    assert [batch.to(D, non_blocking=True).sum().item() for batch in loader] == [6.0, 22.0]


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
def test_the_profiler_names_operators(torch_device: Any) -> None:
    x = torch.ones(3, device=D)
    with torch.profiler.profile() as profile, torch.profiler.record_function("mine"):
        (x + 1).sum().item()
    assert {"aten::add", "aten::sum", "mine"} <= {event.key for event in profile.key_averages()}


def test_an_exported_program_runs_on_the_device(torch_device: Any) -> None:
    layer, x = nn.Linear(3, 2).to(D), torch.ones(4, 3, device=D)
    exported = torch.export.export(layer, (x,))
    torch.testing.assert_close(exported.module()(x).cpu(), layer(x).cpu())


def test_seeds_are_forked(torch_device: Any) -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type=D):
        torch.rand(3, device=D)
    a = torch.rand(3, device=D).cpu()
    torch.manual_seed(1)
    assert torch.equal(a, torch.rand(3, device=D).cpu())


def test_a_release_without_a_private_name_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from shadergrad.torch import TorchVersionError, private

    private.check()
    monkeypatch.setattr(private, "_examine", lambda: iter([("torch._C._gone", lambda: torch._C._gone)]))  # type: ignore[attr-defined]
    with pytest.raises(TorchVersionError, match=r"has no torch\._C\._gone.*tested with PyTorch 2\.13.*pip install"):
        private.check()
