"""Every operator in PyTorch's own database gives on the device what it gives on PyTorch's cpu, or is in a table with the reason.

Nothing may fall to the host. A tenth of the entries runs each time, on webgpu a sixtieth, the rest with the slow tests.
"""

from __future__ import annotations

from typing import Any

import op_db
import pytest

pytest.importorskip("torch")


TENTHS = [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 10)]]
COMPLEX_LU = "complex linear systems are refused in words"
NO_LDL = "no LDL factorization"
SPARSE = "tensors are dense"
EXPECTED = {
    "as_strided.partial_views": "a copy to another device has no elements beyond the view",
    "chalf": "no complex32",
    "hash_tensor": "no bits of floats are read",
    "linalg.eig": COMPLEX_LU,
    "linalg.eigvals": COMPLEX_LU,
    "linalg.ldl_factor": NO_LDL,
    "linalg.ldl_factor_ex": NO_LDL,
    "linalg.ldl_solve": NO_LDL,
    "logcumsumexp": "PyTorch's formula of the gradient is exact to 1e-3 in float32, on each device in other digits",
    "sparse.mm.reduce": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "tensor_split": "PyTorch wants the indices on its cpu",
    "to_sparse": SPARSE,
}
TIES = "of equal elements, PyTorch's sort gives any first"
IN_SINGLE = "the statistics of halves are float32, as on CUDA"
NEARER = "PyTorch rounds coordinates in between; here the values are nearer to those of float64"
EXPECTED_OF_HALVES = {
    "argsort": TIES, "msort": TIES, "sort": TIES, "topk": TIES, "native_layer_norm": IN_SINGLE, "native_batch_norm": IN_SINGLE,
    "_native_batch_norm_legit": IN_SINGLE, "_batch_norm_with_update": IN_SINGLE, "grid_sampler_2d": NEARER, "grid_sampler_3d": NEARER,
    "nn.functional.grid_sample": NEARER, "matrix_exp": "PyTorch's overflows", "complex": "no complex32", "view_as_complex": "no complex32",
}  # fmt: skip
NO_COMPLEX = "no complex numbers on webgpu, refused in words"
COMPLEX = """
cdouble cfloat complex fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn
fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn imag istft nn.functional.silu.complex polar stft view_as_complex view_as_real
"""
EXPECTED_ON_WEBGPU = dict.fromkeys(COMPLEX.split(), NO_COMPLEX)


@pytest.mark.filterwarnings("ignore")
@op_db.in_shares
def test_operators_of_op_db_are_right_without_the_host(share: slice, torch_device: Any, device: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db as entries  # seconds to import

    table = {**EXPECTED, **(EXPECTED_ON_WEBGPU if device == "webgpu" else {})}
    wrong, healed = {}, []
    for op in entries[share]:
        name = op_db.name_of(op)
        faults = op_db.faults(op)
        if faults and name not in table:
            wrong[name] = faults
        elif name in table and not faults:
            healed.append(name)
    assert not wrong, "".join(f"\n{name}: {faults[0]}" for name, faults in wrong.items())
    assert not healed, f"they run now; take them out of the table: {healed}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tenth", TENTHS)
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_operators_of_op_db_are_right_in_halves(tenth: int, name: str, torch_device: Any, device: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db as entries  # seconds to import

    table = EXPECTED.keys() | EXPECTED_OF_HALVES.keys() | (EXPECTED_ON_WEBGPU.keys() if device == "webgpu" else set())
    wrong = {}
    for op in entries[tenth::10]:
        entry = op_db.name_of(op)
        if entry not in table and (faults := op_db.faults(op, getattr(torch_device, name))):
            wrong[entry] = faults
    assert not wrong, "".join(f"\n{entry}: {faults[0]}" for entry, faults in wrong.items())
