"""Results that are not unique: positions where elements tie, which are right if they hold the same; signs of singular vectors."""

from __future__ import annotations

from typing import Any

import torch

import shadergrad as sg

# entries that give values and positions, or positions alone
WITH_VALUES = {
    "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "msort",
    "max_reduction_with_dim", "min_reduction_with_dim",
}  # fmt: skip
ALONE = {"argsort", "argmax", "argmin"}
DECOMPOSED = {"svd", "linalg_svd"}  # whose vectors may have either sign: their product is compared
DIM = {"topk": 2, "kthvalue": 2}  # where `dim` stands among the arguments, else 1
LAST = {"topk", "kthvalue", "sort", "argsort", "mode"}  # whose dim is -1 by default


def without_positions(name: str, args: Any, options: Any, actual: Any, expected: Any) -> tuple[Any, Any]:
    """Results in which positions have given way to what they point to, for entries that may differ in ties."""
    if name in WITH_VALUES and isinstance(expected, tuple):
        dim = _dim(name, args, options)
        at = torch.from_numpy(actual[1].detach().cpu().numpy()).long()
        return (actual[0], _elements(args[0], at, dim, expected[0]), actual[1].shape), (
            expected[0],
            expected[0].detach(),
            expected[1].shape,
        )
    if name in ALONE and isinstance(actual, sg.Tensor) and actual.shape == tuple(expected.shape):
        dim = _dim(name, args, options)
        at = torch.from_numpy(actual.detach().cpu().numpy()).long()
        return _elements(args[0], at, dim, None), _ours(_elements(args[0], expected, dim, None))
    if (
        name in DECOMPOSED
        and isinstance(actual, tuple)
        and [x.shape for x in actual] == [tuple(x.shape) for x in expected]
    ):
        mine = [torch.from_numpy(x.detach().numpy()) for x in actual]
        value, wanted = _product(mine, name), _product([x.detach() for x in expected], name)
        return (actual[1], sg.tensor(value.numpy())), (expected[1], wanted)
    if name in ("linalg_eigh", "linalg_eig") and isinstance(actual, tuple):
        value = _eigen([torch.from_numpy(x.detach().numpy()) for x in actual])
        return (actual[0], sg.tensor(value.numpy()), actual[1].shape), (
            expected[0],
            _eigen([x.detach() for x in expected]),
            expected[1].shape,
        )
    return actual, expected


def _eigen(parts: list[torch.Tensor]) -> torch.Tensor:
    """V diag(w) V^-1, which does not depend on the signs and phases of V."""
    w, v = parts
    return (v * w.unsqueeze(-2)) @ torch.linalg.pinv(v)


def _product(parts: list[torch.Tensor], name: str) -> torch.Tensor:
    """U diag(S) V^T, which does not depend on the signs of U and V."""
    u, s, v = parts
    k = s.shape[-1]
    vh = v.mT if name == "svd" else v
    return (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]


def _dim(name: str, args: Any, options: Any) -> int | None:
    place = DIM.get(name, 1)
    given = options.get("dim", args[place] if len(args) > place else (-1 if name in LAST else None))
    return None if isinstance(given, bool) else given


def _elements(x: torch.Tensor, at: torch.Tensor, dim: int | None, like: torch.Tensor | None) -> Any:
    """The elements of x at positions along an axis."""
    x = x.detach()
    if dim is None:
        found = x.reshape(-1)[at.reshape(-1)].reshape(at.shape)
    elif x.ndim == 0:
        found = x.expand(at.shape)
    else:
        narrow = at if at.ndim == x.ndim else at.unsqueeze(dim)
        found = x.gather(dim, narrow)
        found = found if at.ndim == x.ndim else found.squeeze(dim)
    return sg.tensor(found.numpy())


def _ours(x: Any) -> Any:
    return torch.from_numpy(x.numpy())
