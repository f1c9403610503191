"""Losses: values and gradients as PyTorch's, in every reduction, at the edges, and with its words where they refuse."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import as_array, assert_close, grad_of
from module_cases import floats, ints, probabilities, signs
from shadergrad import nn


@dataclass(frozen=True)
class LossCase:
    """`name` is the function's; inputs by position, tensors among the options too."""

    name: str
    what: str
    inputs: tuple[np.ndarray, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.what}".replace(" ", "-")


CASES: list[LossCase] = []


def case(name: str, what: str, *inputs: np.ndarray, **options: Any) -> None:
    CASES.append(LossCase(name, what, inputs, options))


def reductions(name: str, what: str, *inputs: np.ndarray, **options: Any) -> None:
    for reduction in ("mean", "sum", "none"):
        case(name, f"{what} {reduction}", *inputs, reduction=reduction, **options)


WEIGHT = np.array([0.5, 1.0, 2.0, 0.0, 1.5])
IGNORED = np.array([0, -100, 4, 2, -100, 1])
logits, labels = floats(6, 5), ints(6, below=5)
images, pixels = floats(2, 5, 3, 2), ints(2, 3, 2, below=5)

reductions("cross_entropy", "of classes", logits, labels)
reductions("cross_entropy", "of weighted classes", logits, labels, weight=WEIGHT)
reductions("cross_entropy", "with ignored ones", logits, IGNORED, label_smoothing=0.2)
reductions("cross_entropy", "with everything", images, pixels, weight=WEIGHT, ignore_index=2, label_smoothing=0.1)
reductions("cross_entropy", "of probabilities", logits, probabilities(6, 5))
reductions(
    "cross_entropy",
    "of smoothed, weighted probabilities",
    images,
    probabilities(2, 5, 3, 2),
    weight=WEIGHT,
    label_smoothing=0.3,
)
case("cross_entropy", "of one sample", floats(5), np.array(3), label_smoothing=0.1)
case("cross_entropy", "of one sample's probabilities", floats(5), np.array([0.1, 0.2, 0.3, 0.4, 0.0]))
case("cross_entropy", "of large logits", np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 9e3]]), np.array([1, 1]))
case("cross_entropy", "of large logits smoothed", np.array([[1e4, -1e4, 0.0]]), np.array([0]), label_smoothing=0.1)
case("cross_entropy", "with all ignored", floats(2, 3), np.array([-100, -100]))
case("cross_entropy", "of nothing", floats(0, 3), np.zeros(0, np.int64))
for _what, _options in (
    ("whole", {}),
    ("in chunks", {"options": lambda nn: nn.LinearCrossEntropyOptions(batch_chunk_size=4), "ignore_index": 1}),
):
    reductions("linear_cross_entropy", _what, floats(6, 3), floats(5, 3, seed=1), labels, weight=WEIGHT, **_options)
case("linear_cross_entropy", "of a row", floats(3), floats(5, 3, seed=1), np.array(3), linear_bias=floats(5, seed=2))
case(
    "linear_cross_entropy",
    "of images' probabilities",
    floats(2, 4),
    floats(5, 3, 2, 4, seed=1),
    probabilities(2, 5, 3, 2),
    linear_bias=floats(5, 3, 2, seed=2),
    label_smoothing=0.1,
)
reductions("nll_loss", "of classes", np.log(probabilities(6, 5)), labels)
reductions("nll_loss", "of weighted images", np.log(probabilities(2, 5, 3, 2)), pixels, weight=WEIGHT, ignore_index=1)
for _loss in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    reductions(_loss, "", floats(3, 4) * 2, floats(3, 4, seed=1))
for _loss in ("mse_loss", "l1_loss"):
    reductions(_loss, "weighted", floats(3, 4), floats(3, 4, seed=1), weight=np.abs(floats(3, 4, seed=2)))
