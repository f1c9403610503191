"""Every public name says what it does, and shows it: the examples of all docstrings are run."""

from __future__ import annotations

import doctest
import inspect
import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from public_names import class_methods, public_objects, tensor_methods

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
SHOWN = dict([*public_objects(), *tensor_methods()])
PLAIN = dict(class_methods())


def doc_of(value: Any) -> str:
    """The docstring of the thing itself, not one that it inherits."""
    return inspect.cleandoc(value.__doc__ or "")


@pytest.mark.parametrize("name", [n for n, v in SHOWN.items() if not (inspect.isclass(v) and issubclass(v, Exception))])
def test_a_public_name_has_a_docstring_with_an_example_that_runs(name: str) -> None:
    text = doc_of(SHOWN[name])
    assert text, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(
        text,
        {"sg": sg, "nn": sg.nn, "F": sg.nn.functional, "np": np, "math": math, "Path": Path, "tempfile": tempfile},
        name,
        None,
        0,
    )
    assert test.examples, f"the docstring of {name} has no example"
    sg.manual_seed(0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    with ThreadPoolExecutor(1) as another:  # another test may have left a loop of asyncio running in this one
        run = (lambda *a, **k: another.submit(runner.run, *a, **k).result()) if "asyncio" in text else runner.run
        run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_an_error_says_when_it_is_raised() -> None:
    errors = {n: v for n, v in SHOWN.items() if inspect.isclass(v) and issubclass(v, Exception)}
    assert len(errors) >= 8
    assert not [name for name, value in errors.items() if not doc_of(value)]


def test_the_methods_of_public_classes_have_docstrings() -> None:
    assert len(PLAIN) > 500
    without = [n for n, v in PLAIN.items() if not (v.__doc__ or inspect.getdoc(getattr(v, "__func__", v)))]
    assert not without, f"no docstring: {without}"
