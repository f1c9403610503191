"""Names with an underscore that public programs derive from, ask isinstance for or call: PyTorch has no others for these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad.as_torch.stand_ins import stand_ins

LIBRARIES = [stand_ins()["torch"], torch]
BASES = {
    "conv._ConvNd": ("Conv1d(2, 2, 1)", "ConvTranspose2d(2, 2, 1)", "LazyConv1d(2, 1)"),
    "conv._ConvTransposeNd": ("ConvTranspose2d(2, 2, 1)",),
    "batchnorm._BatchNorm": ("BatchNorm1d(2)", "BatchNorm2d(2)", "SyncBatchNorm(2)"),
    "batchnorm._NormBase": ("BatchNorm1d(2)", "BatchNorm2d(2)", "SyncBatchNorm(2)", "InstanceNorm2d(2)"),
    "instancenorm._InstanceNorm": ("InstanceNorm2d(2)",),
    "dropout._DropoutNd": ("Dropout()", "Dropout2d()", "AlphaDropout()"),
    "pooling._MaxPoolNd": ("MaxPool2d(2)",),
    "pooling._AvgPoolNd": ("AvgPool1d(2)",),
    "pooling._AdaptiveMaxPoolNd": ("AdaptiveMaxPool1d(2)",),
    "pooling._AdaptiveAvgPoolNd": ("AdaptiveAvgPool2d(2)",),
    "pooling._LPPoolNd": ("LPPool1d(2, 2)",),
    "pooling._MaxUnpoolNd": ("MaxUnpool1d(2)",),
    "padding._ConstantPadNd": ("ConstantPad1d(1, 0.0)", "ZeroPad2d(1)"),
    "padding._ReflectionPadNd": ("ReflectionPad1d(1)",),
    "padding._ReplicationPadNd": ("ReplicationPad1d(1)",),
    "padding._CircularPadNd": ("CircularPad1d(1)",),
    "lazy.LazyModuleMixin": ("LazyLinear(2)", "LazyConv1d(2, 1)"),
    "loss._Loss": ("MSELoss()", "CrossEntropyLoss()", "BCELoss()", "CTCLoss()"),
    "loss._WeightedLoss": ("CrossEntropyLoss()", "BCELoss()"),
    "rnn.RNNBase": ("LSTM(2, 2)", "GRU(2, 2)"),
    "rnn.RNNCellBase": ("LSTMCell(2, 2)",),
}
MODULES = sorted({one for some in BASES.values() for one in some} | {"Linear(2, 2)", "LayerNorm(2)"})


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "pytorch"])
@pytest.mark.parametrize("name", BASES)
def test_a_base_class_has_the_instances_of_pytorch(name: str, library: Any) -> None:
    module, base = name.split(".")
    cls = getattr(getattr(library.nn.modules, module), base)
    found = {one for one in MODULES if isinstance(eval(f"nn.{one}", {"nn": library.nn}), cls)}
    assert found == set(BASES[name])


def both(program: Any) -> list[Any]:
    """What a program gives for each library, as lists and arrays."""
    found = [program(library) for library in LIBRARIES]
    plain = [[np.asarray(v.detach().numpy()) if hasattr(v, "detach") else v for v in values] for values in found]
    for ours, theirs in zip(*plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    return plain[0]


def filled(module: Any, library: Any) -> Any:
    with library.no_grad():
        for parameter in module.parameters():
            parameter.copy_(library.arange(parameter.numel()).reshape(parameter.shape).float().sin())
    return module


@pytest.mark.parametrize(
    "padding", [{"padding": 1}, {"padding": "same", "dilation": 2}, {"padding_mode": "circular", "padding": (2, 1)}]
)
def test_a_convolution_takes_a_weight_of_the_programs_own(padding: Any) -> None:
    def program(lib: Any) -> list[Any]:
        class Standardized(lib.nn.Conv2d):
            def forward(self, x: Any) -> Any:
                return self._conv_forward(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True), None)

        layer = filled(Standardized(2, 3, 3, **padding), lib)
        return [layer(lib.arange(50.0).reshape(1, 2, 5, 5) / 50), list(layer._reversed_padding_repeated_twice)]

    both(program)


def test_a_convolution_derived_from_the_base_class_takes_its_arguments_in_order() -> None:
    def program(lib: Any) -> list[Any]:
        class Mine(lib.nn.modules.conv._ConvNd):
            def __init__(self, i: int, o: int, k: int, groups: int) -> None:
                super().__init__(i, o, (k, k), (2, 2), (1, 1), (1, 1), False, (0, 0), groups, False, "zeros")

            def forward(self, x: Any) -> Any:
                return lib.nn.functional.conv2d(
                    x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
                )

        layer = filled(Mine(4, 6, 3, 2), lib)
        assert layer.bias is None
        return [layer(lib.arange(100.0).reshape(1, 4, 5, 5) / 50), layer.weight, layer.output_padding, layer.transposed]

    both(program)


def test_convolutions_draw_their_parameters_by_a_method_that_programs_call_and_replace() -> None:
    def program(lib: Any) -> list[Any]:
        class Ones(lib.nn.Conv1d):
            def reset_parameters(self) -> None:
                lib.nn.init.ones_(self.weight)

        layer = filled(lib.nn.ConvTranspose2d(2, 4, 3, groups=2), lib)
        before = layer.weight.clone()
        layer.reset_parameters()
        assert not (layer.weight == before).any()
        return [Ones(1, 2, 3).weight, (layer.weight.abs() <= 18**-0.5).all(), (layer.bias.abs() <= 18**-0.5).all()]

    assert both(program)[1:] == [True, True]


def test_a_norm_checks_its_input_by_a_method_that_programs_replace() -> None:
    def program(lib: Any) -> list[Any]:
        class Any2(lib.nn.BatchNorm2d):
            def _check_input_dim(self, input: Any) -> None:
                pass

        class AnyRank(lib.nn.modules.batchnorm._BatchNorm):
            def _check_input_dim(self, input: Any) -> None:
                pass

        x = lib.arange(48.0).reshape(2, 3, 2, 2, 2, 1).sin()
        return [Any2(3)(x[:, :, 0, 0, 0, 0]), AnyRank(3)(x)]

    both(program)


def test_a_loss_takes_the_arguments_of_before_reductions_in_order() -> None:
    def program(lib: Any) -> list[Any]:
        class Mine(lib.nn.modules.loss._Loss):
            def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "sum") -> None:
                super().__init__(size_average, reduce, reduction)

        class Weighted(lib.nn.modules.loss._WeightedLoss):
            def __init__(
                self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "none"
            ) -> None:
                super().__init__(weight, size_average, reduce, reduction)

        made = [
            Mine(),
            Mine(reduction="mean"),
            Mine(False),
            Mine(True),
            Mine(None, False),
            lib.nn.MSELoss(False),
            Weighted(lib.ones(2)),
        ]
        return [{"none": 0, "mean": 1, "sum": 2}[loss.reduction] for loss in made] + [made[-1].weight]

    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
        assert both(program)[:7] == [2, 1, 2, 1, 0, 2, 0]


def test_a_module_moves_what_its_apply_moves() -> None:
    def program(lib: Any) -> list[Any]:
        class Mine(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner, self.table, self.moves = lib.nn.Linear(2, 2), lib.ones(2), 0

            def _apply(self, fn: Any, *rest: Any) -> Any:
                super()._apply(fn, *rest)
                self.table, self.moves = fn(self.table), self.moves + 1
                return self

        model = lib.nn.Sequential(Mine(), lib.nn.BatchNorm1d(2))
        weight = model[0].inner.weight
        weight.sum().backward()
        model.double()
        assert weight is model[0].inner.weight
        kinds = [weight.dtype, weight.grad.dtype, model[0].table.dtype, model[1].running_var.dtype]
        assert kinds == [lib.float64] * 4
        assert not model[1].num_batches_tracked.is_floating_point()
        assert weight.is_leaf
        assert weight.requires_grad
        model.float()
        scaled = filled(lib.nn.Linear(2, 1), lib)._apply(lambda t: t * 2)
        return [model[0].moves, model[0].table, scaled.weight, scaled.bias, weight.grad]

    assert both(program)[0] == 2


def test_recurrent_layers_list_their_weights() -> None:
    def program(lib: Any) -> list[Any]:
        layers = [lib.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=1), lib.nn.GRU(2, 3, bias=False)]
        assert all(layer._flat_weights[0] is layer.weight_ih_l0 for layer in layers)
        return [list(weight.shape) for layer in layers for group in layer.all_weights for weight in group]

    both(program)


def test_a_generator_says_its_seed() -> None:
    assert sg.Generator().manual_seed(7).initial_seed() == torch.Generator().manual_seed(7).initial_seed() == 7


def test_private_functions_compute_what_pytorchs_do() -> None:
    def program(lib: Any) -> list[Any]:
        x = lib.tensor([[0.123, -3.0], [200.0, 0.77]], requires_grad=True)
        scale, zero = lib.tensor([0.1, 0.25]), lib.tensor([2, 0], dtype=lib.int32)
        rounded = [
            lib.fake_quantize_per_tensor_affine(x, 0.1, 2, 0, 255),
            lib.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127),
        ]
        (rounded[0] * 2 + rounded[1]).sum().backward()
        norms = [lib.norm_except_dim(x.detach(), power, dim) for power, dim in ((2, 0), (2, 1), (1, 1), (2, -1))]
        reduction = lib.nn.functional._Reduction
        values = [reduction.get_enum("sum"), reduction.legacy_get_string(False, None, False) == "sum"]
        return [*rounded, x.grad, *norms, lib._shape_as_tensor(x), lib.spmm(x.detach(), x.detach()), *values]

    both(program)


def test_private_names_that_programs_ask_isinstance_for() -> None:
    def program(lib: Any) -> list[Any]:
        lazy = lib.nn.LazyLinear(2).weight
        parameter = lib.nn.parameter
        return [
            isinstance(lazy, parameter.UninitializedParameter),
            isinstance(lazy, parameter.UninitializedTensorMixin),
            parameter.is_lazy(lib.nn.Parameter(lib.ones(1))),
            isinstance(lib.ones(1), lib._C._TensorBase),
            isinstance(
                lib.compile(lib.nn.Linear(1, 1), **({"backend": "eager"} if lib is torch else {})),
                lib._dynamo.OptimizedModule,
            ),
            isinstance(lib.default_generator, lib.Generator),
            issubclass(lib.jit.TracerWarning, Warning),
            lib.torch is lib,
        ]

    assert both(program) == [True, True, False, True, True, True, True, True]


def test_batches_by_a_table_of_functions_for_types() -> None:
    def program(lib: Any) -> list[Any]:
        inner = lib.utils.data._utils.collate

        class Graph:
            nodes = 3

        table = inner.default_collate_fn_map | {
            Graph: lambda batch, *, collate_fn_map=None: sum(g.nodes for g in batch)
        }
        samples = [{"g": Graph(), "x": (lib.ones(2), 1.5)}] * 2
        made = inner.collate(samples, collate_fn_map=table)
        with pytest.raises(TypeError, match="found <class"):
            inner.collate(samples, collate_fn_map=inner.default_collate_fn_map)
        return [made["g"], type(made["x"]) is list, made["x"][0], made["x"][1]]

    assert both(program)[:2] == [6, True]


def test_switches_of_other_backends_change_nothing() -> None:
    lib: Any = LIBRARIES[0]
    with lib.backends.cudnn.flags(enabled=False, benchmark=True):
        assert lib.backends.cudnn.benchmark is False
    assert lib._C._jit_set_profiling_mode(False) is False
    assert lib._dynamo.mark_dynamic(lib.ones(2), 0) is None
    assert lib.utils.model_zoo.load_url is lib.hub.load_state_dict_from_url
