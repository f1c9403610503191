"""The lines people type, by what they are of: each gives what it gives in PyTorch, or stands in docs/from-pytorch.md.

A further table, of single ones, is in test_tensor_attributes.py. Before the last `;` of a line stands what is done first.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

# fmt: off
LINES: dict[str, list[str]] = {
    "what programs ask of devices": [
        "t.cuda.is_available()",
        "t.cuda.device_count()",
        "t.device('cuda' if t.cuda.is_available() else 'cpu').type",
        "t.cuda.manual_seed(1); t.cuda.manual_seed_all(1); t.cuda.empty_cache(); 1",
        "t.cuda.is_initialized()",
        "t.cuda.max_memory_allocated()",
        "t.cuda.memory_allocated()",
        "t.backends.cudnn.enabled in (True, False)",
        "t.backends.mps.is_built()",
        "t.accelerator.is_available() in (True, False)",
        "t.accelerator.device_count() >= 0",
        "t.amp.GradScaler('cuda', enabled=False).get_scale()",
        "t.cuda.amp.GradScaler(enabled=False).is_enabled()",
        "t.is_autocast_enabled()",
        "t.distributed.is_available() in (True, False)",
        "t.distributed.is_initialized()",
        "t.distributed.get_rank() if t.distributed.is_initialized() else 0",
        "pickle.loads(pickle.dumps(x))",
        "pickle.loads(pickle.dumps(t.nn.Linear(2, 1))).weight.shape == (1, 2)",
        "t.utils.data.RandomSampler(range(10), replacement=True, num_samples=10**10).num_samples",
        "next(iter(t.utils.data.RandomSampler(range(10), replacement=True, num_samples=10**10))) < 10",
        "t.utils.data.WeightedRandomSampler([0.5, 0.5], 2).num_samples",
        "t.nn.functional.upsample(t.ones(1, 1, 2, 2), scale_factor=2)",
        "t.clamp(x, 0, 1), t.clip(x, 0, 1), x.clamp_(min=0)",
        "t.set_default_device('cpu'); t.set_default_device(None)",
        "t.nn.Linear(2, 1).cpu().weight.is_cuda",
        "str(t.float32).split('.')[-1], str(t.device('cpu')), repr(t.Size([1]))[-4:]",
        "t.cuda.synchronize() if t.cuda.is_available() else 1",
        "t.cuda.get_device_name(0) if t.cuda.is_available() else 'none'",
        "t.cuda.current_device() if t.cuda.is_available() else 0",
        "t.cuda.Stream if t.cuda.is_available() else 1",
        "t.cuda.get_rng_state_all()",
        "t.cuda.set_rng_state_all([])",
        "t.mps.is_available()",
    ],
    "constructors, dtypes and types": [
        "t.long is t.int64, t.float is t.float32, t.double is t.float64, t.half is t.float16, t.int is t.int32",
        "t.FloatTensor([[1, 2]]).shape == (1, 2)",
        "t.LongTensor([1, 2]).dtype == t.int64",
        "t.IntTensor([1]), t.ByteTensor([1]), t.BoolTensor([1]), t.DoubleTensor([1])",
        "t.FloatTensor(2, 3).shape == (2, 3)",
        "t.Tensor(2, 3).shape == (2, 3)",
        "t.autograd.Variable(x).requires_grad",
        "x.type(), i.long().type(), x.double().type()",
        "x.type_as(i.float()).dtype == t.float32",
        "x + np.ones(2, np.float32)",
        "np.float32(2) * x, np.float64(2) * x, np.int64(2) * x, x * np.float64(2)",
        "(np.float32(2) * x).dtype == t.float32",
        "t.is_tensor(x)",
        "t.is_floating_point(x)",
        "t.finfo(t.float32).eps",
        "t.iinfo(t.int32).max",
        "t.finfo(x.dtype).min",
        "t.Size([1, 2]).numel()",
        "t.Size((1, 2)) == (1, 2)",
        "t.as_tensor(np.ones(2, np.float32)), t.asarray([1.])",
        "t.from_numpy(np.ones(2, np.float32))",
        "x.numpy().dtype == np.float32",
        "t.nn.Linear(2, 1).type(t.float64).weight.dtype == t.float64",
        "t.nn.Linear(2, 1, device='cpu', dtype=t.float64).weight.dtype == t.float64",
        "t.zeros(2, 3).size() == t.Size([2, 3])",
        "x.dtype.is_floating_point, x.dtype.itemsize",
    ],
    "random numbers": [
        "t.set_rng_state(t.get_rng_state())",
        "t.initial_seed() >= 0",
        "t.seed() >= 0",
        "t.utils.data.random_split(range(4), [2, 2])[0].__len__()",
        "t.utils.data.random_split(range(4), [0.5, 0.5])[0].__len__()",
        "t.normal(0, 1, (2,)).shape == (2,), t.normal(x, x.abs()).shape == (2,)",
        "t.randn(2, 3, generator=t.Generator()).shape == (2, 3)",
        "t.randperm(3).shape == (3,)",
        "t.rand_like(x).shape == (2,)",
        "t.bernoulli(t.ones(2))",
        "t.multinomial(t.ones(3), 2).shape == (2,)",
    ],
    "data": [
        "t.utils.data.DataLoader([1, 2, 3], batch_size=2).__iter__().__next__()",
        "next(iter(t.utils.data.DataLoader(t.utils.data.TensorDataset(x, i), batch_size=2)))",
        "t.utils.data.Subset(range(4), [1, 2])[0]",
        "t.utils.data.ConcatDataset([[1], [2]])[1]",
        "t.utils.data.default_collate([1, 2])",
        "t.utils.data.get_worker_info()",
    ],
    "modules and their tools": [
        "t.nn.utils.rnn.pad_sequence([x, x[:1]], batch_first=True)",
        "t.nn.utils.rnn.pad_packed_sequence(t.nn.utils.rnn.pack_padded_sequence(t.ones(2, 3, 1), t.tensor([3, 2]), batch_first=True))[0].shape == (3, 2, 1)",
        "t.nn.utils.rnn.pack_sequence([x, x[:1]]).batch_sizes",
        "t.nn.utils.rnn.unpad_sequence(t.ones(3, 2), t.tensor([3, 2]))",
        "t.nn.utils.weight_norm(t.nn.Linear(2, 2)).weight_g.shape == (2, 1)",
        "t.nn.utils.remove_weight_norm(t.nn.utils.weight_norm(t.nn.Linear(2, 2))).weight.shape == (2, 2)",
        "t.nn.utils.spectral_norm(t.nn.Linear(2, 2)).weight_orig.shape == (2, 2)",
        "t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2)).weight.shape == (2, 2)",
        "t.nn.utils.parametrizations.weight_norm(t.nn.Linear(2, 2)).weight.shape == (2, 2)",
        "t.nn.utils.parametrize.is_parametrized(t.nn.Linear(2, 2))",
        "t.nn.utils.clip_grad_norm_([t.nn.Parameter(x)], 1.0)",
        "t.nn.utils.parameters_to_vector(t.nn.Linear(2, 2).parameters()).shape == (6,)",
        "t.func.functional_call(t.nn.Linear(2, 1), {'weight': t.ones(1, 2), 'bias': t.zeros(1)}, (x,))",
        "t.func.stack_module_state([t.nn.Linear(2, 1)])[0]['weight'].shape == (1, 1, 2)",
        "t.utils.checkpoint.checkpoint_sequential([t.nn.Tanh(), t.nn.Tanh()], 2, x, use_reentrant=False)",
        "t.nn.Dropout2d(0.5).eval()(t.ones(2, 3))",
        "t.nn.functional.dropout2d(t.ones(2, 3), 0.5, False)",
        "copy.deepcopy(t.optim.Adam(t.nn.Linear(2, 1).parameters())).param_groups[0]['lr']",
        "t.nn.init.xavier_uniform_(t.empty(2, 2)).shape == (2, 2)",
        "t.nn.init.kaiming_normal_(t.empty(2, 2), mode='fan_out', nonlinearity='relu').shape == (2, 2)",
        "t.nn.init.xavier_uniform(t.empty(2, 2)).shape == (2, 2)",
        "t.nn.functional.sigmoid(x), t.nn.functional.tanh(x)",
        "t.nn.functional.softmax(x)",
        "t.nn.functional.log_softmax(x, dim=0)",
        "t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 1]))",
        "t.nn.Parameter(x).requires_grad, isinstance(t.nn.Parameter(x), t.Tensor)",
        "t.nn.parameter.Parameter is t.nn.Parameter",
        "t.nn.Sequential(t.nn.Linear(2, 1))[0].in_features",
        "t.nn.ModuleList([t.nn.Linear(2, 1)])[-1].out_features",
        "t.nn.Identity()(x)",
        "t.nn.functional.one_hot(t.tensor([0, 1]), num_classes=2)",
        "t.nn.functional.interpolate(t.ones(1, 1, 2, 2), size=(4, 4), mode='bilinear', align_corners=False).shape == (1, 1, 4, 4)",
        "t.nn.functional.pad(x, (1, 1)), t.nn.functional.normalize(x, dim=0), t.nn.functional.gelu(x)",
        "t.nn.functional.scaled_dot_product_attention(t.ones(1, 2, 2), t.ones(1, 2, 2), t.ones(1, 2, 2), is_causal=True)",
    ],
    "functions of functions": [
        "t.func.grad(lambda v: (v * v).sum())(x)",
        "t.func.vmap(lambda v: v * 2)(x)",
        "t.vmap(lambda v: v * 2)(x)",
        "t.func.jvp(lambda v: v * v, (x,), (x,))",
        "t.func.vjp(lambda v: v * v, x)[1](x)",
        "t.func.jacfwd(lambda v: v * v)(x)",
        "t.func.hessian(lambda v: (v ** 3).sum())(x)",
        "t.utils.checkpoint.checkpoint(lambda v: v * 2, x, use_reentrant=False)",
        "t.no_grad()(lambda v: v * 2)(x)",
        "t.inference_mode()(lambda v: v * 2)(x)",
        "t.enable_grad()(lambda v: v * 2)(x)",
    ],
    "copies and exchange": [
        "t.arange(6).reshape(2, 3)[np.array([0, 1])]",
        "t.from_dlpack(x)",
        "np.asarray(x)",
        "np.array(x)",
        "np.mean(x.numpy())",
        "copy.deepcopy(x)",
        "copy.copy(x)",
        "x.detach().cpu().numpy()",
        "x.untyped_storage().data_ptr() >= 0",
        "x.numpy(force=True)",
        "x.cpu().data.numpy()[0]",
    ],
    "operators, indices and keywords": [
        "f'{x[0]:.4f}', f'{x.sum():8.3f}', '{:.2f}'.format(x[0]), '%.3f' % x[0], '%d' % i[0]",
        "x.sum(axis=0), t.cat((x, x), axis=0), t.stack((x, x), axis=0), x.mean(axis=0), x.argmax(axis=0), t.mean(x, axis=0)",
        "x.max(axis=0).values, x.softmax(axis=0), t.softmax(x, axis=0)",
        "x.sum(0, keepdims=True), t.max(x, dim=0, keepdims=True).values, x.mean(0, keepdims=True)",
        "2 | i, 2 & i, 2 ^ i, True | (x > 0)",
        "2 << i, 100 >> i, 7 // i, 7 % i, 2 ** i, 2 / i",
        "t.arange(6).reshape(2, 3)[range(2), t.tensor([0, 1])]",
        "t.arange(6).reshape(2, 3)[[0, 1], [1, 2]]",
        "t.arange(6).reshape(2, 3)[..., -1]",
        "t.arange(6).reshape(2, 3)[None, :, 1:]",
        "t.arange(6).reshape(2, 3)[t.tensor([True, False])]",
        "x.masked_fill(x > 0, float('-inf'))",
        "list(range(t.tensor(3)))",
        "len(x), list(x), tuple(x), [float(v) for v in x], sum(x), max(x), min(x)",
        "round(x[0].item(), 2), abs(x), x.__class__.__name__",
        "t.cumsum(x, 0), t.cumprod(x, dim=0), t.prod(x), t.std(x), t.var(x, unbiased=False)",
    ],
    "functions": [
        "isinstance(x, t.Tensor)",
        "t.testing.assert_close(x, x)",
        "x.cpu().tolist()",
        "t.numel(x)",
        "t.set_num_threads(1)",
        "x.size(), x.size(0), x.dim(), x.ndimension(), x.nelement()",
        "x.data, x.grad, x.is_leaf, x.requires_grad",
        "x.item() if x.numel() == 1 else 0",
        "x.new_zeros(2), x.new_ones(2), x.new_full((2,), 3.), x.new_tensor([1.]), x.new_empty(2).shape == (2,)",
        "x.unsqueeze(0).expand(2, -1)",
        "x.view(-1, 1), x.view(2, 1).view_as(x), x.reshape([2, 1])",
        "t.einsum('i,i->', x, x)",
        "t.norm(x), x.norm(2), t.linalg.norm(x)",
        "x.addcmul(x, x, value=2), x.addcdiv_(x, x + 10, value=2)",
        "t.save, t.load",
        "t.distributions.Normal(0., 1.).log_prob(x)",
        "t.distributions.kl_divergence(t.distributions.Normal(0., 1.), t.distributions.Normal(1., 1.))",
        "t.distributions.Categorical(logits=x).entropy()",
        "t.set_printoptions(precision=4)",
        "t.set_default_tensor_type('torch.FloatTensor')",
        "t.get_num_threads() > 0",
        "t.get_num_interop_threads() > 0",
        "t.tensor(3.).__float__(), int(t.tensor(3)), bool(t.tensor(True)), [0, 1, 2][t.tensor(1)]",
        "hash(x) == hash(x)",
        "x == None",
        "x.equal(x), t.equal(x, x), t.allclose(x, x)",
        "t.tensor(x).shape == (2,)",
        "i.float() / 2, i.true_divide(2), i // 2",
        "x.pow(2), x ** 2, x.sqrt(), x.rsqrt(), x.square()",
        "t.meshgrid(x, x), t.meshgrid([x, x], indexing='ij')",
        "t.topk(x, 1), t.sort(x), x.sort(descending=True)",
        "t.Tensor.__add__(x, x)",
        "x.stride(), x.is_contiguous(), x.contiguous()",
        "x.T, x.mT if x.ndim > 1 else 1",
        "x.map_(x, lambda a, b: a + b)",
        "x.to(t.float64, non_blocking=True), x.to(x), x.to('cpu', t.float64)",
        "x.index_add_(0, t.tensor([0]), t.tensor([1.]))",
        "x.element_size() * x.nelement()",
        "t.eye(2), t.full((2,), 1.), t.full([2], 1), t.empty((2, 2)).shape == (2, 2)",
        "t.tril(t.ones(2, 2)), t.triu(t.ones(2, 2), diagonal=1), t.diag(x)",
        "t.bmm(t.ones(1, 2, 2), t.ones(1, 2, 2)), t.baddbmm(t.ones(1, 2, 2), t.ones(1, 2, 2), t.ones(1, 2, 2))",
        "t.chunk(x, 2), t.split(x, 1), t.split(x, [1, 1]), t.unbind(x)",
        "t.max(x), t.max(x, 0)[0], t.max(x, x), t.min(x, dim=0)[1]",
        "t.erf(x), t.lgamma(x.abs()), t.sigmoid(x), t.special.expit(x), t.logsumexp(x, 0)",
        "t.gather(x, 0, t.tensor([0])), x.scatter_(0, t.tensor([0]), 1.), x.index_select(0, t.tensor([1]))",
        "t.flip(x, [0]), t.flip(x, dims=(0,)), t.roll(x, 1), x.repeat(2), t.tile(x, (2,)), x.permute(0), t.swapaxes(t.ones(1, 2), 0, 1)",
        "t.histc(x, 2), t.bincount(i.abs()), t.unique(x), t.unique(x, return_inverse=True)",
    ],
}
# fmt: on


def value(line: str, lib: Any) -> Any:
    names = {"t": lib, "np": np, "pickle": pickle, "copy": copy, "x": lib.tensor([1.5, -2.25]), "i": lib.tensor([4, 3])}
    *first, last = line.split("; ")
    for statement in first:
        exec(statement, names)
    return plain(eval(last, names))


def plain(v: Any) -> Any:
    """Tensors as lists; what else has no counterpart by its kind."""
    if isinstance(v, list | tuple):
        return [plain(e) for e in v]
    if isinstance(v, dict):
        return {k: plain(e) for k, e in v.items()}
    if hasattr(v, "tolist"):
        return v.tolist()
    return v if isinstance(v, int | float | str | None) else type(v).__name__


def numbers(v: Any) -> list[Any]:
    return [n for e in v for n in numbers(e)] if isinstance(v, list) else [v]


@pytest.mark.parametrize("of", LINES)
@pytest.mark.filterwarnings("ignore")  # both libraries', of older names
def test_lines_give_what_they_give_in_pytorch(of: str) -> None:
    wrong = []
    for line in LINES[of]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = value(line, torch)
            try:
                ours = value(line, sg)
            except Exception as error:
                ours = f"{type(error).__name__}: {error}"
        a, b = numbers(ours), numbers(theirs)
        same = len(a) == len(b) and all(m == n or close(m, n) for m, n in zip(a, b, strict=True))
        if not same:
            wrong.append(f"{line}: {ours}, PyTorch: {theirs}")
    assert not wrong, "\n".join(wrong)


def close(a: Any, b: Any) -> bool:
    floats = isinstance(a, float | int) and isinstance(b, float | int)
    return floats and bool(np.isclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))


def test_a_sampler_of_ten_thousand_million_draws_is_lazy() -> None:
    sampler = sg.utils.data.RandomSampler(range(10), replacement=True, num_samples=10**10)
    assert len(sampler) == 10**10
    assert next(iter(sampler)) in range(10)
    batches = sg.utils.data.BatchSampler(sg.utils.data.RandomSampler(range(4), num_samples=10), 3, False)
    assert sorted([k for batch in batches for k in batch][:4]) == [0, 1, 2, 3]


def test_drawing_in_a_fork_leaves_the_stream_where_it_was(device: str) -> None:
    sg.manual_seed(4)
    with sg.random.fork_rng():
        first = sg.rand(3, device=device)
    assert first.equal(sg.rand(3, device=device))


def test_data_parallel_is_the_module_on_one_device() -> None:
    inner = sg.nn.Linear(2, 1)
    model = sg.nn.DataParallel(inner)
    assert model(sg.ones(3, 2)).equal(inner(sg.ones(3, 2)))
    with pytest.raises(sg.DeviceError):
        sg.nn.DataParallel(inner, device_ids=[0, 1])
    with pytest.raises(sg.DeviceError):
        sg.nn.parallel.DistributedDataParallel(inner)


def test_switches_of_cuda_are_set_without_harm() -> None:
    """Ours alone: PyTorch's tables of tests forbid it there."""
    sg.backends.cudnn.deterministic, sg.backends.cudnn.benchmark, sg.backends.cudnn.enabled = True, False, True
    sg.backends.cuda.matmul.allow_tf32 = sg.backends.cudnn.allow_tf32 = True
    assert (sg.ones(2) + 1).tolist() == [2.0, 2.0]
