"""Loads weights of other libraries into our models. In: a file or a dict of arrays. Out: the model with these weights, or an error.

It checks every name and shape before it writes anything, so a failed load changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..nn.module import Module
from ..tensor import Tensor
from .errors import InteropError
from .files import Arrays, read_arrays
from .torch_tensors import array_from_torch

Rename = Mapping[str, str | None] | Callable[[str], str | None]
Transpose = Iterable[str] | Mapping[str, tuple[int, ...]]

COUNTERS = "num_batches_tracked"  # of PyTorch's batch norms; no model's output depends on it
MOST_NAMES = 12  # to print as those that there are


class LoadResult(NamedTuple):
    """Names that exist in the model only, and in the file only (after renaming).

    >>> sg.interop.load_state_dict(nn.Linear(1, 1), {"weight": np.ones((1, 1)), "scale": 2.0}, strict=False)
    LoadResult(missing_keys=['bias'], unexpected_keys=['scale'])
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_state_dict(
    model: Module,
    source: str | Path | Mapping[str, Any],
    *,
    rename: Rename | None = None,
    transpose: Transpose = (),
    strict: bool = True,
    key: str | None = None,
) -> LoadResult:
    """Copy weights into `model`, on its devices and in its dtypes.

    source: a .safetensors, .npz or .pt file (`read_arrays`, with `key`), or a dict of arrays, tensors, torch.Tensors.
    rename: {theirs: ours}, for whole names and for leading parts ("encoder" renames "encoder.0.weight"; the longest wins), or a
    function of a name; the new name None skips the entry.
    transpose: patterns of our names ("*.weight") whose matrices are stored transposed; or {pattern: axes} as for
    numpy.transpose.
    strict: names must match exactly; shapes always must.
    Raises an InteropError that names every missing or unexpected key and every other shape; the model is then unchanged.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> theirs = {"fc.kernel": np.array([[1.0], [2.0]])}
    >>> _ = sg.interop.load_state_dict(model, theirs, rename={"fc.kernel": "weight"}, transpose=["weight"])
    >>> model.weight.tolist()
    [[1.0, 2.0]]
    """
    arrays = _transposed(_renamed(_arrays_of(source, key), rename), transpose)
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    missing = [name for name in own if name not in arrays]
    unexpected = [name for name in arrays if name not in own and name.rpartition(".")[2] != COUNTERS]
    problems = [
        f"mismatched: {name} is {arrays[name].shape}, the model's is {shape}{_transposition_hint(arrays[name], shape, name)}"
        for name, shape in own.items()
        if name in arrays and arrays[name].shape != shape
    ]
    problems += [
        f"not a number: {name} is {arrays[name].dtype}"
        for name in own
        if name in arrays and arrays[name].dtype.kind not in "biuf"
    ]
    if strict:
        problems += [f"missing: {name} {own[name]}" for name in missing]
        problems += [f"unexpected: {name} {arrays[name].shape}" for name in unexpected]
        problems += _rename_hint(missing, unexpected, own, arrays)
    if problems:
        where = f"{source}" if isinstance(source, str | Path) else "the state dict"
        raise InteropError(
            f"[load_state_dict] {where} does not fit {type(model).__name__}:\n  " + "\n  ".join(problems)
        )
    model.load_state_dict({name: arrays[name] for name in own if name in arrays}, strict=False)
    return LoadResult(missing, unexpected)


def _arrays_of(source: str | Path | Mapping[str, Any], key: str | None) -> Arrays:
    if isinstance(source, str | Path):
        return read_arrays(source, key)
    arrays: Arrays = {}
    for name, value in source.items():
        if isinstance(value, Tensor):
            arrays[name] = value.detach().numpy()
        elif isinstance(value, np.ndarray | np.generic | bool | int | float | list):
            arrays[name] = np.asarray(value)
        else:
            arrays[name] = array_from_torch(value)
    return arrays


def _renamed(arrays: Arrays, rename: Rename | None) -> Arrays:
    if rename is None:
        return arrays
    used: set[str] = set()
    function = (lambda name: _from_table(name, rename, used)) if isinstance(rename, Mapping) else rename
    result: Arrays = {}
    origin: dict[str, str] = {}
    for name, array in arrays.items():
        new = function(name)
        if new is None:
            continue
        if new in result:
            raise InteropError(f"[load_state_dict] rename gives {origin[new]!r} and {name!r} the same name, {new!r}.")
        result[new], origin[new] = array, name
    unused = [old for old in rename if old not in used] if isinstance(rename, Mapping) else []
    if unused:
        raise InteropError(f"[load_state_dict] rename has {unused}, which are not there. {_names(arrays)}")
    return result


def _from_table(name: str, table: Mapping[str, str | None], used: set[str]) -> str | None:
    """The new name of `name`: by the longest entry that is the name or a leading part of it."""
    old, rest = name, ""
    while old not in table:
        old, dot, last = old.rpartition(".")
        if not dot:
            return name
        rest = f".{last}{rest}"
    used.add(old)
    new = table[old]
    if new is None:
        return None
    return new + rest if new else rest[1:]


def _transposed(arrays: Arrays, transpose: Transpose) -> Arrays:
    patterns: dict[str, tuple[int, ...]]
    if isinstance(transpose, str):
        raise InteropError(f"[load_state_dict] transpose takes a list of patterns: [{transpose!r}].")
    patterns = dict(transpose) if isinstance(transpose, Mapping) else dict.fromkeys(transpose, (1, 0))
    result = dict(arrays)
    for pattern, axes in patterns.items():
        matched = [name for name in arrays if fnmatchcase(name, pattern)]
        if not matched:
            raise InteropError(f"[load_state_dict] transpose has {pattern!r}, which no name matches. {_names(arrays)}")
        for name in matched:
            if sorted(axes) != list(range(arrays[name].ndim)):
                raise InteropError(
                    f"[load_state_dict] transpose asks to order the axes of {name}, {arrays[name].shape}, as {tuple(axes)}. "
                    "Hint: give axes as a dict, or a pattern that matches matrices only."
                )
            result[name] = arrays[name].transpose(axes)
    return result


def _names(arrays: Arrays) -> str:
    names = list(arrays)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"The names are {', '.join(names[:MOST_NAMES]) or 'none'}{more}."


def _transposition_hint(array: np.ndarray, shape: tuple[int, ...], name: str) -> str:
    fits = array.ndim == 2 and array.shape[::-1] == shape
    return f" (Hint: transpose=[{name!r}])" if fits else ""


def _rename_hint(
    missing: list[str], unexpected: list[str], own: dict[str, tuple[int, ...]], arrays: Arrays
) -> list[str]:
    """A suggestion if a missing and an unexpected entry look alike."""
    for name in missing:
        fitting = [other for other in unexpected if arrays[other].shape in (own[name], own[name][::-1])]
        same_end = [other for other in fitting if other.rpartition(".")[2] == name.rpartition(".")[2]]
        close = difflib.get_close_matches(name, same_end or fitting, n=1, cutoff=0.0)
        if close:
            return [f"Hint: rename={{{close[0]!r}: {name!r}, ...}} would give one of them its place."]
    return []
