"""The modules that tests walk: one line each, built in either library and called on the same arrays.

A new module is a class, its name in the `__all__` of its file, and a case here; `test_every_public_module_has_a_case` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ModuleCase:
    """`make` builds a module from either namespace; `call` runs it on tensors made from `inputs` (arrays)."""

    name: str
    make: Callable[[Any], Any]
    inputs: tuple[np.ndarray, ...]
    call: Callable[..., Any] = lambda m, *xs: m(*xs)
    train: bool = True
    length: int = 30  # of sums, scales the tolerance on webgpu
    tolerance: float = 1e-9  # in float64
    on_webgpu: bool = True  # False for those made of parts that others test there: their kernels are many
    fixed: tuple[int, ...] = ()  # inputs that PyTorch does not differentiate
    prints: bool = True  # False where PyTorch prints the names of its dtypes
    as_a_whole: bool = True  # False where `call` reaches into the module, which a mirror does not show

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def ints(*shape: int, below: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, below, shape)


def drawn(module: Any, x: Any, draws: Any) -> Any:
    """The module with its windows begun at given draws."""
    module._random_samples = draws
    return module(x)


CASES: list[ModuleCase] = []


def case(name: str, make: Callable[[Any], Any], *inputs: np.ndarray, **options: Any) -> None:
    CASES.append(ModuleCase(name, make, inputs, **options))


case("Linear", lambda nn: nn.Linear(4, 3), floats(2, 5, 4))
case("Linear without bias", lambda nn: nn.Linear(4, 3, bias=False), floats(4))
case("Bilinear", lambda nn: nn.Bilinear(3, 4, 2), floats(2, 5, 3), floats(2, 5, 4))
case("Identity", lambda nn: nn.Identity(3, foo=2), floats(2, 3))
case("Flatten", lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), floats(2, 3, 4))
case("Unflatten", lambda nn: nn.Unflatten(1, (2, -1)), floats(3, 6, 2))
case("PixelShuffle", lambda nn: nn.PixelShuffle(2), floats(2, 8, 2, 3))
case("PixelUnshuffle", lambda nn: nn.PixelUnshuffle(2), floats(2, 2, 4, 2))
case("ChannelShuffle", lambda nn: nn.ChannelShuffle(2), floats(2, 6, 2, 2))
case("Embedding", lambda nn: nn.Embedding(5, 3), ints(4, 6, below=5))
case("Embedding with padding", lambda nn: nn.Embedding(5, 3, padding_idx=-3), ints(2, 7, below=5))
case("Embedding by frequency", lambda nn: nn.Embedding(5, 3, scale_grad_by_freq=True), ints(2, 7, below=5))
case("Embedding with max_norm", lambda nn: nn.Embedding(5, 3, max_norm=1.0), ints(3, below=5))

for _train in (True, False):
    _mode = "training" if _train else "eval"
    case(f"BatchNorm1d {_mode}", lambda nn: nn.BatchNorm1d(3), floats(4, 3), train=_train)
    case(
        f"BatchNorm1d of sequences {_mode}", lambda nn: nn.BatchNorm1d(3, momentum=None), floats(4, 3, 5), train=_train
    )
    case(f"BatchNorm2d {_mode}", lambda nn: nn.BatchNorm2d(3, eps=1e-3), floats(2, 3, 4, 5), train=_train)
    case(
        f"BatchNorm1d without statistics {_mode}",
        lambda nn: nn.BatchNorm1d(3, affine=False, track_running_stats=False),
        floats(4, 3),
        train=_train,
    )
    case(
        f"InstanceNorm1d with all {_mode}",
        lambda nn: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        floats(2, 3, 5),
        train=_train,
    )
case("BatchNorm3d", lambda nn: nn.BatchNorm3d(2), floats(2, 2, 2, 3, 2))
case("BatchNorm without bias", lambda nn: nn.BatchNorm1d(3, bias=False), floats(4, 3))
case("InstanceNorm1d of one", lambda nn: nn.InstanceNorm1d(3), floats(3, 5))
case("InstanceNorm3d", lambda nn: nn.InstanceNorm3d(2), floats(2, 2, 2, 3, 2))
case("InstanceNorm2d", lambda nn: nn.InstanceNorm2d(3, affine=True), floats(2, 3, 3, 4))
case("LayerNorm", lambda nn: nn.LayerNorm(7), floats(2, 3, 7))
case("LayerNorm of two axes", lambda nn: nn.LayerNorm((3, 5), eps=1e-2), floats(2, 3, 5))
case("LayerNorm without bias", lambda nn: nn.LayerNorm(7, bias=False), floats(3, 7))
case("LayerNorm plain", lambda nn: nn.LayerNorm(7, elementwise_affine=False), floats(3, 7))
case("RMSNorm", lambda nn: nn.RMSNorm(7, eps=1e-6), floats(2, 3, 7))
case("RMSNorm of two axes", lambda nn: nn.RMSNorm((3, 7), eps=1e-6, elementwise_affine=False), floats(2, 3, 7))
case("GroupNorm", lambda nn: nn.GroupNorm(2, 6), floats(3, 6, 4))
case("GroupNorm of images", lambda nn: nn.GroupNorm(3, 6), floats(2, 6, 2, 3))

CORNERS = np.array([-30.0, -6.0, -3.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 6.0, 19.5, 30.0])
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "ReLU": lambda nn: nn.ReLU(),
    "ReLU6": lambda nn: nn.ReLU6(),
    "LeakyReLU": lambda nn: nn.LeakyReLU(0.2),
    "PReLU": lambda nn: nn.PReLU(),
    "ELU": lambda nn: nn.ELU(0.7),
    "SELU": lambda nn: nn.SELU(),
    "CELU": lambda nn: nn.CELU(2.0),
    "SiLU": lambda nn: nn.SiLU(),
    "Mish": lambda nn: nn.Mish(),
    "GELU": lambda nn: nn.GELU(),
    "GELU tanh": lambda nn: nn.GELU("tanh"),
    "Softplus": lambda nn: nn.Softplus(),
    "Softplus sharp": lambda nn: nn.Softplus(beta=2.0, threshold=5.0),
    "LogSigmoid": lambda nn: nn.LogSigmoid(),
    "Sigmoid": lambda nn: nn.Sigmoid(),
    "Tanh": lambda nn: nn.Tanh(),
    "Hardtanh": lambda nn: nn.Hardtanh(-0.5, 1.0),
    "Hardswish": lambda nn: nn.Hardswish(),
    "Hardsigmoid": lambda nn: nn.Hardsigmoid(),
    "Hardshrink": lambda nn: nn.Hardshrink(),
    "Softshrink": lambda nn: nn.Softshrink(),
    "Tanhshrink": lambda nn: nn.Tanhshrink(),
    "Softsign": lambda nn: nn.Softsign(),
    "Threshold": lambda nn: nn.Threshold(0.5, -2.0),
    "RReLU": lambda nn: nn.RReLU(),
    "Softmax": lambda nn: nn.Softmax(-1),
    "LogSoftmax": lambda nn: nn.LogSoftmax(0),
    "Softmin": lambda nn: nn.Softmin(1),
    "GLU": lambda nn: nn.GLU(),
}
for _name, _make in ACTIVATIONS.items():
    case(
        _name,
        _make,
        CORNERS.reshape(2, 7) if _name != "GLU" else CORNERS.reshape(7, 2),
        train=False,
        tolerance=1e-7 if _name == "Hardsigmoid" else 1e-9,  # PyTorch's 1/6 is of float32
    )
case("PReLU by channels", lambda nn: nn.PReLU(3), floats(2, 3, 4))
case("Softmax2d", lambda nn: nn.Softmax2d(), floats(2, 3, 2, 2))

for _kind in ("RNN", "GRU", "LSTM"):
    case(_kind, lambda nn, k=_kind: getattr(nn, k)(3, 4), floats(3, 2, 3))
    case(
        f"{_kind} with all",
        lambda nn, k=_kind: getattr(nn, k)(3, 2, num_layers=2, bidirectional=True, batch_first=True),
        floats(2, 2, 3),
        on_webgpu=_kind == "RNN",
    )
    case(f"{_kind} of one", lambda nn, k=_kind: getattr(nn, k)(3, 4, bias=False), floats(4, 3))
    case(f"{_kind}Cell", lambda nn, k=_kind: getattr(nn, f"{k}Cell")(3, 4), floats(2, 3))
case("RNN relu", lambda nn: nn.RNN(3, 4, nonlinearity="relu"), floats(3, 2, 3))
case("RNNCell relu of one", lambda nn: nn.RNNCell(3, 4, nonlinearity="relu"), floats(3), floats(4))
case("GRU from a state", lambda nn: nn.GRU(3, 4, 2), floats(3, 2, 3), floats(2, 2, 4), on_webgpu=False)
case(
    "LSTM from a state, projected",
    lambda nn: nn.LSTM(3, 4, proj_size=2),
    floats(3, 2, 3),
    floats(1, 2, 2),
    floats(1, 2, 4),
    call=lambda m, x, h, c: m(x, (h, c)),
)
case(
    "LSTMCell from a state",
    lambda nn: nn.LSTMCell(3, 4),
    floats(2, 3),
    floats(2, 4),
    floats(2, 4, seed=1),
    call=lambda m, x, h, c: m(x, (h, c)),
)


def hidden(n: int, s: int) -> np.ndarray:
    """True for some keys of each sample, never for the first."""
    mask = np.random.default_rng(3).random((n, s)) < 0.4
    mask[:, 0] = False
    return mask


def causal(n: int) -> np.ndarray:
    return np.triu(np.ones((n, n), bool), 1)


case("MultiheadAttention", lambda nn: nn.MultiheadAttention(4, 2), floats(3, 2, 4), call=lambda m, x: m(x, x, x))
case(
    "MultiheadAttention to others",
    lambda nn: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True, bias=False),
    floats(2, 3, 4),
    floats(2, 5, 3),
    floats(2, 5, 5),
    call=lambda m, q, k, v: m(q, k, v, average_attn_weights=False),
)
case(
    "MultiheadAttention with masks",
    lambda nn: nn.MultiheadAttention(4, 2, batch_first=True),
    floats(2, 4, 4),
    hidden(2, 4),
    causal(4),
    call=lambda m, x, padding, mask: m(x, x, x, key_padding_mask=padding, attn_mask=mask),
)
case(
    "MultiheadAttention with more keys",
    lambda nn: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True),
    floats(3, 2, 4),
    floats(4, 3, 3),
    hidden(2, 3),
    call=lambda m, x, mask, padding: m(x, x * 2, x, attn_mask=mask, key_padding_mask=padding * -1.5),
)
case(
    "MultiheadAttention without weights",
    lambda nn: nn.MultiheadAttention(4, 2),
    floats(3, 4),
    causal(3),
    call=lambda m, x, mask: m(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)[0],
)
for _first in (False, True):
    case(
        f"TransformerEncoderLayer norm {'first' if _first else 'last'}",
        lambda nn, first=_first: nn.TransformerEncoderLayer(
            4, 2, 8, 0.0, "gelu" if first else "relu", batch_first=True, norm_first=first
        ),
        floats(2, 3, 4),
        hidden(2, 3),
        call=lambda m, x, padding: m(x, src_key_padding_mask=padding),
    )
case(
    "TransformerEncoder",
    lambda nn: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 1, 6, 0.0), 2, nn.LayerNorm(4), enable_nested_tensor=False
    ),
    floats(3, 2, 4),
    causal(3),
    call=lambda m, x, mask: m(x, mask=mask),
    on_webgpu=False,
)
case(
    "Transformer",
    lambda nn: nn.Transformer(4, 2, 1, 1, 5, 0.0, batch_first=True),
    floats(2, 3, 4),
    floats(2, 2, 4),
    call=lambda m, src, tgt: m(src, tgt),
    on_webgpu=False,
)
case(
    "containers",
    lambda nn: nn.Sequential(
        nn.ModuleDict({"a": nn.Linear(3, 4)})["a"], *nn.ModuleList([nn.Tanh(), nn.Linear(4, 2)]), nn.BatchNorm1d(2)
    ),
    floats(4, 3),
)


def modules_held(nn: Any) -> Any:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.listed = nn.ModuleList([nn.Linear(3, 4), nn.Tanh()])
            self.named = nn.ModuleDict({"a": nn.Linear(4, 2)})

        def forward(self, x: Any) -> Any:
            for layer in self.listed:
                x = layer(x)
            return self.named["a"](x)

    return Held()


def parameters_held(nn: Any) -> Any:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scales = nn.ParameterList([nn.Linear(1, 2).bias])
            self.shifts = nn.ParameterDict({"b": nn.Linear(1, 2).bias})

        def forward(self, x: Any) -> Any:
            return x * self.scales[0] + self.shifts["b"]

    return Held()


case("modules held", modules_held, floats(5, 3))
case("parameters held", parameters_held, floats(5, 2), prints=False)

# -- convolution, pooling, resampling: the kernels of their functions are tested on webgpu in test_conv.py

SPATIAL: dict[str, tuple[Any, ...]] = {
    "Conv": (2, 3, 3),
    "ConvTranspose": (2, 3, 2, 2, 0, 1),
    "MaxPool": (2, None, 1),
    "AvgPool": (2, 1, 1),
    "AdaptiveAvgPool": (3,),
    "AdaptiveMaxPool": (3,),
}
for _rank in (1, 2, 3):
    for _kind, _arguments in SPATIAL.items():
        case(
            f"{_kind}{_rank}d",
            lambda nn, name=f"{_kind}{_rank}d", arguments=_arguments: getattr(nn, name)(*arguments),
            floats(2, 2, *(7, 6, 5)[:_rank]),
            on_webgpu=_rank == 2,
            length=60,
        )
    case(
        f"Dropout{_rank}d",
        lambda nn, r=_rank: getattr(nn, f"Dropout{r}d")(0.3),
        floats(2, 2, *(7, 6, 5)[:_rank]),
        train=False,
        on_webgpu=False,
    )
case("Conv2d with all", lambda nn: nn.Conv2d(4, 6, (3, 2), 2, (1, 2), (1, 2), 2, bias=False), floats(2, 4, 7, 8))
case("Conv2d unbatched", lambda nn: nn.Conv2d(2, 3, 3), floats(2, 5, 6))
for _mode in ("reflect", "replicate", "circular"):
    case(
        f"Conv2d padded, {_mode}",
        lambda nn, m=_mode: nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode=m),
        floats(2, 2, 5, 6),
        on_webgpu=_mode == "reflect",
    )
case("Conv1d same", lambda nn: nn.Conv1d(2, 3, 4, padding="same", padding_mode="circular"), floats(2, 2, 9))
case(
    "ConvTranspose2d to a size",
    lambda nn: nn.ConvTranspose2d(2, 3, 3, stride=2),
    floats(2, 2, 3, 4),
    call=lambda m, x: m(x, output_size=(8, 10)),
)
case("MaxPool2d with all", lambda nn: nn.MaxPool2d(2, (1, 2), 1, 2, ceil_mode=True), floats(2, 3, 8, 9))
case("AvgPool2d with all", lambda nn: nn.AvgPool2d(3, 2, 1, True, False, 5), floats(2, 3, 8, 9))
case("AdaptiveAvgPool2d of one axis", lambda nn: nn.AdaptiveAvgPool2d((None, 2)), floats(2, 3, 5, 7))
case("Upsample", lambda nn: nn.Upsample(scale_factor=2), floats(2, 3, 4, 5))
case("Upsample to a size", lambda nn: nn.Upsample((5, 9), mode="bilinear", align_corners=True), floats(2, 3, 4, 6))
case("Dropout", lambda nn: nn.Dropout(0.3), floats(2, 3), train=False)
case("AlphaDropout", lambda nn: nn.AlphaDropout(0.3), floats(2, 3), train=False)
case("FeatureAlphaDropout", lambda nn: nn.FeatureAlphaDropout(0.3), floats(2, 3, 4), train=False)
case(
    "MultiheadAttention in eval",
    lambda nn: nn.MultiheadAttention(4, 2, 0.5),
    floats(3, 2, 4),
    call=lambda m, x: m(x, x, x),
    train=False,
)
for _first in (False, True):
    case(
        f"TransformerDecoderLayer norm {'first' if _first else 'last'}",
        lambda nn, first=_first: nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=first),
        floats(2, 3, 4),
        floats(2, 2, 4),
        on_webgpu=not _first,
    )

# -- losses: every reduction, and webgpu, in the cases of their functions in test_losses.py


def probabilities(*shape: int, seed: int = 0) -> np.ndarray:
    powers = np.exp(floats(*shape, seed=seed))
    return powers / powers.sum(1, keepdims=True)


def signs(*shape: int) -> np.ndarray:
    return np.where(floats(*shape, seed=9) > 0, 1.0, -1.0)


def loss(name: str, make: Callable[[Any], Any], *inputs: np.ndarray, **options: Any) -> None:
    case(name, make, *inputs, on_webgpu=False, **options)


a, b, c = floats(4, 5), floats(4, 5, seed=1), floats(4, 5, seed=2)
loss("MSELoss", lambda nn: nn.MSELoss(), a, b)
loss("L1Loss", lambda nn: nn.L1Loss(reduction="sum"), a, b)
loss("SmoothL1Loss", lambda nn: nn.SmoothL1Loss(beta=0.5), a, b)
loss("HuberLoss", lambda nn: nn.HuberLoss(delta=0.5), a, b)
loss("CrossEntropyLoss", lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2), a, ints(4, below=5))
loss(
    "LinearCrossEntropyLoss",
    lambda nn: nn.LinearCrossEntropyLoss(5, 3, bias=True, options=nn.LinearCrossEntropyOptions(batch_chunk_size=3)),
    a,
    ints(4, below=3),
)
loss(
    "LinearCrossEntropyLoss of images",
    lambda nn: nn.LinearCrossEntropyLoss(5, 3, out_features=(2, 2), bias=True),
    a,
    ints(4, 2, 2, below=3),
)
loss("NLLLoss", lambda nn: nn.NLLLoss(reduction="none"), np.log(probabilities(4, 5)), ints(4, below=5))
loss("BCELoss", lambda nn: nn.BCELoss(), probabilities(4, 5), probabilities(4, 5, seed=1), fixed=(1,))
loss("BCEWithLogitsLoss", lambda nn: nn.BCEWithLogitsLoss(), a, probabilities(4, 5))
loss(
    "KLDivLoss",
    lambda nn: nn.KLDivLoss(reduction="batchmean"),
    np.log(probabilities(4, 5)),
    probabilities(4, 5, seed=1),
)
loss("PoissonNLLLoss", lambda nn: nn.PoissonNLLLoss(full=True), a, np.abs(b) * 3, fixed=(1,))
loss("GaussianNLLLoss", lambda nn: nn.GaussianNLLLoss(full=True), a, b, np.abs(c) + 0.1)
loss("SoftMarginLoss", lambda nn: nn.SoftMarginLoss(), a, signs(4, 5), fixed=(1,))
loss("HingeEmbeddingLoss", lambda nn: nn.HingeEmbeddingLoss(0.5), a, signs(4, 5), fixed=(1,))
loss("MarginRankingLoss", lambda nn: nn.MarginRankingLoss(0.5), a, b, signs(4, 5), fixed=(2,))
loss("CosineEmbeddingLoss", lambda nn: nn.CosineEmbeddingLoss(0.2), a, b, signs(4), fixed=(2,))
loss("TripletMarginLoss", lambda nn: nn.TripletMarginLoss(2.0, swap=True), a, b, c)
loss(
    "TripletMarginWithDistanceLoss",
    lambda nn: nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0),
    *(a, b, c),
)
loss("CosineSimilarity", lambda nn: nn.CosineSimilarity(), a, b)
loss("PairwiseDistance", lambda nn: nn.PairwiseDistance(), a, b)

for _rank in (1, 2, 3):
    _image = floats(2, 3, *[5] * _rank)
    for _kind in ("Zero", "Reflection", "Replication", "Circular"):
        _name = f"{_kind}Pad{_rank}d"
        case(_name, lambda nn, n=_name: getattr(nn, n)(1), _image)
        case(f"{_name} amounts", lambda nn, n=_name, r=_rank: getattr(nn, n)((1, 2) * r), _image[0])
    _name = f"ConstantPad{_rank}d"
    case(_name, lambda nn, n=_name, r=_rank: getattr(nn, n)((2, -1) * r, 0.5), _image)
case("Unfold", lambda nn: nn.Unfold((2, 3), dilation=2, padding=1, stride=2), floats(2, 3, 6, 7))
case("Fold", lambda nn: nn.Fold((4, 5), (2, 3), padding=1), floats(2, 18, 25))
case("UpsamplingNearest2d", lambda nn: nn.UpsamplingNearest2d(scale_factor=2), floats(2, 3, 4, 5))
case("UpsamplingBilinear2d", lambda nn: nn.UpsamplingBilinear2d(size=(6, 7)), floats(2, 3, 4, 5))

# -- pooling by powers, over random windows, and back; kernels of their functions are tested on webgpu in test_conv.py

for _rank in (1, 2, 3):
    _image = floats(2, 3, *(6, 5, 4)[:_rank])
    case(f"LPPool{_rank}d", lambda nn, r=_rank: getattr(nn, f"LPPool{r}d")(2, 2, ceil_mode=True), np.abs(_image))
    case(
        f"LPPool{_rank}d of one",
        lambda nn, r=_rank: getattr(nn, f"LPPool{r}d")(3.0, 3, 1),
        np.abs(_image[0]),
        on_webgpu=False,
    )
    case(
        f"MaxUnpool{_rank}d",
        lambda nn, r=_rank: nn.Sequential(
            getattr(nn, f"MaxPool{r}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{r}d")(2)
        ),
        _image,
        call=lambda m, x: m[1](*m[0](x), output_size=x.shape),
        as_a_whole=False,
    )
    if _rank > 1:
        _draws = np.random.default_rng(4).random((2, 3, _rank))
        _large = floats(2, 3, *(8, 9, 7)[:_rank])
        case(
            f"FractionalMaxPool{_rank}d",
            lambda nn, r=_rank: getattr(nn, f"FractionalMaxPool{r}d")(2, output_ratio=(0.5, 0.7, 0.6)[:r]),
            _large,
            _draws,
            call=drawn,
            as_a_whole=False,
            fixed=(1,),
        )
        case(
            f"FractionalMaxPool{_rank}d to a size",
            lambda nn, r=_rank: getattr(nn, f"FractionalMaxPool{r}d")((2, 3, 2)[:r], 3, return_indices=True),
            _large,
            _draws,
            call=drawn,
            as_a_whole=False,
            fixed=(1,),
            on_webgpu=False,
        )
case("LocalResponseNorm", lambda nn: nn.LocalResponseNorm(3, alpha=0.5, k=2.0), floats(2, 5, 4))
case("LocalResponseNorm of images", lambda nn: nn.LocalResponseNorm(2), floats(2, 4, 3, 2), on_webgpu=False)

# -- bags

for _mode in ("sum", "mean", "max"):
    case(f"EmbeddingBag by {_mode}", lambda nn, m=_mode: nn.EmbeddingBag(5, 3, mode=m), ints(4, 6, below=5))
case(
    "EmbeddingBag with offsets, padding",
    lambda nn: nn.EmbeddingBag(5, 3, padding_idx=-4, include_last_offset=True),
    ints(9, below=5),
    np.array([0, 3, 3, 7, 9]),
)
case(
    "EmbeddingBag of weighted rows",
    lambda nn: nn.EmbeddingBag(5, 3, mode="sum"),
    ints(2, 4, below=5),
    floats(2, 4),
    call=lambda m, x, w: m(x, None, w),
)
case("EmbeddingBag with max_norm", lambda nn: nn.EmbeddingBag(5, 3, 1.0, mode="sum"), ints(2, 3, below=5))
_EACH_TWICE = np.array([[3, 0, 1, 4, 1], [2, 2, 0, 4, 3]])  # where they differ, PyTorch divides by another row's count
case("EmbeddingBag by frequency", lambda nn: nn.EmbeddingBag(5, 3, scale_grad_by_freq=True), _EACH_TWICE)

# -- losses of labels

LABELS = np.array([[2, 0, -1, 1, 1], [4, -1, 3, 3, 3], [-1, 0, 0, 0, 0], [0, 1, 2, 3, 4]])
loss("MultiMarginLoss", lambda nn: nn.MultiMarginLoss(2, 0.7), a, ints(4, below=5))
loss("MultiMarginLoss of one", lambda nn: nn.MultiMarginLoss(reduction="sum"), a[0], ints(1, below=5))
loss("MultiLabelMarginLoss", lambda nn: nn.MultiLabelMarginLoss(), a, LABELS)
loss("MultiLabelSoftMarginLoss", lambda nn: nn.MultiLabelSoftMarginLoss(), a, probabilities(4, 5), fixed=(1,))
loss(
    "CTCLoss",
    lambda nn: nn.CTCLoss(blank=1, zero_infinity=True),
    np.log(probabilities(2, 5, 4).transpose(2, 0, 1)),
    np.array([[0, 2, 2], [3, 4, 0]]),
    np.array([4, 3]),
    np.array([3, 2]),
)
