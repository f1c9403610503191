"""The import hook for `import torch.x`, and the version of PyTorch that packaging tools see.

In: names of modules. Out: a stand-in for a module that PyTorch has and this library lacks, if an import statement requests it that
does not catch the ImportError; otherwise a ModuleNotFoundError, or None for importlib.util.find_spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from itertools import takewhile
from types import FrameType, ModuleType
from typing import Any

from ..cpython import first_outwards, frame_of_caller, frames_outwards, is_importing
from . import missing_names, pytorch_names
from .absent import HINT, StandIn
from .name_lookups import asks_whether

PYTORCH = "2.13.0"  # the release whose names this library provides


class Finder(DistributionFinder, Loader):
    """A finder for modules that are not loaded. Python uses it before it searches an installed PyTorch."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("torch."):
            return None
        frame = missing_names.importer()
        is_statement = frame is not None and is_importing(frame) and not _completes_a_from_list()
        if (
            pytorch_names.has_module(fullname)
            and frame is not None
            and is_statement
            and not asks_whether(frame, "import")
        ):
            return ModuleSpec(fullname, self, is_package=True)
        if is_statement:
            missing_names.note_question(fullname, frame)
        if _is_asked_for_a_spec():
            return None
        raise ModuleNotFoundError(f"{fullname} is not in shadergrad. {HINT}", name=fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = StandIn(spec.name, f"{spec.name}, which is not in shadergrad: a use of its names raises.")
        vars(made)["__absent__"] = spec.name
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: a stand-in makes its names on demand."""

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """PyTorch, if the context names it or names no package."""
        return [_PyTorch()] if context is None or context.name in (None, "torch") else []


class _PyTorch(Distribution):
    """PyTorch as an installed package, for importlib.metadata, from which libraries read its version."""

    def read_text(self, filename: str) -> str | None:
        texts = {"METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {PYTORCH}\n", "top_level.txt": "torch\n"}
        return texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        return path


def _machinery() -> list[FrameType]:
    """The running frames of Python's import machinery, innermost first."""
    inmost = first_outwards(frame_of_caller(1), lambda path: path != __file__)
    return list(takewhile(lambda f: f.f_code.co_filename.startswith("<frozen importlib"), frames_outwards(inmost)))


def _completes_a_from_list() -> bool:
    """Whether Python tests if x in `from torch import x` is a submodule, before it looks up the attribute."""
    return any(frame.f_code.co_name == "_handle_fromlist" for frame in _machinery())


def _is_asked_for_a_spec() -> bool:
    """Whether importlib.util.find_spec is the caller; it expects None for a missing module."""
    return any(frame.f_code.co_name == "find_spec" and "util" in frame.f_code.co_filename for frame in _machinery())
