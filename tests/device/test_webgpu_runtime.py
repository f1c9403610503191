"""The webgpu device against hand-written plans: values, reuse, limits, errors, loss, and a quiet exit.

Any adapter will do (llvmpipe does). Without one the device tests skip; with SHADERGRAD_REQUIRE_WEBGPU=1 they fail.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shadergrad.config import Config, ConfigError, config
from shadergrad.dtypes import DType, bfloat16, bool_, complex64, float16, float32, float64, int32, int64, uint32
from shadergrad.errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    DTypeError,
    LimitError,
    OutOfMemoryError,
)
from shadergrad.plan import BufferSpec, Dispatch, Kernel, Plan
from shadergrad.runtime import adapters, staging
from shadergrad.runtime import webgpu as webgpu_module
from shadergrad.runtime.device import Storage, get_device
from shadergrad.runtime.interface import NativeError
from shadergrad.runtime.memory import Buffer, Bundle, MemoryPool, size_class
from shadergrad.runtime.staging import CHUNK, LENT, RING
from shadergrad.runtime.targets import target_with
from shadergrad.runtime.webgpu import WebGPUDevice
from shadergrad.target import ROWS, Matrices, Target

SOURCE = Path(__file__).parents[2] / "src"
N = 64

ADD = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) { out[id.x] = x[id.x] + y[id.x]; }
"""
SAXPY = ADD.replace("= x[id.x]", "= 2.0 * x[id.x]")
INCREMENT = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) { out[id.x] = x[id.x] + 1.0; }
"""
UPDATE = """
@group(0) @binding(0) var<storage, read_write> p: array<f32>;
@group(0) @binding(1) var<storage, read> g: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) { p[id.x] = p[id.x] - g[id.x]; }
"""
NEGATE_BOOL = """
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) { out[id.x] = 1u - x[id.x]; }
"""

ADD_KERNEL = Kernel("add", "map", ("read", "read", "read_write"), ADD)
SAXPY_KERNEL = Kernel("saxpy", "map", ("read", "read", "read_write"), SAXPY)
INCREMENT_KERNEL = Kernel("increment", "map", ("read", "read_write"), INCREMENT)
UPDATE_KERNEL = Kernel("update", "map", ("read_write", "read"), UPDATE)

REHEARSED = """
import os, time
from shadergrad.plan import Kernel
from shadergrad.runtime.device import get_device

def kernel(seed):
    lines = "".join(f"a[{i % 16}] = fma(a[{(i * 7 + seed) % 16}], x[(id.x + {i * 3 + seed}u) % 64u], {i * 0.37 + seed});" for i in range(200))
    return Kernel("k", "map", ("read", "read_write"), "@group(0) @binding(0) var<storage, read> x: array<f32>;"
        "@group(0) @binding(1) var<storage, read_write> y: array<f32>; @compute @workgroup_size(64)"
        "fn main(@builtin(global_invocation_id) id: vec3u) { var a: array<f32, 16>;" + lines + "y[id.x] = a[id.x % 16]; }")

device = get_device("webgpu")
one, two = device._compiler.rehearsal._open(), device._compiler.rehearsal._open()
times = [one.dispatch(kernel(1))]
end = time.monotonic() + 30
while time.monotonic() < end and not any(files for *_, files in os.walk(os.environ["MESA_SHADER_CACHE_DIR"])):
    time.sleep(0.1)
time.sleep(0.5)
times += [two.dispatch(kernel(1)), two.dispatch(kernel(2))]
one.close(), two.close()
print(*times)
"""


def spec(role: Any, shape: tuple[int, ...] = (N,), dtype: DType = float32, **more: Any) -> BufferSpec:
    return BufferSpec(role, shape, dtype, **more)


def plan_of(
    buffers: list[BufferSpec],
    kernels: list[Kernel],
    dispatches: list[Dispatch],
    outputs: tuple[int, ...],
    slots: tuple[int, ...] = (),
    target: Target | None = None,
) -> Plan:
    inputs = tuple(i for i, b in enumerate(buffers) if b.role == "argument")
    target = target or Target("wgsl")
    return Plan(target, tuple(buffers), tuple(kernels), tuple(dispatches), inputs, outputs, slots)


def increments(count: int) -> Plan:
    """x + count, one dispatch each, through two temporaries that take turns."""
    temporaries = [spec("temporary", slot=i % 2) for i in range(count - 1)]
    buffers = [spec("argument"), *temporaries, spec("result")]
    dispatches = [Dispatch(0, (i, i + 1)) for i in range(count)]
    return plan_of(buffers, [INCREMENT_KERNEL], dispatches, (count,), (4 * N, 4 * N))


def training_step() -> Plan:
    """p -= g in place, and p + g as the loss."""
    buffers = [spec("argument"), spec("argument"), spec("result", aliases=0), spec("result")]
    dispatches = [Dispatch(0, (2, 1)), Dispatch(1, (2, 1, 3))]
    return plan_of(buffers, [UPDATE_KERNEL, ADD_KERNEL], dispatches, (2, 3))


def saxpy_plan() -> Plan:
    return plan_of([spec("argument"), spec("argument"), spec("result")], [SAXPY_KERNEL], [Dispatch(0, (0, 1, 2))], (2,))


def put(device: WebGPUDevice, value: float | np.ndarray = 0.0, n: int = N) -> Storage:
    return device.upload(np.broadcast_to(np.float32(value), (n,)).copy(), float32)


def get(storage: Storage, n: int = N) -> np.ndarray:
    return storage.device.download(storage, (n,), float32)


@pytest.fixture
def device(webgpu: str) -> Any:
    """One device for all tests that leave it whole."""
    return get_device(webgpu)


@pytest.fixture
def make_device(webgpu: str) -> Iterator[Any]:
    """Devices of one's own, with changed settings; destroyed afterwards."""
    made: list[WebGPUDevice] = []

    def make(**settings: Any) -> WebGPUDevice:
        made.append(WebGPUDevice(0, replace(config, **settings)))
        return made[-1]

    yield make
    for device in made:
        device.destroy()


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    variables.pop("XDG_RUNTIME_DIR", None)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=variables)


