"""Boards of cells stepped by compiled C, against those of NumPy. The compiler is a process of its own."""

from __future__ import annotations

import numpy as np
import pytest

from circuit_examples import life, random_board, random_cell
from shadergrad.config import config
from shadergrad.logic.circuit import CircuitError, NativeBoard, native_board

borders = pytest.mark.parametrize("border", ["zeros", "periodic"])


def require_compiler() -> None:
    if native_board.find_compiler() is None:
        if config.require_webgpu:
            pytest.fail("no C compiler, and SHADERGRAD_REQUIRE_WEBGPU=1: apt-get install gcc.", pytrace=False)
        pytest.skip("no C compiler: install one (Debian, Ubuntu: gcc)")


@borders
@pytest.mark.parametrize("channels", [1, 3])
def test_compiled_boards_equal_boards_of_numpy(border, channels, monkeypatch):
    require_compiler()
    monkeypatch.setattr(native_board, "FLAGS", (*native_board.FLAGS, "-Wall", "-Wextra", "-Werror", "-pedantic"))
    rng = np.random.default_rng(5)
    cell = random_cell(rng, channels, border, fire_rate=0.6).minimized()
    # 1900 words: several blocks, that end within rows; one word a row; one row
    for height, width in ((100, 19 * 64 - 5), (1200, 7), (1, 130), (5, 1)):
        state, fire = random_board(rng, height, width, channels), rng.random((height, width)) < 0.6
        board = NativeBoard(cell, height, width)
        board.load(state)
        board.step()
        state = cell.step(state, fire=np.ones_like(fire))
        np.testing.assert_array_equal(board.read(), state)
        board.step(fire)
        np.testing.assert_array_equal(board.read(), cell.step(state, fire=fire))


def test_a_missing_or_failing_compiler_is_an_error(monkeypatch):
    monkeypatch.setattr(native_board, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(CircuitError, match="none of no-such-compiler is on the path"):
        NativeBoard(life(), 4, 4)
    with pytest.raises(CircuitError, match="false failed"):
        NativeBoard(life(), 4, 4, compiler="false")
    with pytest.raises(CircuitError, match="cannot run no-such-compiler"):
        NativeBoard(life(), 4, 4, compiler="no-such-compiler")