case("huber_loss", "weighted", floats(3, 4), floats(3, 4, seed=1), weight=np.abs(floats(3, 4, seed=2)))
case("smooth_l1_loss", "beta", floats(3, 4), floats(3, 4, seed=1), beta=0.3)
case("smooth_l1_loss", "beta 0", floats(3, 4), floats(3, 4, seed=1), beta=0.0)
case("huber_loss", "delta", floats(3, 4) * 3, floats(3, 4, seed=1), delta=0.7)
reductions("binary_cross_entropy", "", probabilities(3, 4), probabilities(3, 4, seed=1))
case("binary_cross_entropy", "weighted", probabilities(3, 4), probabilities(3, 4, seed=1), weight=np.arange(4.0))
reductions("binary_cross_entropy_with_logits", "", floats(3, 4) * 5, probabilities(3, 4))
case(
    "binary_cross_entropy_with_logits",
    "weighted",
    floats(3, 4),
    probabilities(3, 4),
    weight=np.arange(4.0),
    pos_weight=np.array([0.5, 1.0, 2.0, 9.0]),
)
case(
    "binary_cross_entropy_with_logits",
    "of large logits",
    np.array([-1e4, -50.0, 0.0, 50.0, 1e4]),
    np.array([1.0, 0.0, 0.5, 1.0, 0.0]),
)
for _reduction in ("mean", "sum", "none", "batchmean"):
    case("kl_div", _reduction, np.log(probabilities(3, 4)), probabilities(3, 4, seed=1), reduction=_reduction)
    case(
        "kl_div",
        f"log {_reduction}",
        np.log(probabilities(3, 4)),
        np.log(probabilities(3, 4, seed=1)),
        reduction=_reduction,
        log_target=True,
    )
case("kl_div", "with a target of 0", np.log(probabilities(1, 3)), np.array([[0.0, 0.4, 0.6]]), reduction="sum")
reductions("cosine_embedding_loss", "", floats(5, 4), floats(5, 4, seed=1), signs(5))
case("cosine_embedding_loss", "margin", floats(5, 4), floats(5, 4, seed=1), signs(5), margin=0.2)
reductions("triplet_margin_loss", "", floats(5, 4), floats(5, 4, seed=1), floats(5, 4, seed=2))
case("triplet_margin_loss", "swap", floats(5, 4), floats(5, 4, seed=1), floats(5, 4, seed=2), margin=2.0, swap=True)
case("triplet_margin_loss", "p 1", floats(5, 4), floats(5, 4, seed=1), floats(5, 4, seed=2), p=1)
reductions("margin_ranking_loss", "", floats(5), floats(5, seed=1), signs(5), margin=0.3)
reductions("hinge_embedding_loss", "", floats(5), signs(5))
case("hinge_embedding_loss", "of other targets", floats(3), np.array([0.0, 0.5, 2.0]))
reductions("soft_margin_loss", "", floats(5) * 3, signs(5))
case("poisson_nll_loss", "of logarithms", floats(5), np.array([0.0, 1.0, 2.0, 5.0, 3.0]), full=True)
case("poisson_nll_loss", "of rates", np.exp(floats(5)), np.array([0.0, 1.0, 2.0, 5.0, 3.0]), log_input=False)
case("gaussian_nll_loss", "", floats(4, 3), floats(4, 3, seed=1), np.array([[1e-9], [0.5], [1.0], [2.0]]), full=True)
case("cosine_similarity", "", floats(3, 4), floats(3, 4, seed=1))
case("cosine_similarity", "broadcast", floats(2, 3, 4), floats(3, 1, seed=1), dim=-1)
case("pairwise_distance", "", floats(3, 4), floats(3, 4, seed=1))
case("pairwise_distance", "p 3", floats(3, 4), floats(3, 4, seed=1), p=3.0, keepdim=True)
case("normalize", "", floats(3, 4))
case("normalize", "p 1", floats(3, 4), p=1.0, dim=0)
case("normalize", "of a zero", np.array([[0.0, 0.0], [3.0, 4.0]]))


def differentiable(c: LossCase, k: int) -> bool:
    """Inputs, and those targets that PyTorch differentiates."""
    refused = {
        "binary_cross_entropy": 1,
        "poisson_nll_loss": 1,
        "soft_margin_loss": 1,
        "hinge_embedding_loss": 1,
        "cosine_embedding_loss": 2,
        "margin_ranking_loss": 2,
    }
    return c.inputs[k].dtype.kind == "f" and k < refused.get(c.name, 1 if "target of 0" in c.what else 9)


