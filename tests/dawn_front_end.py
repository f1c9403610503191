"""Dawn reads kernels without any adapter, by its device that does nothing: what it refuses, browsers refuse, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shadergrad.runtime import dawn

FEATURES = ("shader-f16", "subgroups", dawn.MATRICES)


class FrontEnd:
    """In: the texts of kernels. Out: a reason for each that Dawn refuses."""

    def __init__(self) -> None:
        dawn._instance()
        adapter = next(a for a in dawn._gpu._enumerate_all_adapters() if a.info["backend_type"] == "Null")
        self._device: Any = adapter.request_device_sync(
            required_features=list(FEATURES), required_limits=adapter.limits
        )
        self._seen: set[str] = set()

    def refused(self, texts: Iterable[str]) -> list[str]:
        """What Dawn says of those that it refuses, each text but once."""
        found = []
        for text in texts:
            no_type = "None" in text  # of float64, say, which devices refuse before
            if "@compute" not in text or no_type or text in self._seen:
                continue
            self._seen.add(text)
            try:
                self._device.create_shader_module(code=text)
            except Exception as error:
                found.append(f"{error}\n{text.partition(chr(10))[0]}")
        return found
