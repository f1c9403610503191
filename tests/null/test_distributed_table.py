"""The tables of docs/distributed.md are those of the formula."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "distributed_table.py"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("distributed_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_script() -> None:
    script = _script()
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "Hint: python scripts/distributed_table.py"


def test_the_formula_is_that_of_the_page() -> None:
    script = _script()
    network = script.Network("", 1e9, 1e-3)
    assert script.traffic(2, 1e9 / 4, 4, network) == pytest.approx(1 + 2e-3 + 2 / 20)
    assert script.traffic(5, 1e9 / 4, 1, network) == pytest.approx(1 + 4e-3 + 2 / 20)
    model = script.Model("", 1e9 / 4, 3 * script.FLOPS)  # 3 s a step, of which 2 hide what travels
    assert script.share(model, network, 4, 1, 2) == 1.0
    assert script.share(model, network, 4, 1, 8) == 1.0
    slow = script.Network("", 1e8, 0.0)
    assert script.share(model, slow, 4, 1, 2) == pytest.approx(3 / (3 + 10.1 - 2))
    assert script.share(model, slow, 4, 50, 2) == pytest.approx(3 / (3 + 10.1 / 50))
