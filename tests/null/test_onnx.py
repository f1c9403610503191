"""Models as ONNX: onnxruntime gives what the model gives, for the sample's sizes and for others, or the export says why not."""

from __future__ import annotations

import copy
import importlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.as_torch import installed
from shadergrad.graph.primitive import REGISTRY
from shadergrad.onnx.elementwise import ELEMENTS
from shadergrad.onnx.export import RULES
from shadergrad.run.trees import tensors_in

pytest.importorskip("onnxruntime", reason='ONNX NOT TESTED: pip install "shadergrad[onnx]" onnxruntime')

CLOSE = 1e-5
Dim = sg.onnx.Dim
F = nn.functional


def assert_alike(program: Any, model: Any, *inputs: sg.Tensor) -> None:
    """The same values, shapes and dtypes, NaN where NaN is."""
    if isinstance(model, nn.Module):
        model.eval()
    with sg.no_grad():
        wanted = [t.detach() for _, t in tensors_in(model(*inputs))]
    for found, value in zip(program(*inputs), wanted, strict=True):
        assert (found.shape, found.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=CLOSE, atol=CLOSE)


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


class Decoder(nn.Module):
    """A small GPT: embeddings, causal attention, its last position."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(11, 16), nn.Embedding(12, 16)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: sg.Tensor) -> sg.Tensor:
        t = tokens.shape[1]
        x = self.token(tokens) + self.place(sg.arange(t))
        mask = sg.triu(sg.ones(t, t, dtype=sg.bool), 1)
        return self.head(self.layers(x, mask=mask)[:, -1])


sg.manual_seed(0)
CNN = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, padding=1), nn.AvgPool2d(2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3), nn.Softmax(-1),
)  # fmt: skip
AUTOMATON = sg.logic.LogicCA(2, 1, (9, 8, 4, 2), (4, 2), border="periodic").eval()
N = {0: "n"}
tokens = sg.randint(0, 11, (2, 12))
# model, sample, dynamic axes, samples of other sizes
MODELS: dict[str, tuple[Any, tuple[sg.Tensor, ...], Any, list[tuple[sg.Tensor, ...]]]] = {
    "mlp": (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), (sg.randn(3, 4),), (N,), [(sg.randn(1, 4),), (sg.randn(9, 4),)]),
    "cnn": (CNN, (sg.randn(2, 3, 16, 16),), (N,), [(sg.randn(5, 3, 16, 16),)]),
    "a picture of any size": (CNN[:5], (sg.randn(2, 3, 16, 16),), ({0: "n", 2: "h", 3: "w"},), [(sg.randn(1, 3, 21, 12),)]),
    "the ends of the numbers": (
        lambda x, h: (sg.expm1(x), F.elu(x), F.selu(x), F.softplus(x), sg.log1p(x.abs()), F.elu(h)),
        (sg.tensor([-float("inf"), -200.0, -1.5, -1e-5, 0.0, 1e-8, 80.0, float("inf"), float("nan")]), sg.tensor([-60.0, -24.0, -1.0], dtype=sg.float16)), None, [],
    ),
    "means of windows": (nn.AvgPool2d(2), (sg.randn(2, 3, 9, 11),), ({2: "h", 3: "w"},), [(sg.randn(2, 3, 25, 12),), (sg.randn(2, 3, 2, 3),)]),
    "windows that reach over the border": (nn.MaxPool2d(2, 2, ceil_mode=True), (sg.randn(1, 2, 8, 8),), ({2: "h", 3: "w"},), [(sg.randn(1, 2, 9, 12),), (sg.randn(1, 2, 12, 12),)]),
    "a limit beyond the sample": (lambda x: x * 2 if len(x) > 9 else x, (sg.randn(3, 4),), ({0: Dim("n", max=9)},), [(sg.randn(9, 4),)]),
    "groups": (nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2), (sg.randn(2, 4, 9, 9),), (N,), [(sg.randn(3, 4, 9, 9),)]),
    "transposed": (
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (sg.randn(2, 4, 5, 5),), (N,), [(sg.randn(3, 4, 5, 5),)],
    ),
    "lstm": (nn.LSTM(4, 8, 2, batch_first=True, bidirectional=True), (sg.randn(2, 5, 4),), (N,), [(sg.randn(1, 5, 4),), (sg.randn(7, 5, 4),)]),
    "gru": (nn.GRU(4, 8), (sg.randn(5, 2, 4),), ({1: "n"},), [(sg.randn(5, 3, 4),)]),
    "decoder": (Decoder(), (tokens,), ({0: "n", 1: "t"},), [(tokens[:1, :9],), (tokens[:, :1],)]),
    "attention of every length": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (sg.randn(2, 2, 12, 16),), ({0: "n", 2: "t"},),
        [(sg.randn(1, 2, 5, 16),), (sg.randn(3, 2, 20, 16),)],
    ),
    "attention in one": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), (sg.randn(2, 2, 12, 16), sg.rand(1, 1, 12, 12) > 0.9), None, [],
    ),
    "attention": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (sg.randn(2, 4, 6, 8), sg.rand(2, 1, 6, 6) > 0.5), (N, N), [(sg.randn(3, 4, 6, 8), sg.rand(3, 1, 6, 6) > 0.9)],
    ),
    "reductions and views": (
        lambda x: (
            x.mean(0), x.std(0), x.argmax(0), x.max(0), x.sort(0), x.cumsum(0), x.flip(0), x[1:], x[:-1], x[::2], x.T, x.reshape(-1),
            sg.cat([x, x]), F.pad(x, (0, 0, 1, 1)), x.unfold(1, 2, 1), x.roll(1, 0), x.tril(), x, x[:, :1].expand(-1, 4),
        ),
        (sg.randn(6, 4),), (N,), [(sg.randn(3, 4),), (sg.randn(8, 4),)],
    ),
    "integers": (
        lambda a, b: (a + b, a // b, a % b, a & b, a ^ b, ~a, a << b, a >> b, a < b, a.float(), a.bool(), a.abs(), sg.where(a > b, a, b)),
        (sg.randint(-90, 90, (3, 4)), sg.randint(1, 9, (3, 4))), (N, N), [(sg.randint(-90, 90, (2, 4)), sg.randint(1, 9, (2, 4)))],
    ),
    "bytes": (
        lambda a, b: (a + b, a * b, a // b, a & b, a >> b, a < b, a.to(sg.int32), sg.maximum(a, b)),
        (sg.randint(0, 255, (3, 4), dtype=sg.uint8), sg.randint(1, 9, (3, 4), dtype=sg.uint8)), None, [],
    ),
    "gates": (
        nn.Sequential(sg.logic.LogicNetwork((8, 16, 8), seed=1), sg.logic.GroupSum(2)), ((sg.rand(5, 8) > 0.5).float(),), (N,),
        [((sg.rand(3, 8) > 0.5).float(),)],
    ),
    "a convolution of gates": (sg.logic.LogicConv2d(2, 5, kernel_size=3, depth=2, padding=1), ((sg.rand(2, 2, 8, 8) > 0.5).float(),), (N,), []),
    "an automaton": (
        lambda x: AUTOMATON.rollout(x, steps=3), ((sg.rand(2, 4, 4, 2) > 0.5).float(),), None, [],
    ),
    "8 bits": (sg.quantize(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)), bits=8, group_size=32, symmetric=False), (sg.randn(3, 64),), (N,), [(sg.randn(2, 64),)]),
    "4 bits": (sg.quantize(nn.Sequential(nn.Linear(128, 32)), bits=4), (sg.randn(3, 128),), (N,), []),
    "halves": (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).half(), (sg.randn(3, 4).to(sg.float16),), None, []),
    "doubles": (nn.Sequential(nn.Linear(4, 8), nn.Tanh()).double(), (sg.randn(3, 4).double(),), None, []),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_gives_what_the_model_gives(name: str) -> None:
    model, sample, dynamic, others = MODELS[name]
    program = sg.onnx.export(model, sample, dynamic_shapes=dynamic, verify=True)
    for inputs in (sample, *others):
        assert_alike(program, model, *inputs)


@pytest.mark.parametrize("opset", [18, 20, 22, 24])
def test_every_opset_gives_the_same(opset: int) -> None:
    x = sg.randn(2, 3, 16, 16)
    assert_alike(sg.onnx.export(CNN, x, opset_version=opset), CNN, x)


def test_pooling_and_places_of_extrema_are_operators_of_their_own() -> None:
    program = sg.onnx.export(lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), x.argmax(-1)), sg.randn(1, 2, 6, 6))
    names = operators(program)
    assert {"MaxPool", "AveragePool", "ArgMax"} <= {*names}
    assert not {"Gather", "GatherElements", "Where"} & {*names}


def test_names_axes_and_weights_are_the_models(tmp_path: Path) -> None:
    onnx = importlib.import_module("onnx")
    model = nn.Linear(4, 2)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    program = sg.onnx.export(
        model, sg.randn(3, 4), tmp_path / "m.onnx", input_names=["x"], output_names=["y"], dynamic_axes=axes
    )
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert {"weight", "bias"} <= {i.name for i in graph.initializer}
    assert [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)] == [
        ["batch", 4], ["batch", 2],
    ]  # fmt: skip
    assert repr(program).endswith("x -> y)")
    sg.onnx.export(model, sg.randn(3, 4), tmp_path / "apart.onnx", external_data=True)
    assert (tmp_path / "apart.onnx.data").stat().st_size >= 4 * 10
    assert onnx.load(tmp_path / "apart.onnx").graph.initializer


def test_weights_may_be_inputs() -> None:
    program = sg.onnx.export(nn.Linear(4, 2), sg.randn(3, 4), keep_initializers_as_inputs=True)
    assert [i.name for i in program.model_proto.graph.input] == ["input", "weight", "bias"]


def test_a_model_stays_as_it_is() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).train()
    model[2].eval()
    before = {k: v.numpy() for k, v in model.state_dict().items()}
    program = sg.onnx.export(model, sg.randn(3, 4))
    assert [m.training for m in model] == [True, True, False]
    assert all(np.array_equal(before[k], v.numpy()) for k, v in model.state_dict().items())
    assert_alike(program, model, sg.randn(3, 4))


def test_axes_without_names_are_one_where_they_must_be() -> None:
    program = sg.onnx.export(lambda a, b: a * b, (sg.randn(2, 4), sg.randn(2, 4)), dynamic_axes={"a": [0], "b": [0]})
    assert_alike(program, lambda a, b: a * b, sg.randn(5, 4), sg.randn(5, 4))


def test_trees_of_arguments_and_results_get_names() -> None:
    def model(pair: dict[str, sg.Tensor], scale: float, *, bias: sg.Tensor) -> Any:
        return {"sum": pair["a"] + pair["b"] * scale, "rest": (bias * 2, None)}

    a, b, bias = sg.randn(2), sg.randn(2), sg.randn(3)
    program = sg.onnx.export(model, ({"a": a, "b": b}, 3.0), kwargs={"bias": bias})
    assert (program.input_names, program.output_names) == (
        ["pair_a", "pair_b", "bias"],
        ["output_sum", "output_rest_0"],
    )
    np.testing.assert_allclose(program(a, b, bias)[0].numpy(), (a + b * 3.0).numpy(), rtol=CLOSE)


def stateful(x: sg.Tensor) -> sg.Tensor:
    seen.append(x * 2)
    return x


seen: list[sg.Tensor] = []
x = sg.randn(6, 4)
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "random numbers": (lambda x: x + sg.randn(6, 4), {}, r"draws random numbers at test_onnx.py.*give noise"),
    "values read": (lambda x: x * x.sum().item(), {}, r"no file can: item\(\) reads a value"),
    "no operator": (lambda x: sg.special.erfinv(x), {}, r"applies erfinv of float32 at test_onnx.py"),
    "a function on the host": (lambda x: sg.special.bessel_j0(x), {}, r"applies bessel_j0 of float32 at test_onnx.py"),
    "a mask": (lambda x: x[x > 0], {}, r"indexing by a bool tensor reads a value inside a compiled step \(test_onnx.py"),
    "a solution on the host": (lambda x: sg.linalg.inv(x[:4]), {}, r"applies inverse of float32"),
    "kept tensors": (stateful, {}, r"leaves something in Python"),
    "a branch by the size": (lambda x: x * 2 if len(x) > 4 else x.exp(), {"dynamic_shapes": (N,)}, r"other operations.*fixed sizes"),
    "a number by the size": (lambda x: x * (2.0 if len(x) > 4 else 3.0), {"dynamic_shapes": (N,)}, r"number follows.*no formula"),
    "one size": (lambda x: x.reshape(8, 3), {"dynamic_shapes": (N,)}, r"does not take other sizes.*\(n\).*reshape"),
    "unrolled": (nn.LSTM(4, 4), {"dynamic_shapes": (N,)}, r"other operations"),
    "an old opset": (nn.ReLU(), {"opset_version": 9}, r"opset_version is 9"),
    "an unknown axis": (nn.ReLU(), {"dynamic_axes": {"input": {4: "n"}}}, r"has 2 axes, and no axis 4"),
    "outputs alone": (nn.ReLU(), {"dynamic_axes": {"output": {0: "n"}}}, r"names output, which the model makes, and no input"),
    "an unknown input": (nn.ReLU(), {"dynamic_axes": {"y": {0: "n"}}}, r"names 'y', but inputs and outputs are input, output"),
    "too many names": (nn.ReLU(), {"input_names": ["a", "b"]}, r"2 input names are given, for 1"),
    "too few sizes": (nn.ReLU(), {"dynamic_shapes": ({0: Dim("n", min=5, max=6)},)}, r"sizes 5 to 6: too few"),
    "numbers of Python that follow a size": (lambda x: x * sg.tensor([float(len(x))] * 4), {"dynamic_shapes": (N,)}, r"tensor of Python's numbers.*at test_onnx.py"),
    "arrays of another size": (lambda x: sg.hann_window(len(x)) @ x, {"dynamic_shapes": (N,)}, r"tensor of Python's numbers"),
    "weights of an interpolation": (lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), {"dynamic_shapes": (N,)}, "Python's numbers"),
    "a branch beyond the sample": (lambda x: x * 2 if len(x) > 9 else x, {"dynamic_shapes": (N,)}, r"other operations"),
    "a divisor that halves a size": (lambda x: x[:, ::2].mean(1), {"dynamic_shapes": ({0: "n", 1: "t"},)}, r"no formula"),
    "a least size beyond the sample": (lambda x: x.repeat(1, 2).diagonal(), {"dynamic_shapes": (N,)}, r"no formula"),
    "limits": (nn.ReLU(), {"dynamic_shapes": ({0: Dim("n", max=5)},)}, r"'n' has size 6 in input 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused_in_words(name: str) -> None:
    model, options, words = REFUSED[name]
    with pytest.raises(sg.onnx.OnnxError, match=re.compile(words, re.DOTALL)):
        sg.onnx.export(model, x, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": x}, "'model' must be nn.Module or a function"),
        ({"path": io.BytesIO()}, "'path' must be a path"),
        ({"opset_version": "18"}, "'opset_version' must be int"),
        ({"input_names": "x"}, "input_names is 'x'"),
        ({"input_names": [1]}, r"input_names is \[1\]"),
        ({"output_names": [""]}, r"output_names is \[''\]"),
        ({"input_names": ["a"], "output_names": ["a"]}, "both called a"),
        ({"dynamic_axes": "n"}, "'dynamic_axes' must be a dict"),
        ({"dynamic_axes": {"input": "n"}}, "must be a dict of axes and names"),
        ({"dynamic_axes": {"input": 0}}, "must be a dict of axes and names"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sg.ShadergradError, match=words):
        sg.onnx.export(options.pop("model", nn.ReLU()), x, **options)


def test_a_program_takes_the_dtypes_and_sizes_it_was_exported_for() -> None:
    program = sg.onnx.export(lambda x, k: x * k, (x, sg.tensor(2)), dynamic_axes={"x": [0]})
    k = sg.tensor(3)
    assert program(x[:2], k)[0].shape == (2, 4)
    for inputs, words in {
        "a dtype": ((x, sg.tensor(2.5)), "k is float32, and the program takes int"),
        "a size": ((x[:, :3], k), r"x is \(6, 3\), and the program takes \(x_dynamic_axes_1, 4\)"),
        "a rank": ((x[0], k), r"x is \(4,\)"),
    }.values():
        with pytest.raises(sg.onnx.OnnxError, match=words):
            program(*inputs)
    assert (copy.deepcopy(program)(x, k)[0] == program(x, k)[0]).all().item()
    with pytest.raises(sg.onnx.OnnxError, match="sizes of 5 to 3"):
        Dim("n", min=5, max=3)


def test_changed_buffers_are_refused() -> None:
    class Counting(nn.Module):
        count: sg.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", sg.zeros(1))

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            self.count += 1
            return x * self.count

    with pytest.raises(sg.onnx.OnnxError, match=r"changes what it holds \(count\)"):
        sg.onnx.export(Counting(), x)


def test_torch_onnx_export_is_this_function(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", sg.randn(3, 4)
    with installed():
        torch: Any = importlib.import_module("torch")
        model = torch.nn.Linear(4, 2)
        names = {"input_names": ["x"], "output_names": ["y"]}
        axes = {"x": {0: "batch"}, "y": {0: "batch"}}
        with pytest.warns(UserWarning, match="opset_version=13: the file is written for 18"):
            assert torch.onnx.export(model, x, path, **names, opset_version=13, dynamic_axes=axes, dynamo=False) is None
        program = torch.onnx.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},), verify=True)
        buffer = io.BytesIO()
        torch.onnx.export(model, (x,), buffer)
        for options, words in {
            "training": ({"training": torch.onnx.TrainingMode.TRAINING}, "for inference"),
            "weights": ({"export_params": False}, "holds its weights"),
            "operators": ({"custom_opsets": {"own": 1}}, "custom_opsets"),
        }.values():
            with pytest.raises(torch.onnx.OnnxExporterError, match=words):
                torch.onnx.export(model, (x,), **options)
        with pytest.raises(TypeError, match="unexpected keyword argument 'opset'"):
            torch.onnx.export(model, (x,), opset=18)
        assert torch.onnx.is_in_onnx_export() is False
    session = importlib.import_module("onnxruntime").InferenceSession(path)
    five = sg.randn(5, 4)
    np.testing.assert_allclose(
        session.run(["y"], {"x": five.numpy()})[0], model(five).detach().numpy(), rtol=CLOSE, atol=CLOSE
    )
    assert_alike(program, model, five)
    assert buffer.getvalue()


# Primitives without a rule: of training, of random numbers, of compilers alone, and special functions that ONNX lacks
WITHOUT = {
    "Threefry", "GammaDraw", "AttentionGradient", "Stored", "Placeholder", "Numbers", "Detached", "Alias", "Variable", "Detach",
    "SliceAt", "PadAt", "Unwindow", "Bitcast", "NextAfter", "Gcd", "Exponent", "Erfinv", "Lgamma", "Digamma", "Zeta", "Erfcx", "I0e", "I1e",
    "Gammainc", "Gammaincc", "GammaSlope",
}  # fmt: skip


NAMED = frozenset(REGISTRY)  # before the programs of documents define their own


def test_every_primitive_of_inference_has_a_rule() -> None:
    """Calls that compilers make of others, and what the host computes, are none of them; nor are operations that programs define."""
    rooms = ("shadergrad.primitives.", "shadergrad.graph.")
    known = {n: REGISTRY[n] for n in NAMED}
    of_inference = {n for n, p in known.items() if p.__module__.startswith(rooms) and p.kind not in ("call", "host")}
    missing = of_inference - RULES.keys() - ELEMENTS
    assert missing == WITHOUT & of_inference, missing ^ (WITHOUT & of_inference)