def run(c: LossCase, functions: Any, tensor: Callable[..., Any]) -> list[Any]:
    """The loss and its gradients, for a random cotangent."""
    leaves = [tensor(a) for a in c.inputs]
    for k, leaf in enumerate(leaves):
        if differentiable(c, k):
            leaf.requires_grad_()
    options = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in c.options.items()}
    if "options" in options:  # each library's own
        options["options"] = options["options"](torch.nn if functions is TF else nn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = getattr(functions, c.name)(*leaves, **options)
    (loss * tensor(floats(*loss.shape, seed=3) + 2)).sum().backward()
    return [loss.detach(), *(x.grad for k, x in enumerate(leaves) if differentiable(c, k))]


def our_results(c: LossCase, device: str, dtype: Any) -> dict[str, np.ndarray]:
    def tensor(a: np.ndarray) -> sg.Tensor:
        return sg.tensor(a, dtype=dtype if np.asarray(a).dtype.kind == "f" else None, device=device)

    found = run(c, F, tensor)
    sg.sync()  # everything in one plan
    return named(found)


def torch_results(c: LossCase) -> dict[str, np.ndarray]:
    return named(run(c, TF, torch.tensor))


def named(results: list[Any]) -> dict[str, np.ndarray]:
    return {f"gradient {k}" if k else "loss": as_array(t) for k, t in enumerate(results)}


@pytest.mark.parametrize("c", CASES, ids=str)
def test_a_loss_equals_pytorchs_in_float64(c: LossCase) -> None:
    found = our_results(c, "cpu", sg.float64)
    for what, expected in torch_results(c).items():
        assert_close(found[what], expected, 1e-9, 1e-9, f"{c}: {what}")


@pytest.mark.parametrize("c", [c for c in CASES if not c.what.endswith(("sum", "none"))], ids=str)
def test_a_loss_on_webgpu_equals_pytorchs(c: LossCase, webgpu: str) -> None:
    found = our_results(c, webgpu, sg.float32)
    for what, expected in torch_results(c).items():
        assert_close(found[what], expected, 1e-4, 1e-5 * 20, f"{c}: {what}")


def test_every_function_of_a_loss_has_a_case() -> None:
    rooms = ("losses", "classification_losses", "linear_cross_entropy", "contrastive_losses", "distance")
    public = {
        name
        for room in rooms
        for name in vars(importlib.import_module(f"shadergrad.nn.functional.{room}"))
        if inspect.isfunction(getattr(F, name, None)) and name not in ("softplus", "linear")
    }
    # an option is a function of tensors; a distance is in the table of operators; the focal loss is torchvision's
    tested_below = {"triplet_margin_with_distance_loss", "pdist", "sigmoid_focal_loss"}
    assert public - tested_below <= {c.name for c in CASES}


def test_class_weights_are_buffers() -> None:
    loss = nn.CrossEntropyLoss(sg.ones(3))
    assert list(loss.state_dict()) == list(torch.nn.CrossEntropyLoss(torch.ones(3)).state_dict()) == ["weight"]
    weight = loss.to(sg.float64).weight
    assert weight is not None
    assert weight.dtype is sg.float64
    assert list(nn.CrossEntropyLoss().state_dict()) == []


def test_triplets_of_any_distance() -> None:
    a, p, n = (floats(5, 4, seed=k) for k in range(3))
    expected = torch.nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0, swap=True
    )(*map(torch.tensor, (a, p, n)))
    ours = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0, swap=True
    )(*map(sg.tensor, (a, p, n)))
    assert_close(ours, expected, 1e-9, 1e-9)
    assert_close(
        F.triplet_margin_with_distance_loss(*map(sg.tensor, (a, p, n))),
        TF.triplet_margin_with_distance_loss(*map(torch.tensor, (a, p, n))),
        1e-9,
        1e-9,
    )


def test_binary_cross_entropy_of_certain_probabilities_is_finite(device: str) -> None:
    x = sg.tensor([0.0, 1.0, 0.0, 1.0], device=device, requires_grad=True)
    loss = F.binary_cross_entropy(x, sg.tensor([0.0, 1.0, 1.0, 0.0], device=device), reduction="none")
    assert loss.tolist() == [0, 0, 100, 100]
    loss.sum().backward()
    assert np.isfinite(grad_of(x).numpy()).all()


def test_zero_vectors_have_finite_gradients(device: str) -> None:
    x = sg.zeros(2, 3, device=device, requires_grad=True)
    (F.normalize(x).sum() + F.cosine_similarity(x, x).sum() + F.pairwise_distance(x, x, eps=0.0).sum()).backward()
    assert not np.isnan(grad_of(x).numpy()).any()


def test_kl_div_warns_of_its_mean() -> None:
    with pytest.warns(UserWarning, match="'batchmean' divides"):
        F.kl_div(sg.zeros(2, 2), sg.zeros(2, 2))


