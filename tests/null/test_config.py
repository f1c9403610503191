"""The environment variables: each value means something, or says why it does not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shadergrad import config
from shadergrad.config import ConfigError, parse_bytes, read_environment


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables():
        monkeypatch.delenv(name, raising=False)


def variables() -> list[str]:
    """The variables that the module's own table documents."""
    return re.findall(r"^\| (SHADERGRAD_\w+)", config.__doc__ or "", re.MULTILINE)


def test_the_variables_that_are_read_are_those_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()

    class Environment(dict[str, str]):
        def get(self, key: str, default: str | None = None) -> Any:
            read.add(key)
            return default

    monkeypatch.setattr(config.os, "environ", Environment())
    read_environment()
    assert read == set(variables())


def test_nothing_set_means_the_defaults() -> None:
    settings = read_environment()
    assert settings.debug == frozenset()
    assert (settings.portable, settings.checked, settings.require_webgpu) == (False, False, False)
    assert (settings.adapter, settings.memory_limit, settings.in_flight) == (None, None, 16)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("SHADERGRAD_DEBUG", "kernels, plan", "debug", frozenset({"kernels", "plan"})),
        ("SHADERGRAD_PROFILE", "portable", "portable", True),
        ("SHADERGRAD_CHECKED", "1", "checked", True),
        ("SHADERGRAD_CHECKED", "no", "checked", False),
        ("SHADERGRAD_ADAPTER", " llvmpipe ", "adapter", "llvmpipe"),
        ("SHADERGRAD_MEMORY_LIMIT", "512M", "memory_limit", 512 << 20),
        ("SHADERGRAD_IN_FLIGHT", "1024", "in_flight", 1024),
        ("SHADERGRAD_REQUIRE_WEBGPU", "true", "require_webgpu", True),
    ],
)
def test_a_variable_sets_its_field(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(name, text)
    assert getattr(read_environment(), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SHADERGRAD_DEBUG", "kernel"),
        ("SHADERGRAD_PROFILE", "fast"),
        ("SHADERGRAD_CHECKED", "maybe"),
        ("SHADERGRAD_MEMORY_LIMIT", "plenty"),
        ("SHADERGRAD_IN_FLIGHT", "0"),
        ("SHADERGRAD_IN_FLIGHT", "1025"),
        ("SHADERGRAD_REQUIRE_WEBGPU", "2"),
    ],
)
def test_a_value_that_means_nothing_names_variable_and_value(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError, match=rf"{name}='?{text}"):
        read_environment()


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("1k", 1024), ("512M", 512 << 20), ("8 GiB", 8 << 30), ("2TB", 2 << 40)]
)
def test_sizes_are_powers_of_1024(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5G", "8X"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size"):
        parse_bytes(text)
