"""Every annotation that a checked function has is one that the check knows. The first call reads them: here it is seen before."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import shadergrad as sg
from shadergrad.arguments import _kind, checked

ROOMS: tuple[Any, ...] = (
    sg,
    sg.Tensor,
    sg.nn,
    sg.nn.functional,
    sg.special,
    sg.linalg,
    sg.fft,
    sg.signal.windows,
    sg.optim,
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_the_check_of_each_function_can_read_its_annotations(room: type | ModuleType) -> None:
    for name in dir(room):
        found = getattr(room, name)
        made = isinstance(found, type)
        function = found.__init__ if made else found
        if "unchecked" in getattr(function, "__dict__", {}):
            parameters = list(inspect.signature(function).parameters.values())
            for parameter in parameters[made or room is sg.Tensor :]:
                if parameter.annotation is not inspect.Parameter.empty:
                    _kind(str(parameter.annotation))


def test_an_annotation_that_no_check_knows_is_an_error() -> None:
    def wrong(x: Nothing) -> None:  # type: ignore[name-defined]  # noqa: F821
        """No check knows of what type x is."""

    with pytest.raises(KeyError, match="Nothing"):
        checked(wrong)(1)
