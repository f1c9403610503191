"""Sizes that vary tell what they are made of, and kernels that differ in numbers alone become one."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shadergrad import symbolic_sizes as v
from shadergrad.errors import CompileError
from shadergrad.plan import Kernel
from shadergrad.primitives.views import Expand
from shadergrad.runtime import families
from shadergrad.runtime.families import Families


@pytest.fixture
def n() -> Iterator[int]:
    """A size that is 31 now and was 32 at first."""
    with v.following(1):
        yield v.varying("n", 31, 32)


def test_arithmetic_is_that_of_ints_and_keeps_what_is_known(n: int) -> None:
    assert (n, n * 10, 10 * n, n + 1, 1 + n, n - 1, 40 - n, -n, n // 2, 100 // n, n % 4, n * n) == (
        31, 310, 310, 32, 32, 30, 9, -31, 15, 3, 3, 961
    )  # fmt: skip
    assert (v.hint(n * 10), v.hint(n + 1), v.hint(n // 2), v.hint(-(-n // 64))) == (320, 33, 16, 1)
    assert v.form(n * 10 // n) == 10
    assert v.form(n * 4 + n * 6) == v.form(n * 10)
    assert v.form(n + 1 - 1) != v.form(0)
    assert not v.varies(n * 0)
    assert not v.varies(n - n)
    assert abs(-n) == 31


def test_only_what_holds_for_all_sizes_divides(n: int) -> None:
    sixteen = v.varying("m", 16, 16)
    assert v.divides(4, n * 12)
    assert v.divides(n, n * 12)
    assert v.divides(4, sixteen * 4 + 8)
    assert not v.divides(4, sixteen)
    assert not v.divides(sixteen, 32)
    assert v.common_divisor(n * 12, 8) == 4
    assert (sixteen * 4 % 4, sixteen % 4) == (0, 0)
    assert v.varies(sixteen % 4)


def test_outside_it_is_an_int(n: int) -> None:
    made = n * 2
    with v.following(0):
        for value in (made + 1, made * 3, made // 2, -made, made % 5, v.hint(made)):
            assert not v.varies(value)
        assert v.form(made) == 62
    for value in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(value) is int
    assert (json.dumps([made]), f"{made}", repr(made), f"{made:>4}", hash(made)) == (
        "[62]",
        "62",
        "62",
        "  62",
        hash(62),
    )
    assert np.zeros(made).shape == (62,)


def test_slices_and_broadcasts_keep_sizes(n: int) -> None:
    for k in (
        slice(None),
        slice(1, None),
        slice(None, -1),
        slice(-3, None),
        slice(2, 5),
        slice(40),
        slice(None, None, 2),
    ):
        assert v.bounds_of(k, n) == k.indices(31)
    assert v.form(v.bounds_of(slice(1, -1), n)[1]) == v.form(n - 1)
    assert v.varies(v.bounds_of(slice(n), 64)[1])
    assert v.varies(v.broadcast_shapes((n, 1), (1, 5))[0])
    assert v.broadcast_shapes((n, 1), (1, 5)) == (31, 5)


def kernel(count: str, scale: str = "0.5", other: str = "7", archetype: str = "map") -> Kernel:
    source = (
        "// map\n@group(0) @binding(0) var<storage, read_write> b0: array<f32>;\nvar<workgroup> w: array<f32, 64>;\n"
        "@compute @workgroup_size(64)\nfn main(@builtin(workgroup_id) wid: vec3<u32>) {\n"
        f"  var local: array<f32, 31>;\n  if (i32(wid.x) < {count} && wid.y < 9u) {{ b0[{other}] = {scale}; }}\n}}\n"
    )
    return Kernel("k", archetype, ("read_write",), source)


def chosen(families: Families, kernel: Kernel, family: int = 1) -> tuple[Kernel, list[int] | None]:
    ((found, words),) = families.choose([kernel], family, lambda kernel: False)
    return found, None if words is None else words.tolist()


def test_a_marked_number_is_read_and_serves_other_sizes() -> None:
    families = Families(lambda kernel: None)
    first, words = chosen(families, kernel("/**/31"))
    assert first.access == ("read_write", "uniform")
    assert "var<uniform> sg_sizes: array<vec4<i32>, 1>" in first.source
    assert "< sg_sizes[0].x && wid.y < 9u" in first.source
    assert "b0[7] = bitcast<f32>(sg_sizes[0].y)" in first.source
    assert "var local: array<f32, 31>" in first.source
    half = int(np.float32(0.5).view(np.int32))
    assert words == [31, half, 0, 0]
    second, words = chosen(families, kernel("/**/5", "0.25"))
    assert second is first
    assert words == [5, int(np.float32(0.25).view(np.int32)), 0, 0]
    assert chosen(families, kernel("7", "0.25"), family=2)[0] is first


def test_a_number_that_was_not_marked_is_opened_when_it_differs() -> None:
    families = Families(lambda kernel: None)
    first, _ = chosen(families, kernel("/**/31"))
    elsewhere, _ = chosen(families, kernel("/**/31", other="8"), family=2)
    assert "b0[8]" in elsewhere.source
    third, words = chosen(families, kernel("/**/30", other="9"))
    assert third is not first
    assert "b0[sg_sizes[0].y]" in third.source
    assert words is not None
    assert words[:2] == [30, 9]
    assert chosen(families, kernel("/**/29", other="1"))[0] is third


def test_of_a_kernel_without_sizes_floats_alone_are_open() -> None:
    """One may be worked out of a size: the factor of an unbiased variance."""
    families = Families(lambda kernel: None)
    plain = kernel("31", scale="1.0")
    assert chosen(families, plain) == (plain, None)
    families = Families(lambda kernel: None)
    first, words = chosen(families, kernel("31", scale="0.5"))
    assert words is not None
    assert words[0] == np.float32(0.5).view(np.int32)
    assert chosen(families, kernel("31", scale="0.75"))[0] is first
    assert chosen(families, kernel("30", scale="0.5"))[0] is not first


def test_a_shader_by_hand_whose_numbers_must_be_constants_is_compiled_as_it_is() -> None:
    def refuse(kernel: Kernel) -> None:
        raise CompileError("no")

    by_hand = kernel("/**/31", archetype="call")
    assert chosen(Families(refuse), by_hand) == (by_hand, None)
    assert chosen(Families(lambda kernel: None), replace(by_hand))[1] is not None


def product(rows: str, divisor: str, step: str = "4", archetype: str = "dot") -> Kernel:
    """divisor: of what is computed in a loop; step: a constant of the text."""
    source = (
        f"// of {rows}\n@group(0) @binding(0) var<storage, read_write> b0: array<f32>;\n"
        "@compute @workgroup_size(8)\nfn main(@builtin(workgroup_id) wid: vec3<u32>) {\n"
        f"  let m = i32(wid.x) / {rows};\n  for (var k = 0; k < {rows}; k++) {{\n    if (k > 2) {{\n      b0[k / {divisor}] = f32(m);\n    }}\n  }}\n"
        f"  const step = {step};\n  b0[m % 8] = f32(min({rows}u, wid.x)) * 0.5;\n}}\n"
    )
    return Kernel("k", archetype, ("read_write",), source)


def joined(monkeypatch: pytest.MonkeyPatch, *kernels: Kernel, compiled: Kernel | None = None) -> list[Any]:
    monkeypatch.setattr(families, "MANY", 2)
    monkeypatch.setattr(families, "LONG", 0)
    found = Families(lambda kernel: None).join(kernels, lambda kernel: kernel is compiled)
    return [(kernel, None if words is None else words.tolist()) for kernel, words in found]


def test_products_of_one_text_are_one_kernel_that_reads_their_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = product("64", "3"), product("128", "3"), product("64", "3")
    (first, sixty_four), (second, a_hundred), (third, again) = joined(monkeypatch, a, b, c)
    assert first.source == second.source == third.source
    assert sixty_four == again == [64, 0, 0, 0]
    assert a_hundred == [128, 0, 0, 0]
    assert first.access == ("read_write", "uniform")
    head, body = first.source.split("{\n", 1)
    assert "@group(0) @binding(1) var<uniform> sg_sizes: array<vec4<i32>, 1>;" in head
    assert body.startswith(
        "  let sg_sizes_i0 = sg_sizes[0].x;\n  let sg_sizes_u0 = u32(sg_sizes[0].x);\n  let m = i32(wid.x) / sg_sizes_i0;"
    )
    assert "k < sg_sizes_i0" in body
    assert "min(sg_sizes_u0, wid.x)" in body
    assert body.count("sg_sizes[") == 2


@pytest.mark.parametrize(
    "other",
    [product("128", "5"), product("128", "3", step="8"), product("128", "3", archetype="call")],
    ids=["divided in a loop", "a constant", "by hand"],
)
def test_what_has_to_stay_in_the_text_keeps_kernels_apart(other: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    one = product("64", "3")
    assert joined(monkeypatch, one, other) == [(one, None), (other, None)]


def test_a_product_that_is_compiled_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = product("64", "3"), product("128", "3"), product("256", "3")
    found = joined(monkeypatch, a, b, c, compiled=b)
    assert found[1] == (b, None)
    assert found[0][0].source == found[2][0].source
    assert [words[0] for words in (found[0][1], found[2][1])] == [64, 256]


def test_few_products_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "LONG", 0)
    kernels = [product(str(rows), "3") for rows in range(10, 10 + families.MANY - 1)]
    assert Families(lambda kernel: None).join(kernels, lambda kernel: False) == [(kernel, None) for kernel in kernels]


def test_a_primitive_of_one_family_is_none_of_another() -> None:
    """A size of the same name and value had another value in the first call: by that it is decided what is large."""
    for family, first in ((1, 2), (2, 6)):
        with v.following(family):
            size = v.varying("n", 3, first)
            assert v.hint(Expand((size, 4)).shape[0]) == first
            assert Expand((size, 4)) is Expand((size, 4)) is not Expand((3, 4))