def test_label_smoothing_is_the_mixture_that_it_says(device: str) -> None:
    x, y = sg.tensor(floats(6, 5), dtype=sg.float32, device=device), sg.tensor(labels, device=device)
    mixture = 0.9 * F.cross_entropy(x, y) - 0.1 * F.log_softmax(x, dim=1).mean()
    assert_close(F.cross_entropy(x, y, label_smoothing=0.1), mixture, 1e-5, 1e-6)


def test_cross_entropy_and_its_gradient_are_few_dispatches(webgpu: str) -> None:
    x = sg.tensor(floats(64, 10), dtype=sg.float32, device=webgpu)
    y = sg.tensor(ints(64, below=10), device=webgpu)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        leaf = x.detach().requires_grad_()
        return sg.autograd.grad(F.cross_entropy(leaf, y, label_smoothing=0.1), leaf)[0]

    step(x)
    assert len(step.plan.dispatches) <= 2, step.explain()


def chunked(rows: int) -> dict[str, Any]:
    return {"options": nn.LinearCrossEntropyOptions(batch_chunk_size=rows)} if rows else {}


def test_chunks_of_rows_need_the_memory_of_one() -> None:
    def plan(rows: int) -> Any:
        loss = nn.LinearCrossEntropyLoss(8, 2048, **chunked(rows))

        def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
            value = loss(x, y)
            value.backward()
            return value

        return sg.compile(step).portable(sg.ones(256, 8), sg.zeros(256, dtype=sg.int32)).plan

    assert plan(32).temporary_bytes < 0.6 * plan(0).temporary_bytes


def test_gradients_of_gradients_pass_through_chunks() -> None:
    def gradients(rows: int) -> list[sg.Tensor]:
        x, w = (sg.tensor(floats(5, 3, seed=k), requires_grad=True) for k in range(2))
        value = F.linear_cross_entropy(x, w, sg.tensor(labels[:5]), **chunked(rows))
        first = sg.autograd.grad(value, (x, w), create_graph=True)
        return [*first, *sg.autograd.grad((first[0] ** 2).sum() + first[1].exp().sum(), (x, w))]

    for found, expected in zip(gradients(2), gradients(0), strict=True):
        assert_close(found, expected, 1e-12, 1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_chunk_size": 0},
        {"chunking_method": "halves"},
        {"chunking_method": "aspect_ratio:0"},
        {"acc_policy": "exact"},
        {"batch_chunk_size": 3, "chunking_method": "aspect_ratio"},
        {"acc_dtype": "float32"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    def loss(lib: Any, x: np.ndarray) -> None:
        named = {k: getattr(lib, v) if k == "acc_dtype" else v for k, v in options.items()}
        made = lib.nn.LinearCrossEntropyOptions(**named)
        lib.nn.functional.linear_cross_entropy(lib.tensor(x), lib.tensor(x), lib.tensor(labels), options=made)

    for lib in (torch, sg):
        with pytest.raises((ValueError, RuntimeError)):
            loss(lib, floats(6, 4))


def test_what_cannot_go_in_chunks_says_so() -> None:
    x, w = sg.ones(4, 3), sg.ones(2, 3)
    with pytest.warns(UserWarning, match="the options are ignored; rows go in chunks where target holds classes"):
        F.linear_cross_entropy(x, w, sg.ones(4, 2) / 2, **chunked(2))


LABELLED: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
    "cross_entropy weighted": lambda x, y: F.cross_entropy(x, y, sg.ones(5, device=x.device)),
    "nll_loss": lambda x, y: F.nll_loss(x, y),
    "linear_cross_entropy in chunks": lambda x, y: F.linear_cross_entropy(
        x, sg.ones(5, 5, device=x.device), y, **chunked(2)
    ),
    "a compiled cross_entropy": lambda x, y: sg.compile(F.cross_entropy)(x, y),
}


@pytest.mark.parametrize("wrong", [5, -1, 2**31 - 1])
@pytest.mark.parametrize("loss", LABELLED)
def test_a_label_out_of_range_raises_at_the_next_read(loss: str, wrong: int, device: str) -> None:
    x = sg.randn(4, 5, device=device)
    good, bad = (sg.tensor([1, 2, third, 0], device=device) for third in (-100, wrong))
    with pytest.raises(sg.IndexRangeError, match=rf"target {wrong} is out of bounds: there are 5 classes"):
        LABELLED[loss](x, bad).item()
    assert math.isfinite(LABELLED[loss](x, good).item()), "reported once; ignore_index is no label"


def test_a_label_out_of_range_raises_in_a_training_step(device: str) -> None:
    model = nn.Linear(3, 5).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = sg.randn(2, 3, device=device)
    assert math.isfinite(step(x, sg.tensor([0, 4], device=device)).item())
    with pytest.raises(sg.IndexRangeError, match="target 9 is out of bounds"):
        step(x, sg.tensor([0, 9], device=device)).item()


def test_an_embedding_refuses_a_row_that_it_has_not(device: str) -> None:
    with pytest.raises(sg.IndexRangeError, match="index 4 is out of range: the table has 4 rows"):
        F.embedding(sg.tensor([3, 4], device=device), sg.ones(4, 2, device=device)).tolist()


def test_binary_cross_entropy_behind_a_product_looks_at_every_element(webgpu: str) -> None:
    """There its input comes four at a time out of a product's tile, and nowhere behind the tile's edge."""
    x = sg.full((33, 40), 2.5 / 40, device=webgpu)
    w = sg.ones(40, 37, device=webgpu, requires_grad=True)
    target = sg.rand(33, 37, device=webgpu)
    F.binary_cross_entropy(x @ w - 2, target).backward()
    assert w.grad is not None
    assert np.isfinite(w.grad.numpy()).all()
    F.binary_cross_entropy(x @ w - 4, target).backward()
    with pytest.raises(sg.IndexRangeError, match="binary_cross_entropy"):
        w.grad.numpy()


def plain_focal(x: torch.Tensor, t: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    """The formula of the article, written with the probability of the target."""
    p = torch.sigmoid(x)
    of_target = p * t + (1 - p) * (1 - t)
    weight = 1.0 if alpha < 0 else alpha * t + (1 - alpha) * (1 - t)
    return -weight * (1 - of_target) ** gamma * (t * torch.log(p) + (1 - t) * torch.log(1 - p))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (-1, 0.0), (0.6, 1.5)])
