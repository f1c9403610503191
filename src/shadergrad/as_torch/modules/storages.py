"""torch.Storage, FloatStorage and similar names: they create storages, and serve isinstance tests."""

from __future__ import annotations

from typing import Any

from ...dtypes import DType, default_dtype, named_dtype
from ...errors import ArgumentTypeError
from ...pytorch_files.names import STORAGES
from ...tensor import tensor, zeros
from ...tensor.storage_handles import StorageHandle, TypedStorage


class StorageType(type):
    """The metaclass of FloatStorage and similar classes. A call creates a storage of the given elements, or of so many zeros; without
    arguments, an empty one. isinstance tests for storages of that dtype."""

    kind: DType | None
    is_typed: bool

    def __call__(cls, *args: Any, dtype: Any = None, device: Any = None) -> Any:
        kind = cls.kind or dtype or default_dtype()
        if len(args) > 1:
            raise ArgumentTypeError(
                f"{cls.__name__}() takes a size or a sequence of elements, not {len(args)} arguments."
            )
        given = args[0] if args else []
        made = (
            zeros(given, dtype=kind, device=device)
            if isinstance(given, int)
            else tensor(given, dtype=kind, device=device)
        )
        return made.storage() if cls.is_typed else made.untyped_storage()

    def __instancecheck__(cls, instance: object) -> bool:
        if not cls.is_typed:
            return isinstance(instance, StorageHandle)
        return isinstance(instance, TypedStorage) and (cls.kind is None or instance.dtype is cls.kind)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _type(name: str, kind: DType | None, is_typed: bool = True, module: str = "torch") -> StorageType:
    said = "bytes" if not is_typed else "elements" if kind is None else kind.name
    return StorageType(
        name, (), {"__doc__": f"Memory of {said}.", "__module__": module, "kind": kind, "is_typed": is_typed}
    )


def storages() -> dict[str, Any]:
    """The classes by name: one for each dtype, and those for all dtypes."""
    made = {n: _type(n, named_dtype(kind)) for n, kind in STORAGES.items() if n != "UntypedStorage"}
    return made | {
        "Storage": _type("Storage", None),
        "TypedStorage": _type("TypedStorage", None, module="torch.storage"),
        "UntypedStorage": _type("UntypedStorage", named_dtype("uint8"), is_typed=False, module="torch.storage"),
    }


STORAGE_TYPES = storages()