class TestUploadAndDownload:
    @pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0,), (3, 0), (100_003,)])
    def test_floats_come_back_as_they_went(self, device: WebGPUDevice, shape: tuple[int, ...]) -> None:
        values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        back = device.download(device.upload(values, float32), shape, float32)
        assert back.dtype == np.float32
        assert back.shape == shape
        np.testing.assert_array_equal(back, values)

    @pytest.mark.parametrize("dtype", [int32, uint32])
    def test_integers_come_back_as_they_went(self, device: WebGPUDevice, dtype: DType) -> None:
        values = np.array([0, 1, 2**31 - 1, 7], dtype.numpy)
        np.testing.assert_array_equal(device.download(device.upload(values, dtype), (4,), dtype), values)

    @pytest.mark.parametrize("n", [0, 1, 3, 1000])
    def test_booleans_are_stored_as_u32_and_come_back_as_booleans(self, device: WebGPUDevice, n: int) -> None:
        values = np.random.default_rng(0).random(n) < 0.5
        storage = device.upload(values, bool_)
        back = device.download(storage, (n,), bool_)
        assert storage.nbytes == max(4, 4 * n)
        assert back.dtype == np.bool_
        np.testing.assert_array_equal(back, values)

    @pytest.mark.parametrize("n", [0, 1, 3, 64])
    @pytest.mark.parametrize("dtype", [bool_, int32, int64, float32, float16, bfloat16], ids=lambda d: d.name)
    def test_a_read_that_is_begun_gives_what_a_whole_one_does(self, device: WebGPUDevice, dtype: DType, n: int) -> None:
        values = np.arange(n).astype(dtype.numpy)
        storage = device.upload(values, dtype)
        (part,) = device.begin_download(storage, (n,), dtype)
        device.write(storage, np.zeros(n, dtype.numpy), dtype)  # later than what was begun
        back = part.finish()
        assert back.dtype == values.dtype
        np.testing.assert_array_equal(back, values)

    @pytest.mark.parametrize("dtype", [int32, float32, float16, bool_], ids=lambda d: d.name)
    def test_a_read_and_a_write_in_parts_are_those_of_the_whole(
        self, device: WebGPUDevice, dtype: DType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(webgpu_module, "PART", 64)
        monkeypatch.setattr(webgpu_module, "STAGED", 1)
        monkeypatch.setattr(staging, "CHUNK", 32)
        monkeypatch.setattr(staging, "MOST_BEGUN", 128)  # more than is taken in before something is submitted
        values = (np.arange(333).reshape(3, 111) % 7).astype(dtype.numpy)
        parts = device.begin_download(device.upload(values, dtype), values.shape, dtype)
        assert len(parts) == -(-333 * np.dtype(dtype.stored).itemsize // 64)
        filling = device.begin_upload(values.shape, dtype)
        for part in reversed(parts):
            while not part.is_ready():
                pass
            filling.put(part.first, part.finish())
        between = device.upload(values[0], dtype)  # takes the same staging memory
        back = device.download(filling.done(), values.shape, dtype)
        np.testing.assert_array_equal(back, values)
        np.testing.assert_array_equal(device.download(between, (111,), dtype), values[0])

    def test_what_was_taken_in_for_a_tensor_that_is_gone_reaches_no_other(
        self, device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(webgpu_module, "STAGED", 1)
        filling = device.begin_upload((4096,), float32)
        filling.put(0, np.ones(4096, np.float32))
        del filling  # as after an error of another process
        monkeypatch.setattr(webgpu_module, "STAGED", 1 << 30)
        storage = device.upload(np.zeros(4096, np.float32), float32)
        device.end_writes()
        assert not device.download(storage, (4096,), float32).any()

    def test_a_shader_sees_booleans_as_zero_and_one(self, device: WebGPUDevice) -> None:
        kernel = Kernel("not", "map", ("read", "read_write"), NEGATE_BOOL)
        buffers = [spec("argument", dtype=bool_), spec("result", dtype=bool_)]
        program = device.load(plan_of(buffers, [kernel], [Dispatch(0, (0, 1))], (1,)))
        values = np.arange(N) % 3 == 0
        (out,) = program.run([device.upload(values, bool_)])
        np.testing.assert_array_equal(device.download(out, (N,), bool_), ~values)

    def test_reads_larger_than_a_staging_buffer_come_in_chunks(self, device: WebGPUDevice) -> None:
        values = np.random.default_rng(0).integers(0, 2**31, 11_000_003).astype(np.int32)  # 42 MiB, an odd count
        storage = device.upload(values, int32)
        np.testing.assert_array_equal(device.download(storage, values.shape, int32), values)
        np.testing.assert_array_equal(device.download(storage, (3,), int32), values[:3])

    def test_an_array_that_is_gone_leaves_its_memory_to_the_next_and_one_that_is_seen_keeps_it(
        self, device: WebGPUDevice
    ) -> None:
        n = LENT // 4 + 1
        storages = [put(device, value, n) for value in (1.0, 2.0, 3.0)]
        first = get(storages[0], n)
        address, part = first.ctypes.data, first.reshape(1, n)[:, 1:3]
        del first
        second = get(storages[1], n)
        assert second.ctypes.data != address
        second += part[0, 0]  # writable
        assert (part.tolist(), second[-1]) == ([[1.0, 1.0]], 3.0)
        del part
        third = get(storages[2], n)
        assert third.ctypes.data == address
        assert (third == 3.0).all()

    def test_large_writes_take_turns_in_staging_buffers_and_keep_what_was_there(
        self, make_device: Callable[..., Any]
    ) -> None:
        device, n = make_device(), CHUNK // 4 + 5
        values = np.arange(n, dtype=np.int32)
        storages = []
        for k in range(2 * RING):
            values[:] = np.arange(k, k + n)
            storages.append(device.upload(values, int32))
        values[:] = 0  # each upload has the values of its time
        device.write(storages[0], values, int32)
        before = device.statistics().submits
        for k, storage in enumerate(storages):
            expected = np.arange(k, k + n) if k else values
            np.testing.assert_array_equal(device.download(storage, (n,), int32), expected)
        assert device.statistics().submits - before == 2 * len(storages)  # a copy for each chunk
        assert len(device._uploads.abandon()) == len(device._readback.abandon()) == RING

    def test_write_overwrites_after_the_work_submitted_so_far(self, device: WebGPUDevice) -> None:
        storage = put(device, 1.0)
        (before,) = device.load(increments(3)).run([storage])
        device.write(storage, np.full(N, 7, np.float32), float32)
        assert get(before)[0] == 4
        assert get(storage)[0] == 7

    def test_write_of_another_size_is_refused(self, device: WebGPUDevice) -> None:
        with pytest.raises(DeviceError, match="cannot write 8 bytes over a storage of 256"):
            device.write(put(device), np.zeros(2, np.float32), float32)

    @pytest.mark.parametrize("dtype", [float64, complex64])
    def test_other_dtypes_are_refused_with_a_remedy(self, device: WebGPUDevice, dtype: DType) -> None:
        with pytest.raises(DTypeError, match=rf"{dtype.name} cannot be stored(.|\n)*Hint: convert on the host"):
            device.upload(np.zeros(4, dtype.numpy), dtype)
        with pytest.raises(DTypeError, match=dtype.name):
            device.download(put(device), (4,), dtype)


class TestPrograms:
    def test_saxpy(self, device: WebGPUDevice) -> None:
        x, y = np.arange(N, dtype=np.float32), np.full(N, 0.5, np.float32)
        (out,) = device.load(saxpy_plan()).run([put(device, x), put(device, y)])
        np.testing.assert_array_equal(get(out), 2 * x + y)

    def test_one_storage_may_be_read_through_two_rows(self, device: WebGPUDevice) -> None:
        x = put(device, 3.0)
        (out,) = device.load(saxpy_plan()).run([x, x])
        assert get(out)[0] == 9

    def test_an_aliasing_output_is_the_input_storage_updated_in_place(self, device: WebGPUDevice) -> None:
        parameter, gradient = put(device, 10.0), put(device, 1.0)
        program = device.load(training_step())
        for step in range(1, 4):
            updated, loss = program.run([parameter, gradient])
            assert updated is parameter
            assert get(parameter)[0] == 10 - step
            assert get(loss)[0] == 11 - step

    def test_a_storage_that_is_both_read_and_overwritten_is_copied_aside(self, device: WebGPUDevice) -> None:
        both = put(device, 5.0)
        updated, loss = device.load(training_step()).run([both, both])
        assert updated is both
        assert get(both)[0] == 0  # p - p
        assert get(loss)[0] == 5  # p + g: g still has its old value

    def test_a_storage_that_two_outputs_overwrite_becomes_two(self, device: WebGPUDevice) -> None:
        buffers = [spec("argument")] * 3 + [spec("result", aliases=0), spec("result", aliases=1)]
        dispatches = [Dispatch(0, (3, 2)), Dispatch(0, (4, 2)), Dispatch(0, (4, 2))]
        program = device.load(plan_of(buffers, [UPDATE_KERNEL], dispatches, (3, 4)))
        same, one = put(device, 10.0), put(device, 1.0)
        first, second = program.run([same, same, one])
        assert first is same
        assert second is not same
        assert (get(first)[0], get(second)[0]) == (9, 8)

    def test_temporaries_share_slots(self, device: WebGPUDevice) -> None:
        program = device.load(increments(7))
        (out,) = program.run([put(device, 1.0)])
        assert get(out)[0] == 8
        assert len(program._slots) == 2

    def test_temporaries_have_memory_before_the_first_run_where_a_driver_finds_it_late(
        self, make_device: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        device = make_device()
        monkeypatch.setattr(WebGPUDevice, "gives_memory_late", True)
        monkeypatch.setattr("shadergrad.runtime.program.MUCH", 8 * N + 1)
        before = device.statistics()
        device.load(increments(7))  # of few bytes
        assert device.statistics().submits == before.submits
        monkeypatch.setattr("shadergrad.runtime.program.MUCH", 8 * N)
        x = put(device, 1.0)
        program = device.load(increments(7))
        cleared = device.statistics()
        assert cleared.submits > before.submits
        (out,) = program.run([x])
        assert get(out)[0] == 8
        assert device.statistics().buffers_allocated == cleared.buffers_allocated + 1  # the result

    def test_temporaries_that_find_no_memory_at_load_are_an_error_of_the_run(
        self, make_device: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WebGPUDevice, "gives_memory_late", True)
        monkeypatch.setattr("shadergrad.runtime.program.MUCH", 0)
        device = make_device(memory_limit=2 * size_class(4 * N))
        program, x = device.load(increments(7)), put(device, 1.0)
        with pytest.raises(OutOfMemoryError):
            program.run([x])

    def test_a_temporary_without_a_slot_has_memory_of_its_own(self, device: WebGPUDevice) -> None:
        buffers = [spec("argument"), spec("temporary"), spec("temporary"), spec("result")]
        dispatches = [Dispatch(0, (0, 1)), Dispatch(0, (1, 2)), Dispatch(1, (1, 2, 3))]
        program = device.load(plan_of(buffers, [INCREMENT_KERNEL, ADD_KERNEL], dispatches, (3,)))
        (out,) = program.run([put(device, 0.0)])
        assert get(out)[0] == 3

    def test_an_output_that_is_an_input_row_comes_back_as_it_came(self, device: WebGPUDevice) -> None:
        plan = plan_of([spec("argument"), spec("result")], [INCREMENT_KERNEL], [Dispatch(0, (0, 1))], (1, 0, 1))
        x = put(device, 2.0)
        first, passed, again = device.load(plan).run([x])
        assert passed is x
        assert again is first
        assert get(first)[0] == 3

    def test_a_plan_without_dispatches_submits_nothing(self, device: WebGPUDevice) -> None:
        program = device.load(plan_of([spec("argument")], [], [], (0,)))
        before = device.statistics().submits
        x = put(device)
        assert program.run([x]) == [x]
        assert device.statistics().submits == before

    def test_empty_grids_are_left_out(self, device: WebGPUDevice) -> None:
        buffers = [spec("argument", (0,)), spec("result", (0,))]
        plan = plan_of(buffers, [INCREMENT_KERNEL], [Dispatch(0, (0, 1), (0, 1, 1))], (1,))
        (out,) = device.load(plan).run([device.upload(np.zeros(0, np.float32), float32)])
        assert device.download(out, (0,), float32).shape == (0,)

    def test_many_threads_get_right_answers(self, device: WebGPUDevice) -> None:
        program = device.load(increments(5))
        wrong: list[float] = []

        def work(start: float) -> None:
            for _ in range(20):
                (out,) = program.run([put(device, start)])
                if get(out)[0] != start + 5:
                    wrong.append(start)

        threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_wrong_inputs_are_refused(self, device: WebGPUDevice, make_device: Any) -> None:
        program = device.load(saxpy_plan())
        with pytest.raises(DeviceError, match="takes 2 inputs, and got 1"):
            program.run([put(device)])
        with pytest.raises(
            DeviceError, match=r"input 1 has 4 bytes; the plan wants 256, for argument of shape \(64,\)"
        ):
            program.run([put(device), put(device, n=1)])
        with pytest.raises(DeviceError, match="Move it first"):
            program.run([put(device), put(make_device())])

    def test_a_plan_for_the_cpu_is_refused(self, device: WebGPUDevice) -> None:
        with pytest.raises(CompileError, match="compiled for the cpu device"):
            device.load(plan_of([spec("argument")], [], [], (0,), target=Target("numpy")))

    @pytest.mark.parametrize("aliases", [(0, 0), (0, 3)])
    def test_inconsistent_aliases_are_refused(self, device: WebGPUDevice, aliases: tuple[int, int]) -> None:
        buffers = [spec("argument"), spec("argument"), *(spec("result", aliases=a) for a in aliases)]
        with pytest.raises(CompileError, match="may alias distinct inputs"):
            device.load(plan_of(buffers, [], [], (2, 3)))


class TestReuse:
    def test_a_training_loop_allocates_and_binds_nothing_after_its_first_steps(self, device: WebGPUDevice) -> None:
        program = device.load(training_step())
        batch = np.zeros(N, np.float32)
        parameter = loss = put(device, 1.0)
        warm = device.statistics()
        for step in range(110):
            if step == 10:
                warm = device.statistics()
            gradient = device.upload(batch, float32)  # a fresh storage every step, as data loaders give
            (parameter, loss) = program.run([parameter, gradient])  # the old loss is still held
        after = device.statistics()
        assert get(loss)[0] == 1
        assert after.buffers_allocated == warm.buffers_allocated
        assert after.bind_groups_created == warm.bind_groups_created
        assert after.submits - warm.submits == 100
        assert after.dispatches - warm.dispatches == 200

    def test_dispatches_with_the_same_buffers_share_a_bind_group(self, device: WebGPUDevice) -> None:
        before = device.statistics().bind_groups_created
        device.load(increments(101)).run([put(device)])
        assert device.statistics().bind_groups_created - before == 4  # in-0, 0-1, 1-0, 1-out

    def test_the_same_kernel_is_compiled_once(self, device: WebGPUDevice) -> None:
        device.load(increments(3))
        before = device.statistics().pipelines
        device.load(increments(4))
        assert device.statistics().pipelines == before

    def test_what_was_begun_before_the_load_is_not_compiled_again(self, make_device: Any, monkeypatch: Any) -> None:
        device = make_device()
        made: list[str] = []
        create = device.native.create_pipeline
        monkeypatch.setattr(
            device.native, "create_pipeline", lambda source, *more: (made.append(source), create(source, *more))[1]
        )
        with device.compiling() as begin:
            begin(INCREMENT_KERNEL)
            begin(INCREMENT_KERNEL)
            device._compiler.wait_begun()
            assert len(made) == 1
            program = device.load(increments(2))
        (out,) = program.run([put(device, 1.0)])
        assert get(out)[0] == 3
        assert len(made) == 1

    def test_kernels_are_rehearsed_before_a_program_has_them_and_not_again(self, make_device: Any) -> None:
        device = make_device()
        asked: list[list[Kernel]] = []

        class Recorder:
            def run(self, kernels: list[Kernel], threads: Any) -> None:
                asked.append(list(kernels))

        device._compiler.rehearsal = Recorder()
        device.load(training_step())
        device.load(training_step())
        assert asked == [[UPDATE_KERNEL, ADD_KERNEL]]

    @pytest.mark.slow
    def test_llvmpipe_finds_on_disk_what_no_workgroups_of_another_device_compiled(
        self, device: WebGPUDevice, tmp_path: Path
    ) -> None:
        """What runtime/rehearsal.py rests on. The times are of a second and of milliseconds."""
        if device._compiler.rehearsal is None:
            pytest.skip("another driver, or a single core")
        done = run_python(REHEARSED, MESA_SHADER_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        first, again, another = map(float, done.stdout.split())
        assert again < first / 4, done.stdout
        assert again < another / 4, done.stdout  # which nobody had dispatched

    def test_what_was_begun_in_vain_leaves_no_error(self, make_device: Any) -> None:
        device = make_device()
        bad = replace(INCREMENT_KERNEL, source="no WGSL")
        plan = plan_of([spec("argument"), spec("result")], [bad], [Dispatch(0, (0, 1))], (1,))
        with suppress(KeyError), device.compiling() as begin:
            begin(bad)
            raise KeyError
        assert not device._compiler.under_way  # waited for, and gone
        device.synchronize()
        with device.compiling() as begin:
            begin(bad)
            begin(INCREMENT_KERNEL)
            with pytest.raises(CompileError, match="does not compile"):
                device.load(plan)
        (out,) = device.load(increments(1)).run([put(device)])
        assert get(out)[0] == 1

    def test_freed_storage_goes_back_to_the_pool_and_empty_cache_frees_the_pool(self, make_device: Any) -> None:
        device = make_device()
        storage = put(device, n=1000)
        assert device.statistics().bytes_in_use == 4096
        del storage
        gc.collect()
        statistics = device.statistics()
        assert (statistics.bytes_in_use, statistics.bytes_pooled, statistics.peak_bytes) == (0, 4096, 4096)
        device.empty_cache()
        assert device.statistics().bytes_pooled == 0

    def test_programs_survive_empty_cache(self, device: WebGPUDevice) -> None:
        program = device.load(increments(5))
        x = put(device, 1.0)
        for _ in range(3):
            (out,) = program.run([x])
            assert get(out)[0] == 6
            del out
            device.empty_cache()

    def test_small_temporaries_of_two_programs_stay_theirs(self, make_device: Any) -> None:
        device = make_device()
        at_first = device.statistics().buffers_allocated
        first, second = device.load(increments(4)), device.load(increments(6))
        x = put(device, 0.0)
        warm = device.statistics()
        for step in range(30):
            if step == 10:
                warm = device.statistics()
            (a,) = first.run([x])
            (b,) = second.run([x])
            assert (get(a)[0], get(b)[0]) == (4, 6)
        after = device.statistics()
        # x, two slots of each, an output of each, and a third while the old one is held
        assert after.buffers_allocated - at_first == 8
        assert after.bind_groups_created == warm.bind_groups_created

    def test_a_dropped_program_releases_its_bind_groups(self, device: WebGPUDevice) -> None:
        program = device.load(increments(3))
        program.run([put(device)])
        del program
        gc.collect()
        assert device.native._graveyard  # type: ignore[attr-defined]
        device.empty_cache()
        assert not device.native._graveyard  # type: ignore[attr-defined]

    def test_freed_memory_releases_the_bind_groups_of_it(self, device: WebGPUDevice) -> None:
        program, x = device.load(increments(3)), put(device)
        program.run([x])
        gc.collect()
        assert device.statistics().bind_groups > 0
        device.empty_cache()  # of the result and of temporaries
        program.run([x])
        gc.collect()
        after_one = device.statistics().bind_groups
        for _ in range(3):
            device.empty_cache()
            program.run([x])
        gc.collect()
        assert device.statistics().bind_groups <= after_one

    def test_no_more_than_in_flight_submissions_are_under_way(self, make_device: Any) -> None:
        device = make_device(in_flight=2)
        program, x = device.load(increments(50)), put(device)
        for _ in range(20):
            program.run([x])
            assert device.statistics().in_flight <= 2
        device.synchronize()
        assert device.statistics().in_flight == 0


class TestHeldRuns:
    """Small runs that follow each other share submissions; nobody can tell but by counting."""

    @staticmethod
    def submissions(device: WebGPUDevice, runs: Callable[[], Any]) -> int:
        before = device.statistics().submits
        runs()
        return device.statistics().submits - before

    def test_the_first_goes_at_once_then_two_four_and_eight_together_and_later_a_quarter_of_those_before(
        self, device: WebGPUDevice
    ) -> None:
        program, parameter, gradient = device.load(training_step()), put(device, 0.0), put(device, 1.0)

        def run() -> None:
            program.run([parameter, gradient])

        alone = self.submissions(device, lambda: get(parameter))
        ends = (1, 3, 7, 15, 23, 31, 39, 48, 60, 75, 93, 116, 145, 177, 209)
        assert [self.submissions(device, run) for _ in range(209)] == [int(k in ends) for k in range(1, 210)]
        run()
        assert self.submissions(device, lambda: get(parameter)) == alone, "what waits goes with the copy to read"
        assert get(parameter)[0] == -210
        assert self.submissions(device, run) == 1, "the first after a read does not wait"

    def test_a_run_of_much_work_or_many_dispatches_never_waits(self, device: WebGPUDevice) -> None:
        kernels = [replace(k, flops=10**10) for k in (UPDATE_KERNEL, ADD_KERNEL)]
        program = device.load(replace(training_step(), kernels=tuple(kernels)))
        inputs = [put(device, 0.0), put(device, 1.0)]
        assert self.submissions(device, lambda: [program.run(inputs) for _ in range(5)]) == 5
        program = device.load(increments(240))
        assert self.submissions(device, lambda: [program.run(inputs[:1]) for _ in range(5)]) == 5

    def test_a_write_comes_after_the_runs_before_it(self, device: WebGPUDevice) -> None:
        program, parameter, gradient = device.load(training_step()), put(device, 0.0), put(device, 1.0)
        large = np.zeros(1 << 20, np.float32)
        for value in (10.0, 100.0, 1000.0):
            for _ in range(4):
                program.run([parameter, gradient])
            device.write(gradient, np.full(N, value, np.float32), float32)
        assert get(parameter)[0] == -4 * (1 + 10 + 100)
        storage = device.load(increments(1)).run([put(device, 5.0, large.size)])[0]
        device.write(storage, np.full(N, 7.0, np.float32), float32)
        assert get(storage)[0] == 7

    def test_what_waits_is_done_although_program_and_buffers_are_gone(self, device: WebGPUDevice) -> None:
        parameter, gradient = put(device, 0.0), put(device, 1.0)
        device.synchronize()
        for _ in range(6):
            program = device.load(training_step())
            program.run([parameter, gradient])
            program.unload()
            del program
            gc.collect()
            device.load(increments(2)).run([put(device)])  # releases what nobody holds
        program = device.load(training_step())
        for _ in range(2):
            program.run([parameter, gradient])
        device.empty_cache()
        program.run([parameter, gradient])
        assert get(parameter)[0] == -9

    def test_an_interrupt_loses_none(self, device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        program, parameter, gradient = device.load(training_step()), put(device, 0.0), put(device, 1.0)
        device.synchronize()
        for _ in range(2):
            program.run([parameter, gradient])
        native = device.native
        left = iter(range(1))  # dispatches until the user presses Ctrl-C

        class Interrupted:
            def __getattr__(self, name: str) -> Any:
                function = getattr(lib, name)
                if name != "wgpuComputePassEncoderDispatchWorkgroups":
                    return function

                def dispatch(*arguments: Any) -> None:
                    function(*arguments)
                    if next(left, None) is None:
                        raise KeyboardInterrupt

                return dispatch

        lib = native.lib  # type: ignore[attr-defined]
        with monkeypatch.context() as patch:
            patch.setattr(native, "lib", Interrupted())
            with pytest.raises(KeyboardInterrupt):
                native.submit_held()
        assert get(parameter)[0] == -2

    def test_what_waits_when_the_device_is_lost_is_lost_with_it(self, make_device: Any) -> None:
        device = make_device()
        program, parameter, gradient = device.load(training_step()), put(device, 0.0), put(device, 1.0)
        device.synchronize()
        for _ in range(3):
            program.run([parameter, gradient])
        device._lose("it was unplugged")
        with pytest.raises(DeviceLostError):
            get(parameter)
        assert device.reset()
        parameter, gradient = put(device, 0.0), put(device, 1.0)
        for _ in range(3):
            program.run([parameter, gradient])
        assert get(parameter)[0] == -3


class TestBoundedCaches:
    """What many different plans leave behind. Each plan has a kernel of its own, by a comment in its text: not a number,
    for texts that differ in numbers alone become one."""

    @staticmethod
    def plans(count: int) -> list[Plan]:
        kernels = [replace(INCREMENT_KERNEL, source=f"{INCREMENT}// {'x' * i}.") for i in range(count)]
        return [replace(increments(2), kernels=(kernel,)) for kernel in kernels]

    def test_pipelines_keep_to_their_limit_and_come_back_when_they_are_wanted(self, make_device: Any) -> None:
        device = make_device(pipeline_memory=1 << 20)  # nine of these on a software adapter, more on a GPU
        programs, x = [device.load(plan) for plan in self.plans(40)], put(device, 1.0)
        for _ in range(2):
            for program in programs:
                (out,) = program.run([x])
                assert get(out)[0] == 3
                statistics = device.statistics()
                assert statistics.pipelines <= (9 if device.adapter.type == "software" else 19)
                assert statistics.pipeline_bytes <= 1 << 20

    def test_the_least_recently_run_goes_first(self, make_device: Any, monkeypatch: Any) -> None:
        device = make_device(pipeline_memory=1 << 20)
        made: list[str] = []
        create = device.native.create_pipeline
        monkeypatch.setattr(
            device.native, "create_pipeline", lambda source, *more: (made.append(source), create(source, *more))[1]
        )
        often, *others = (device.load(plan) for plan in self.plans(20))
        x = out = put(device, 1.0)
        made.clear()
        for program in others:
            program.run([x])
            (out,) = often.run([x])
        assert get(out)[0] == 3
        assert sum(source.endswith("// .") for source in made) == 1, "compiled anew once, as loading the others took it"

    def test_a_program_that_exceeds_the_limit_runs_all_the_same(self, make_device: Any) -> None:
        device = make_device(pipeline_memory=1)
        *three, other = self.plans(4)
        many = replace(
            increments(3),
            kernels=tuple(plan.kernels[0] for plan in three),
            dispatches=tuple(replace(d, kernel=i) for i, d in enumerate(increments(3).dispatches)),
        )
        programs, x = [device.load(many), device.load(other)], put(device, 1.0)
        for _ in range(2):
            assert [get(program.run([x])[0])[0] for program in programs] == [4, 3]
        assert device.statistics().pipelines == 1

    def test_bind_groups_keep_to_their_limit(self, make_device: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr("shadergrad.runtime.webgpu.MOST_BIND_GROUPS", 16)
        device = make_device()
        programs, x = [device.load(plan) for plan in self.plans(12)], put(device, 1.0)
        for _ in range(2):
            for program in programs:
                (out,) = program.run([x])
                assert get(out)[0] == 3
                assert device.statistics().bind_groups <= 16


class TestOutOfMemory:
    def test_the_memory_limit_raises_an_error_that_teaches(self, make_device: Any) -> None:
        device = make_device(memory_limit=1 << 20)
        keep = [put(device, n=100_000), put(device, n=100_000)]
        with pytest.raises(OutOfMemoryError) as error:
            put(device, n=100_000)
        text = str(error.value)
        assert "asked for 390.6 KiB" in text
        assert "in use in 2 buffers" in text
        assert "the limit is 1 MiB (SHADERGRAD_MEMORY_LIMIT)" in text
        assert "largest live buffers: 416 KiB, 416 KiB" in text
        assert "Hint: take a smaller batch" in text
        keep.pop()
        assert get(put(device, 3.0, n=100_000), 100_000)[0] == 3  # caught, and life goes on

    def test_pooled_memory_makes_room_before_anything_fails(self, make_device: Any) -> None:
        device = make_device(memory_limit=1 << 20)
        put(device, n=100_000)
        big = put(device, 4.0, n=200_000)
        assert get(big, 200_000)[-1] == 4

    def test_garbage_in_cycles_makes_room(self, make_device: Any) -> None:
        device = make_device(memory_limit=1 << 20)
        gc.disable()
        try:
            cycle: list[Any] = [put(device, n=200_000)]
            cycle.append(cycle)
            del cycle
            put(device, n=200_000)
        finally:
            gc.enable()

    def test_a_run_that_fails_gives_back_what_it_took(self, make_device: Any) -> None:
        device = make_device(memory_limit=1 << 20)
        buffers = [spec("argument"), spec("result", (100_000,)), spec("result", (200_000,))]
        program, x = device.load(plan_of(buffers, [], [], (1, 2))), put(device)
        before = device.statistics().bytes_in_use
        with pytest.raises(OutOfMemoryError):
            program.run([x])
        assert device.statistics().bytes_in_use == before

    def test_an_absurd_size_is_out_of_memory_at_load(self, device: WebGPUDevice) -> None:
        plan = plan_of([spec("result", (1 << 50,))], [], [], (0,))
        with pytest.raises(OutOfMemoryError, match=r"asked for 4096.0 TiB(.|\n)*one buffer holds at most"):
            device.load(plan)

    def test_an_exhausted_driver_gets_its_pool_back_first(self, make_device: Any, monkeypatch: Any) -> None:
        device = make_device()
        create = device.native.create_buffer

        def scarce(nbytes: int, *usage: int) -> Any:
            if device.memory.bytes_pooled:
                raise NativeError("Not enough memory left.", out_of_memory=True)
            return create(nbytes, *usage)

        put(device, n=1000)
        monkeypatch.setattr(device.native, "create_buffer", scarce)
        assert get(put(device, 2.0, n=5000), 5000)[0] == 2

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
    @pytest.mark.slow
    def test_a_driver_that_is_really_out_of_memory_raises_and_recovers(self, device: WebGPUDevice) -> None:
        if not device.adapter.compiles_at_dispatch:
            pytest.skip("only the memory of llvmpipe under Vulkan can be limited from here; OpenGL allocates late")
        code = """
import resource
from shadergrad.errors import OutOfMemoryError
from shadergrad.runtime.staging import CHUNK, LENT, RING
from shadergrad.runtime.webgpu import WebGPUDevice
device = WebGPUDevice()
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
keep = []
try:
    for _ in range(20):
        keep.append(device.allocate(1 << 30))
except OutOfMemoryError as error:
    print(error)
keep.clear()
print(device.allocate(1 << 30).nbytes)
"""
        done = run_python(code, SHADERGRAD_PROFILE="", SHADERGRAD_MEMORY_LIMIT="")
        assert done.returncode == 0, done.stderr
        assert "the adapter has no more to give" in done.stdout
        assert done.stdout.endswith(f"{1 << 30}\n")


class TestLimits:
    def test_a_binding_beyond_the_limit_names_the_buffer_and_the_remedy(self, make_device: Any) -> None:
        device = make_device(portable=True)
        assert device.target.max_binding_bytes == 128 << 20
        buffers = [spec("argument", (6000, 6000), name="weight")]
        expected = r"argument 'weight' of shape \(6000, 6000\), float32, needs 137.3 MiB(.|\n)*128 MiB(.|\n)*Hint:"
        with pytest.raises(LimitError, match=expected):
            device.load(plan_of(buffers, [], [], (0,)))

    def test_too_many_workgroups_are_refused(self, device: WebGPUDevice) -> None:
        plan = plan_of(
            [spec("argument"), spec("result")], [INCREMENT_KERNEL], [Dispatch(0, (0, 1), (70_000, 1, 1))], (1,)
        )
        with pytest.raises(LimitError, match=r"'increment' wants a grid of \(70000, 1, 1\)"):
            device.load(plan)

    def test_too_many_bindings_are_refused(self, make_device: Any) -> None:
        device = make_device(portable=True)
        kernel = Kernel("wide", "map", ("read",) * 9, INCREMENT)
        with pytest.raises(LimitError, match="'wide' binds 9 buffers"):
            device.load(plan_of([spec("argument")], [kernel], [Dispatch(0, (0,) * 9)], (0,)))

    @pytest.mark.slow
    def test_the_portable_profile_has_webgpu_default_limits(self, webgpu: str) -> None:
        code = """
from shadergrad.runtime.device import get_device
import shadergrad.runtime.webgpu
device = get_device("webgpu")
print(device.profile, device.memory.max_buffer_bytes, device.target)
"""
        done = run_python(code, SHADERGRAD_PROFILE="portable", SHADERGRAD_CHECKED="0")
        target = Target("wgsl", 8, 256, 16384, 65535, 128 << 20)
        target = target.having(limits_iterations=get_device(webgpu).target.traits.limits_iterations)
        assert done.stdout == f"portable {256 << 20} {target}\n", done.stderr

    def test_the_driver_itself_holds_a_portable_device_to_its_limits(self, make_device: Any) -> None:
        device = make_device(portable=True)
        kernel = replace(INCREMENT_KERNEL, name="large", source=INCREMENT.replace("(64)", "(512)"))
        with pytest.raises(CompileError, match=r"'large'(.|\n)*workgroup.size ?[(\[]512, 1, 1[)\]]"):
            device.load(plan_of([spec("argument"), spec("result")], [kernel], [Dispatch(0, (0, 1))], (1,)))


class TestErrors:
    @pytest.mark.parametrize("checked", [False, True])
    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ("out[id.x] = x[id.x] + 1u;", r"Operation Add can't work|no matching overload for 'operator \+"),
            ("out[id.x] = x[id.x;", r"expected [`']]"),
            ("foo();", "no definition in scope for identifier: `foo`|unresolved call target 'foo'"),
        ],
    )
    def test_bad_wgsl_names_the_kernel_and_quotes_the_line(
        self, make_device: Any, checked: bool, wrong: str, said: str
    ) -> None:
        device = make_device(checked=checked)
        source = INCREMENT.replace("out[id.x] = x[id.x] + 1.0;", f"\n    {wrong}\n")
        kernel = Kernel("bad_kernel", "map", ("read", "read_write"), source, origin="add(x, 1)")
        plan = plan_of([spec("argument"), spec("result")], [kernel], [Dispatch(0, (0, 1))], (1,))
        with pytest.raises(CompileError) as error:
            device.load(plan)
        expected = f"kernel 'bad_kernel' does not compile (it computes add(x, 1)), line 6:\n    {wrong}\n"
        assert expected in str(error.value)
        assert re.search(said, str(error.value))
        (out,) = device.load(increments(1)).run([put(device)])  # the device is as good as before
        assert get(out)[0] == 1

    def test_a_kernel_that_disagrees_with_its_access_does_not_compile(self, device: WebGPUDevice) -> None:
        kernel = replace(INCREMENT_KERNEL, name="liar", access=("read", "read"))
        with pytest.raises(CompileError, match="kernel 'liar' does not compile"):
            device.load(plan_of([spec("argument"), spec("result")], [kernel], [Dispatch(0, (0, 1))], (1,)))

    def test_an_illegal_dispatch_is_an_error_and_not_a_crash(self, device: WebGPUDevice) -> None:
        plan = plan_of([spec("argument"), spec("result", aliases=0)], [INCREMENT_KERNEL], [Dispatch(0, (0, 1))], (1,))
        program = device.load(plan)  # reads and writes one buffer in one dispatch
        with pytest.raises(DeviceError, match=r"reports an error:(.|\n)*(Validation Error|While validating)"):
            program.run([put(device)])
        (out,) = device.load(increments(2)).run([put(device)])
        assert get(out)[0] == 2

    def test_checked_devices_compute_the_same(self, make_device: Any) -> None:
        device = make_device(checked=True)
        assert device.target.checked
        (out,) = device.load(increments(3)).run([put(device, 1.0)])
        assert get(out)[0] == 4


class TestDeviceLoss:
    @pytest.fixture(params=["callback", "driver", "destroy"])
    def lost(self, request: Any, make_device: Any) -> tuple[WebGPUDevice, Any, Storage]:
        device = make_device()
        program, storage = device.load(increments(2)), put(device)
        program.run([storage])
        if request.param == "callback":
            device._lose("the GPU fell off the bus")
        elif request.param == "driver":
            device.synchronize()
            device.native.lib.wgpuDeviceDestroy(device.native.raw)  # type: ignore[attr-defined]
        else:
            device.destroy()
        return device, program, storage

    def test_every_call_says_so(self, lost: tuple[WebGPUDevice, Any, Storage]) -> None:
        device, program, storage = lost
        for call in (
            lambda: program.run([storage]),
            lambda: put(device, 1.0),
            lambda: device.write(storage, np.zeros(N, np.float32), float32),
            lambda: get(storage),
            lambda: device.load(increments(9)),
            device.synchronize,
            device.empty_cache,
        ):
            with pytest.raises(DeviceLostError, match=r"was lost: (.|\n)*resume from the last checkpoint"):
                call()

    def test_storages_and_statistics_still_come_and_go(self, lost: tuple[WebGPUDevice, Any, Storage]) -> None:
        device, program, storage = lost
        assert device.statistics().live_buffers >= 1
        del program, storage
        gc.collect()

    def test_reset_opens_it_again_and_programs_go_on(self, lost: tuple[WebGPUDevice, Any, Storage]) -> None:
        device, program, _ = lost
        assert device.reset()
        assert not device.reset(), "it is not lost any more"
        x = out = put(device, 5.0)
        for _ in range(3):
            (out,) = program.run([x])
            assert get(out)[0] == 7
        (other,) = device.load(saxpy_plan()).run([x, out])
        assert get(other)[0] == 17

    def test_after_a_reset_what_was_lost_says_so_and_what_the_host_had_is_there(
        self, lost: tuple[WebGPUDevice, Any, Storage]
    ) -> None:
        device, program, small = lost  # `small` was made from 256 bytes of zeros
        assert device.reset()
        assert get(small)[0] == 0
        assert get(program.run([small])[0])[0] == 2

    @pytest.mark.parametrize("n", [1024, 1025])
    def test_small_uploads_are_remembered_and_large_ones_are_not(self, make_device: Any, n: int) -> None:
        device = make_device()
        storage = put(device, np.arange(n), n)
        device._lose("a test")
        assert device.reset()
        if n == 1024:
            np.testing.assert_array_equal(get(storage, n), np.arange(n))
            return
        with pytest.raises(DeviceLostError, match=r"this tensor, float32 of shape \(1025,\), was in the memory of"):
            get(storage, n)
        plan = plan_of([spec("argument", (n,)), spec("result")], [INCREMENT_KERNEL], [Dispatch(0, (0, 1))], (1,))
        with pytest.raises(
            DeviceLostError, match=r"the argument of shape \(1025,\), float32, was(.|\n)*load_state_dict"
        ):
            device.load(plan).run([storage])

    def test_what_a_program_changed_in_place_is_not_mistaken_for_what_was_uploaded(self, make_device: Any) -> None:
        device = make_device()
        parameter, gradient = put(device, 10.0), put(device, 1.0)
        program = device.load(training_step())
        program.run([parameter, gradient])
        device._lose("a test")
        assert device.reset()
        with pytest.raises(DeviceLostError):
            get(parameter)
        with pytest.raises(DeviceLostError):
            program.run([parameter, gradient])
        assert get(gradient)[0] == 1

    def test_what_was_written_over_is_not_mistaken_for_what_was_uploaded(self, make_device: Any) -> None:
        device = make_device()
        into, written = put(device, 1.0), put(device, 1.0)
        program, x = device.load(increments(1)), put(device, 4.0)
        program.run([x], [into])
        device.write(written, np.full(N, 9, np.float32), float32)
        device._lose("a test")
        assert device.reset()
        for storage in (into, written):
            with pytest.raises(DeviceLostError):
                get(storage)

    def test_writing_over_lost_memory_gives_it_a_value_again(self, make_device: Any) -> None:
        device = make_device()
        program, x = device.load(increments(1)), put(device, 4.0)
        (first,) = program.run([x])
        (second,) = program.run([x])
        into: list[Storage | None] = [first]
        program.run([x], into)
        device._lose("a test")
        assert device.reset()
        device.write(second, np.full(N, 9, np.float32), float32)
        program.run([x], into)
        assert (get(first)[0], get(second)[0]) == (5, 9)

    def test_lost_storages_neither_count_nor_come_back(self, make_device: Any) -> None:
        device = make_device()
        lost = [put(device, 1.0, n=5000) for _ in range(3)]
        device._lose("a test")
        assert device.reset()
        del lost
        gc.collect()
        statistics = device.statistics()
        assert (statistics.bytes_in_use, statistics.bytes_pooled, statistics.live_buffers) == (0, 0, 0)
        assert (statistics.pipelines, statistics.bind_groups) == (0, 0)
        assert get(put(device, 2.0, n=5000), 5000)[-1] == 2

    def test_a_device_can_be_lost_and_opened_many_times(self, make_device: Any) -> None:
        device = make_device()
        program, x = device.load(increments(2)), put(device, 1.0)
        for _ in range(5):
            assert get(program.run([x])[0])[0] == 3
            device.destroy()
            assert device.reset()

    def test_a_device_that_cannot_be_opened_stays_lost(self, make_device: Any, monkeypatch: Any) -> None:
        device = make_device()
        device._lose("a test")
        monkeypatch.setattr(adapters, "found_by", lambda _: [])
        with pytest.raises(DeviceError, match="no adapter found"):
            device.reset()
        with pytest.raises(DeviceLostError, match="was lost: a test"):
            device.synchronize()
        monkeypatch.undo()
        assert device.reset()

    def test_the_reason_is_told(self, make_device: Any) -> None:
        device = make_device()
        device._lose("the GPU fell off the bus")
        with pytest.raises(DeviceLostError, match="fell off the bus"):
            device.synchronize()


class TestProcesses:
    @pytest.mark.slow
    def test_importing_the_runtime_imports_no_wgpu(self) -> None:
        code = "import sys, shadergrad.runtime.webgpu; print(sys.modules.keys() & {'wgpu', 'wgpudawn'})"
        assert run_python(code).stdout == "set()\n"

    def test_without_wgpu_the_error_says_what_to_install(self) -> None:
        code = """
import sys
sys.modules["wgpu"] = None
import shadergrad.runtime.webgpu
from shadergrad.runtime import adapters, staging
from shadergrad.runtime import webgpu as webgpu_module
from shadergrad.runtime.device import get_device
print(adapters.hardware_adapter_available(), adapters.auto_device_reason())
try:
    get_device("webgpu")
except Exception as error:
    print(type(error).__name__, error)
"""
        done = run_python(code, SHADERGRAD_WEBGPU="wgpu")
        assert "False wgpu cannot be loaded" in done.stdout
        assert "using cpu" in done.stdout
        assert "DeviceError [webgpu] wgpu cannot be loaded" in done.stdout
        assert "pip install" in done.stdout

    def test_a_process_that_exits_amid_work_exits_quietly(self, webgpu: str) -> None:
        code = f"""
import numpy as np, shadergrad.runtime.webgpu
from shadergrad.dtypes import float32
from shadergrad.plan import BufferSpec, Dispatch, Kernel, Plan
from shadergrad.target import Target
from shadergrad.runtime.device import get_device
source = {INCREMENT!r}
buffers = (BufferSpec("argument", (64,), float32), BufferSpec("result", (64,), float32))
kernel = Kernel("increment", "map", ("read", "read_write"), source)
device = get_device("webgpu")
program = device.load(Plan(Target("wgsl"), buffers, (kernel,), (Dispatch(0, (0, 1)),), (0,), (1,)))
x = device.upload(np.zeros(64, np.float32), float32)
for _ in range(100):
    (x,) = program.run([x])
cycle = [x]
cycle.append(cycle)
"""
        for _ in range(3):
            done = run_python(code)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    @pytest.mark.slow
    def test_a_forked_child_is_told_and_leaves_quietly(self, webgpu: str) -> None:
        code = """
import os
import numpy as np
from shadergrad.dtypes import float32
from shadergrad.runtime.staging import CHUNK, LENT, RING
from shadergrad.runtime.webgpu import WebGPUDevice
device = WebGPUDevice()
storage = device.upload(np.ones(4, np.float32), float32)
child = os.fork()
if child == 0:
    try:
        device.download(storage, (4,), float32)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    del storage
    os._exit(7)  # as multiprocessing does: llvmpipe's own exit handlers crash in a forked child
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), device.download(storage, (4,), float32))
"""
        done = run_python(code)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "DeviceError [webgpu] webgpu was opened before this process was forked" in done.stdout
        assert done.stdout.endswith("7 [1. 1. 1. 1.]\n")


class FakeAdapter:
    """What an implementation finds, on machines we do not have."""

    matrices: tuple[Matrices, ...] = ()

    def __init__(self, name: str, backend: str, kind: str, vendor_id: int = 1, device_id: int = 0, **limits: int):
        self.info = {
            "vendor": "",
            "device": name,
            "description": "",
            "vendor_id": vendor_id,
            "device_id": device_id,
            "adapter_type": kind,
            "backend_type": backend,
        }
        huge = {
            "max-storage-buffer-binding-size": 2**32 - 1,
            "max-buffer-size": 2**50,
            "max-storage-buffers-per-shader-stage": 1 << 20,
            "max-bindings-per-bind-group": 1000,
            "max-compute-invocations-per-workgroup": 2048,
            "max-compute-workgroup-size-x": 2048,
            "max-compute-workgroup-storage-size": 49152,
            "max-compute-workgroups-per-dimension": 65535,
        }
        self.limits = {**huge, **limits}
        self.features = {"shader-f16"}


LLVMPIPE = [FakeAdapter("llvmpipe", b, "CPU", 65541) for b in ("Vulkan", "OpenGL")]
INTEL = [
    FakeAdapter("Intel UHD", "Vulkan", "IntegratedGPU", 0x8086, 5),
    FakeAdapter("Intel", "OpenGL", "unknown", 0x8086),
]
NVIDIA = [FakeAdapter("NVIDIA H200", "Vulkan", "DiscreteGPU", 0x10DE, 9) for _ in range(2)]


BY_WGPU = replace(config, webgpu="wgpu")  # whatever the environment says


class TestAdapters:
    def listed(self, monkeypatch: Any, found: list[FakeAdapter], settings: Config = BY_WGPU) -> list[str]:
        monkeypatch.setattr(adapters, "found_by", lambda _: found)
        return [info.describe() for info in adapters.adapters(settings=settings)]

    def test_hardware_comes_first_and_duplicates_go(self, monkeypatch: Any) -> None:
        assert self.listed(monkeypatch, [*LLVMPIPE, *reversed(INTEL), *NVIDIA]) == [
            "NVIDIA H200 (Vulkan, hardware)",
            "NVIDIA H200 (Vulkan, hardware)",
            "Intel UHD (Vulkan, hardware)",
            "llvmpipe (Vulkan, software)",
        ]
        assert adapters.hardware_adapter_available()
        assert adapters.auto_device_reason().startswith("using webgpu: NVIDIA H200 (Vulkan")

    def test_discrete_gpus_alone_take_convolutions_by_points(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: [*LLVMPIPE, *INTEL, *NVIDIA])
        for portable in (False, True):
            known = adapters.adapters(settings=replace(BY_WGPU, adapter=None, portable=portable))
            found = {a.name for a in known if a.target.traits.winograd > 0}
            assert found == (set() if portable else {"NVIDIA H200"})

    def test_all_backends_lists_the_duplicates_too(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: LLVMPIPE)
        assert [(a.index, a.backend) for a in adapters.adapters(all_backends=True)] == [(0, "Vulkan"), (-1, "OpenGL")]

    @pytest.mark.parametrize(
        ("wish", "first"), [("intel", "Intel UHD"), ("LLVM", "llvmpipe"), ("h200 vulkan", "NVIDIA H200")]
    )
    def test_a_wish_goes_before_all(self, monkeypatch: Any, wish: str, first: str) -> None:
        found = [*LLVMPIPE, *INTEL, *NVIDIA]
        assert self.listed(monkeypatch, found, replace(BY_WGPU, adapter=wish))[0].startswith(first)

    def test_a_wish_may_name_a_backend(self, monkeypatch: Any) -> None:
        assert (
            self.listed(monkeypatch, LLVMPIPE, replace(BY_WGPU, adapter="opengl"))[0] == "llvmpipe (OpenGL, software)"
        )

    def test_a_wish_that_no_adapter_meets_is_an_error_that_lists_them(self, monkeypatch: Any) -> None:
        settings = replace(BY_WGPU, adapter="nonsense")
        monkeypatch.setattr(adapters, "found_by", lambda _: [*LLVMPIPE, *NVIDIA])
        for call in (lambda: adapters.adapters(settings=settings), lambda: adapters.choose_adapter(0, settings)):
            with pytest.raises(ConfigError) as error:
                call()
            assert "SHADERGRAD_ADAPTER='nonsense' is part of no adapter's name" in str(error.value)
            known = "llvmpipe (Vulkan, software), llvmpipe (OpenGL, software), NVIDIA H200 (Vulkan, hardware); or unset"
            assert known in str(error.value)

    def test_a_wish_on_a_machine_without_adapters_says_what_to_install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: [])
        with pytest.raises(DeviceError, match="no adapter found"):
            adapters.choose_adapter(0, replace(BY_WGPU, adapter="llvmpipe"))

    def test_an_adapter_that_another_has_taken_the_place_of_is_not_found_again(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: NVIDIA)
        lost, _ = adapters.choose_adapter(0, BY_WGPU)
        assert adapters.find_again(lost, 0, BY_WGPU)[0] == lost
        monkeypatch.setattr(adapters, "found_by", lambda _: INTEL)
        with pytest.raises(DeviceError, match=r"NVIDIA H200 \(Vulkan, hardware\) is there no more(.|\n)*Intel UHD"):
            adapters.find_again(lost, 0, BY_WGPU)

    def test_software_only_means_cpu(self, monkeypatch: Any) -> None:
        self.listed(monkeypatch, LLVMPIPE)
        assert not adapters.hardware_adapter_available()
        assert adapters.auto_device_reason() == "no hardware adapter (only llvmpipe, a software one): using cpu"

    def test_no_adapter_says_what_to_install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: [])
        with pytest.raises(DeviceError, match=r"no adapter found(.|\n)*mesa-vulkan-drivers(.|\n)*NVIDIA"):
            adapters.choose_adapter(0, BY_WGPU)

    def test_an_index_beyond_the_list_shows_the_list(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(adapters, "found_by", lambda _: LLVMPIPE)
        with pytest.raises(DeviceError, match=r"no adapter 3. Known:\n  webgpu:0  llvmpipe \(Vulkan, software\)"):
            adapters.choose_adapter(3, BY_WGPU)

    def test_targets_are_capped(self) -> None:
        settings = replace(BY_WGPU, portable=False, checked=False)
        target = target_with(NVIDIA[0].limits, settings, "native")
        assert target == Target("wgsl", 64, 1024, 49152, 65535, 2**32 - 16, traits=ROWS["native"])
        assert target_with(NVIDIA[0].limits, replace(settings, portable=True), "portable") == Target("wgsl")


class TestPool:
    """The pool alone, with a driver of its own."""

    @pytest.fixture
    def pool(self) -> MemoryPool:
        self.destroyed: list[Buffer] = []
        return MemoryPool(lambda nbytes: object(), self.destroyed.extend, 1 << 30, limit=1 << 20)

    @pytest.mark.parametrize("n", [1, 255, 256, 257, 2048, 2049, 4097, 100_000, (1 << 20) + 1, 3 << 28, 2**40 - 1])
    def test_size_classes_waste_little(self, n: int) -> None:
        capacity = size_class(n)
        assert capacity >= n
        assert capacity % 256 == 0
        assert capacity - n < max(256, n / 8)
        assert size_class(capacity) == capacity

    def test_a_preferred_buffer_comes_back(self, pool: MemoryPool) -> None:
        first, second = pool.acquire(1000), pool.acquire(1000)
        pool.give_back(first)
        pool.give_back(second)
        assert pool.acquire(1000, [first]) is first
        assert pool.acquire(1000, [first]) is second

    def test_an_idle_bundle_is_taken_whole_or_broken_up(self, pool: MemoryPool) -> None:
        bundle = Bundle((pool.acquire(1000), pool.acquire(5000)))
        pool.give_back_bundle(bundle)
        assert (pool.bytes_in_use, pool.live_buffers) == (0, 0)
        assert pool.take_bundle(bundle)
        pool.give_back_bundle(bundle)
        pool.acquire(4)  # not worth it
        assert pool.take_bundle(bundle)
        pool.give_back_bundle(bundle)
        assert pool.acquire(5000) is bundle.buffers[1]
        assert not pool.take_bundle(bundle)
        assert pool.acquire(1000) is bundle.buffers[0]
        assert pool.allocated == 3

    def test_trim_destroys_free_buffers_only(self, pool: MemoryPool) -> None:
        kept, freed, grouped = pool.acquire(1000), pool.acquire(1000), pool.acquire(9000)
        pool.give_back(freed)
        pool.give_back_bundle(Bundle((grouped,)))
        pool.trim()
        assert set(self.destroyed) == {freed, grouped}
        assert (pool.live_buffers, pool.bytes_pooled) == (1, 0)
        assert pool.bytes_in_use == kept.capacity