def test_focal_losses_are_those_of_the_formula(alpha: float, gamma: float, reduction: str, device: str) -> None:
    x, t = floats(3, 4) * 2, (probabilities(3, 4) > 0.5).astype(np.float64)
    ours = sg.tensor(x.astype(np.float32), device=device, requires_grad=True)
    found = F.sigmoid_focal_loss(ours, sg.tensor(t.astype(np.float32), device=device), alpha, gamma, reduction)
    found.sum().backward()
    theirs = torch.tensor(x, requires_grad=True)
    wanted = plain_focal(theirs, torch.tensor(t), alpha, gamma)
    wanted = {"none": wanted, "mean": wanted.mean(), "sum": wanted.sum()}[reduction]
    wanted.sum().backward()
    assert_close(found, wanted.detach().numpy(), 1e-4, 1e-6)
    assert_close(grad_of(ours), grad_of(theirs).numpy(), 1e-4, 1e-6)


def test_focal_losses_of_large_logits_are_finite_and_mistakes_are_named() -> None:
    x = sg.tensor([-200.0, 200.0, 200.0], requires_grad=True)
    loss = F.sigmoid_focal_loss(x, sg.tensor([1.0, 1.0, 0.0]))
    loss.sum().backward()
    assert_close(loss, np.array([50.0, 0.0, 150.0]), 1e-5, 1e-6)
    assert np.isfinite(grad_of(x).numpy()).all()
    with pytest.raises(ValueError, match="alpha is 2"):
        F.sigmoid_focal_loss(x, x, alpha=2)
    with pytest.raises(sg.ShapeError):
        F.sigmoid_focal_loss(x, sg.zeros(2))


INTEGERS = [
    "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
    "soft_margin_loss", "hinge_embedding_loss", "multilabel_soft_margin_loss", "cosine_similarity",
]  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_losses_of_integers_are_refused(name: str) -> None:
    x = sg.tensor([[1, 0], [0, 1]])
    with pytest.raises(sg.DTypeError, match=rf"\[{name}\] .*\.float\(\)"):
        getattr(F, name)(x, x, **({} if name == "cosine_similarity" else {"reduction": "sum"}))


def test_logits_are_floats() -> None:
    for name in ("cross_entropy", "nll_loss", "multi_margin_loss"):
        with pytest.raises(sg.DTypeError, match=rf"\[{name}\]"):
            getattr(F, name)(sg.tensor([[1, 0], [0, 1]]), sg.tensor([0, 1]))
