"""Names of torch itself that `shadergrad run` adds: copies of views, storages, what the core calls below torch.nn.functional.

Each row is the source of an expression of `torch`, the stand-in or PyTorch. Values, shapes, dtypes (int32 for int64) and whether a history
goes on are compared, and gradients where it does; where PyTorch raises the stand-in does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from shadergrad.as_torch.stand_ins import stand_ins
from shadergrad.errors import ArgumentError

OURS = stand_ins()["torch"]

COPIES = """torch.view_copy(x, (2, 6)); torch.view_copy(x.detach(), torch.int32); torch.view_copy(x, (5, 5)); torch.diagonal_copy(x, 1)
torch.split_copy(x, 2); torch.split_copy(x, 2, 1); torch.split_with_sizes_copy(x, (1, 2), 0); torch.unbind_copy(x, 1); torch.unbind_copy(x)
torch.expand_copy(x[:1], (2, 3, 4)); torch.slice_copy(x, 1, 1, 4, 2); torch.slice_copy(x, -1, None, 2); torch.slice_copy(x)
torch.narrow_copy(x, 0, 1, 2); torch.narrow_copy(x, 0, 2, 2); torch.permute_copy(x, (1, 0)); torch.select_copy(x, 1, 2)
torch.squeeze_copy(x[:1]); torch.squeeze_copy(x[:1], 0); torch.t_copy(x); torch.transpose_copy(x, 0, 1); torch.unfold_copy(x, 1, 2, 2)
torch.unsqueeze_copy(x, 0); torch.detach_copy(y); torch.alias_copy(x); torch.as_strided_copy(x, (2, 2), (1, 2))
torch.view_as_real_copy(torch.tensor([1j])); torch.view_as_complex_copy(torch.ones(2, 2)); torch.unsafe_split(x, 2)
torch.unsafe_chunk(x, 2, 1); torch.unsafe_split_with_sizes(x, [1, 2]); torch.diagonal_copy(y, out=torch.empty(3))
torch.t_copy(y, out=torch.empty(4, 3))"""
STORAGES = """torch.Storage([1.0, 2.0]).tolist(); torch.FloatStorage(3).fill_(1).tolist(); len(torch.LongStorage([1, 2, 3]))
torch.tensor([1, 2, 3], dtype=torch.int64).storage()[1]; x.storage().size(); x.storage().nbytes(); x.untyped_storage().nbytes()
len(x.untyped_storage()); isinstance(x.storage(), torch.FloatStorage); isinstance(x.storage(), torch.DoubleStorage)
isinstance(x.untyped_storage(), torch.UntypedStorage); isinstance(x.storage(), torch.storage.TypedStorage)
isinstance(x.storage(), torch.UntypedStorage); torch.is_storage(x.storage()); torch.is_storage(x.untyped_storage()); torch.is_storage(x)
x[1].storage().tolist(); x.storage().element_size(); list(torch.tensor([1, 258], dtype=torch.int16).untyped_storage())
len(torch.UntypedStorage(4)); y.storage().clone().fill_(2).tolist(); y.storage()[2:4]; torch.FloatStorage([1, 2])[5]; y.storage()[-1]
y.storage().copy_(torch.FloatStorage([1] * 12)).tolist(); y.storage().copy_(torch.DoubleStorage([1] * 12)).tolist()
y.storage().copy_(torch.FloatStorage([1])); str(x.storage().device); str(x.storage().dtype); x.storage().untyped().nbytes()
torch.tensor([]).set_(torch.FloatStorage([1, 2, 3, 4]), 0, (2, 2), (2, 1)); torch.ones(2).set_(torch.ones(3).storage())
torch.BoolStorage([True, False]).tolist(); torch.storage.UntypedStorage(3).nbytes(); y.storage().__setitem__(2, 9.0) or y
y.t().storage().__setitem__(slice(1, 3), 9.0) or y; x.storage().data_ptr() == x.detach().storage().data_ptr(); torch.Storage("a")"""
CORE = """torch.layer_norm(x, (4,), w, w); torch.layer_norm(x, (3,)); torch.group_norm(z, 2, eps=1e-3); torch.instance_norm(z, None, None, None, None, True, 0.1, 1e-5, False)
torch.batch_norm(z, w, w, torch.zeros(4), torch.ones(4), False, 0.1, 1e-5, False); torch.batch_norm(z, None, None, None, None, True, 0.1, 1e-5, False)
torch.embedding(x, i); torch.embedding(x, i, 1); torch.embedding(x, i, -1, False, False); torch.dropout(x, 0.5, False); torch.dropout(x, 1.0, True)
torch.alpha_dropout(x, 0.5, False); torch.feature_alpha_dropout(z, 0.5, False); torch.threshold(x, 2.0, 7.0); torch.threshold_(y, 2.0, 7.0)
torch.hardshrink(x - 5); torch.channel_shuffle(z, 2); torch.binary_cross_entropy_with_logits(x, t); torch.kl_div(x, t); torch.kl_div(x, t, 2)
torch.binary_cross_entropy_with_logits(x, t, None, w, 0); torch.kl_div(x, t, 0, log_target=True); torch.hinge_embedding_loss(x, t * 2 - 1)
torch.cosine_embedding_loss(x, x + t, torch.ones(3), 0.1, 2); torch.margin_ranking_loss(x, t, t * 2 - 1, 0.5, 0); torch.kl_div(x, t, 5)
torch.triplet_margin_loss(x, t, x - t, 1.0, 2.0, 1e-6, False, 0); torch.poisson_nll_loss(x, t, True, False, 1e-8, 1)
torch.ctc_loss(z.permute(2, 0, 1).log_softmax(-1), torch.tensor([[1, 2]]), (4,), (2,), 0, 1); torch.affine_grid_generator(a, (1, 1, 2, 2), True)
torch.grid_sampler(z[None, :, :, :1].reshape(1, 1, 2, 2), torch.zeros(1, 2, 2, 2), 0, 1, False); torch.row_stack((x, y)); torch.vander(w)
torch.vander(w, 2); torch.vander(w, 3, increasing=True); torch.range(0, 3); torch.range(1, 2, 0.5); torch.range(3, 1, -1); torch.range(1, 0)
torch.poisson(torch.zeros(3)); torch.frombuffer(bytearray(8), dtype=torch.float32); torch.frombuffer(b"\\1\\0\\2\\0", dtype=torch.int16, offset=2)
torch.conj_physical(x); torch.conj_physical(torch.tensor([1 + 2j])); torch.resolve_conj(torch.tensor([1j]).conj()); torch.resolve_neg(x)
torch.is_conj(torch.tensor([1j]).conj()); torch.is_neg(x); torch.get_device(x); torch.is_distributed(x)
torch.adaptive_max_pool1d(z, 2); torch.adaptive_max_pool1d(z, 2, True); torch.max_pool1d_with_indices(z, 2, 1)
torch.as_strided_(y, (2,), (2,)); torch._assert_tensor_metadata(x, [3, 4], [4, 1], torch.float); torch._assert_tensor_metadata(x, [3, 5])
torch._assert_tensor_metadata(x, None, None, None); torch._assert_tensor_metadata(x, None, [1, 3]); torch._assert_tensor_metadata(x, dtype=torch.int32)"""
MADE = """
x = (torch.arange(12.0) / 2).reshape(3, 4).requires_grad_(); y = torch.arange(12.0).reshape(3, 4); w = torch.tensor([1.0, 2.0, 3.0, 4.0])
i = torch.tensor([[0, 1], [2, 1]]); z = (torch.arange(16.0) ** 1.5).sin().reshape(1, 4, 4); t = (torch.arange(12) % 2).reshape(3, 4).float()
a = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])
"""
ROWS = [row for table in (COPIES, STORAGES, CORE) for line in table.splitlines() for row in line.split("; ")]


def shown(lib: Any, value: Any) -> Any:
    if not isinstance(value, lib.Tensor):
        return [shown(lib, v) for v in value] if isinstance(value, list | tuple) else value
    kind = str(value.dtype).rpartition(".")[2].replace("int32", "int64")
    return kind, tuple(value.shape), value.requires_grad, np.asarray(value.detach().tolist())


def found(lib: Any, source: str) -> Any:
    """What an expression gives, and the gradient of x; None where it raises."""
    names: dict[str, Any] = {"torch": lib}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(MADE, names)
        try:
            result = eval(source, names)
        except Exception:
            return None
        parts = [v for v in (result if isinstance(result, tuple) else (result,)) if isinstance(v, lib.Tensor)]
        total: Any = sum((v * (v.detach() + 1)).sum() for v in parts if v.requires_grad)
        if any(v.requires_grad for v in parts):
            total.backward()
        return shown(lib, result), shown(lib, names["x"].grad)


def assert_equal(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, np.ndarray):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_equal(a, b)
    elif isinstance(theirs, str):
        assert ours.rpartition(".")[2] == theirs.rpartition(".")[2]
    else:
        assert ours == theirs


@pytest.mark.parametrize("row", ROWS)
def test_a_name_of_torch_gives_what_pytorchs_does(row: str) -> None:
    ours, theirs = found(OURS, row), found(torch, row)
    assert (ours is None) == (theirs is None), (ours, theirs)
    assert_equal(ours, theirs)


def test_a_copy_shares_no_memory() -> None:
    x = OURS.zeros(2, 2)
    for part in (OURS.view_copy(x, (4,)), OURS.alias_copy(x), *OURS.unbind_copy(x)):
        part.fill_(1)
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_copy_is_written_where_it_is_told() -> None:
    parts = OURS.empty(2, 2), OURS.empty(1, 2)
    OURS.split_copy(OURS.arange(6.0).reshape(3, 2), 2, out=parts)
    assert [part.tolist() for part in parts] == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]


def test_types_of_storages_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(RuntimeError):
        OURS.ones(2).storage()[0:1]
    with pytest.raises(TypeError):
        OURS.ones(2).storage()["a"]
    x = OURS.ones(2)
    assert repr(x.storage()).startswith(" 1.0\n 1.0\n[shadergrad.TypedStorage(dtype=float32, device=cpu)")


@pytest.mark.parametrize(("interpolation", "padding"), [(3, 0), (-1, 0), (0, 3), (0, -1)])
def test_a_number_that_is_no_mode_of_a_grid_is_refused(interpolation: int, padding: int) -> None:
    with pytest.raises(ArgumentError, match="Hint: each is 0, 1 or 2"):
        OURS.grid_sampler(OURS.ones(1, 1, 2, 2), OURS.zeros(1, 2, 2, 2), interpolation, padding, False)


def test_a_storage_of_several_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a size or a sequence of elements, not 2 arguments"):
        OURS.FloatStorage(1, 2)
