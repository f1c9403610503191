"""The environment variables: each value means something, or says why it does not."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
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
        def get(self, key: Any, default: Any = None) -> Any:
            read.add(key)
            return default

    monkeypatch.setattr(config.os, "environ", Environment())
    read_environment()
    assert read == set(variables())


def test_nothing_set_means_the_defaults() -> None:
    settings = read_environment()
    assert settings.debug == frozenset()
    assert (settings.portable, settings.checked, settings.require_webgpu) == (False, False, False)
    assert (settings.adapter, settings.memory_limit, settings.cache, settings.in_flight) == (None, None, None, 16)
    assert (settings.data_dir, settings.data_mirror, settings.pipeline_memory) == (None, None, 1 << 30)


def test_empty_values_are_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = read_environment()
    for name in variables():
        monkeypatch.setenv(name, " ")
    assert read_environment() == defaults


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("SHADERGRAD_DEBUG", "kernels, plan", "debug", frozenset({"kernels", "plan"})),
        ("SHADERGRAD_PROFILE", "portable", "portable", True),
        ("SHADERGRAD_CHECKED", "1", "checked", True),
        ("SHADERGRAD_CHECKED", "no", "checked", False),
        ("SHADERGRAD_ADAPTER", " llvmpipe ", "adapter", "llvmpipe"),
        ("SHADERGRAD_MEMORY_LIMIT", "512M", "memory_limit", 512 << 20),
        ("SHADERGRAD_PIPELINE_MEMORY", "64M", "pipeline_memory", 64 << 20),
        ("SHADERGRAD_CACHE", "off", "cache", "off"),
        ("SHADERGRAD_IN_FLIGHT", "1024", "in_flight", 1024),
        ("SHADERGRAD_DATA_DIR", "~/not there yet", "data_dir", "~/not there yet"),
        ("SHADERGRAD_DATA_MIRROR", "http://localhost:8000/sets", "data_mirror", "http://localhost:8000/sets"),
        ("SHADERGRAD_REQUIRE_WEBGPU", "true", "require_webgpu", True),
    ],
)
def test_a_variable_sets_its_field(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(name, text)
    assert getattr(read_environment(), field) == value


@pytest.mark.parametrize(
    ("name", "text", "what_it_may_be"),
    [
        ("SHADERGRAD_DEBUG", "kernel", "kernels, plan, graph"),
        ("SHADERGRAD_DEBUG", "plan kernels", "kernels, plan, graph"),
        ("SHADERGRAD_PROFILE", "fast", "'portable'"),
        ("SHADERGRAD_PROFILE", "PORTABLE", "'portable'"),
        ("SHADERGRAD_CHECKED", "maybe", "neither 0 nor 1"),
        ("SHADERGRAD_MEMORY_LIMIT", "plenty", "512M"),
        ("SHADERGRAD_MEMORY_LIMIT", "0", "512M"),
        ("SHADERGRAD_MEMORY_LIMIT", "-1G", "512M"),
        ("SHADERGRAD_PIPELINE_MEMORY", "1e9", "512M"),
        ("SHADERGRAD_PIPELINE_MEMORY", "0M", "512M"),
        ("SHADERGRAD_CACHE", __file__, "a folder"),
        ("SHADERGRAD_IN_FLIGHT", "0", "1 to 1024"),
        ("SHADERGRAD_IN_FLIGHT", "1025", "1 to 1024"),
        ("SHADERGRAD_IN_FLIGHT", "2.5", "1 to 1024"),
        ("SHADERGRAD_IN_FLIGHT", "\N{SUPERSCRIPT TWO}", "1 to 1024"),
        ("SHADERGRAD_DATA_DIR", __file__, "a folder"),
        ("SHADERGRAD_DATA_MIRROR", "example.org", "http"),
        ("SHADERGRAD_DATA_MIRROR", "ftp://example.org", "http"),
        ("SHADERGRAD_DATA_MIRROR", "http://", "http"),
        ("SHADERGRAD_DATA_MIRROR", "http://[::1", "http"),
        ("SHADERGRAD_REQUIRE_WEBGPU", "2", "neither 0 nor 1"),
        ("SHADERGRAD_PROFIL", "portable", "SHADERGRAD_PROFILE"),
    ],
    ids=lambda value: Path(value).name,
)
def test_a_name_or_value_that_means_nothing_is_named_with_what_it_may_be(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, what_it_may_be: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError) as caught:
        read_environment()
    assert str(caught.value).startswith(f"{name}='{text}'")
    assert what_it_may_be in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("1k", 1024), ("512M", 512 << 20), ("8 GiB", 8 << 30), ("2TB", 2 << 40)]
)
def test_sizes_are_powers_of_1024(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "0K", "1.5G", "8X"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("found", "expected"),
    [(None, False), ("0.44.0", False), ("0.49.0rc1", False), ("0.50.0", True), ("0.51.0dev0", True), ("1.0.0", True)],
)
def test_the_cpu_is_native_where_llvmlite_is_new_enough(
    monkeypatch: pytest.MonkeyPatch, found: str | None, expected: bool
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr(config, "find_spec", lambda name: name)
    monkeypatch.delenv("SHADERGRAD_CPU", raising=False)
    config.has_llvmlite.cache_clear()
    try:
        assert read_environment().native_cpu is expected
        monkeypatch.setenv("SHADERGRAD_CPU", "reference")
        assert not read_environment().native_cpu
    finally:
        config.has_llvmlite.cache_clear()


def test_the_extra_asks_for_the_llvmlite_that_is_looked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = ".".join(map(str, config.LLVMLITE))
    assert project["optional-dependencies"]["cpu"][0] == f"llvmlite>={wanted}"
