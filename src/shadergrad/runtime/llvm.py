"""Machine code from texts in LLVM IR, by llvmlite. In: texts, each of which defines `kernel`. Out: their addresses in this process.

The only module that imports llvmlite, which is optional. Object code is kept on disk, in a file named by a digest of the text, the
processor with its features, and LLVM's version. Files are the user's alone and whole (`system/private_files.py`).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ..compile.native.registers import LARGE, SMALL
from ..config import LLVMLITE, config, has_llvmlite
from ..errors import ShadergradError
from ..system.private_files import PrivateFiles, make_room

MOST_BYTES = 256 << 20  # of all files; beyond it the least recently used are deleted
LEVEL = 2  # of LLVM's optimization; loops are vectors already
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # no thread of the child would release it
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


class CodeCacheWarning(UserWarning):
    """Machine code on disk that others may have written."""


class CodeCacheError(ShadergradError, OSError):
    """Machine code that cannot be kept."""


class NativeCodeError(ShadergradError, RuntimeError):
    """LLVM is not usable here, or does not compile a text."""


HINT = 'Hint: SHADERGRAD_CPU=reference computes with NumPy; "shadergrad info" gives what to report.'
files = PrivateFiles(
    "compiled kernels on disk are not used: {} {}, and they are code that this process runs.",
    CodeCacheWarning,
    CodeCacheError,
)


@cache
def installed() -> str | None:
    """The version of llvmlite; None if it is absent or does not load."""
    from importlib.metadata import version  # here, as it loads the package email

    try:
        importlib.import_module("llvmlite.binding")
        return version("llvmlite")
    except (ImportError, OSError):  # PackageNotFoundError is an ImportError
        return None


def check_version() -> None:
    """Raise NativeCodeError where llvmlite is older than native kernels need."""
    if not has_llvmlite():
        wanted = ".".join(map(str, LLVMLITE))
        raise NativeCodeError(
            f"SHADERGRAD_CPU=native needs llvmlite {wanted} or newer, and {installed()} is installed. "
            'Hint: pip install --upgrade "shadergrad[cpu]"'
        )


class Code:
    """The compiler for this processor, and the code that it has compiled in this process.

    tile: the sums that its registers hold. has_fma: whether it multiplies and adds in one instruction. compiled, found: how many texts were
    compiled, and how many came from disk, for tests.
    """

    def __init__(self) -> None:
        self._llvm: Any = importlib.import_module("llvmlite.binding")
        self._llvm.initialize_native_target()
        self._llvm.initialize_native_asmprinter()
        processor = self._llvm.get_host_cpu_name()
        found = self._llvm.get_host_cpu_features()
        features, self.tile = found.flatten(), LARGE if found.get("avx512f") else SMALL
        self.has_fma = found.get("fma", True)  # only x86-64 lists it; without it LLVM calls a function for each element
        target = self._llvm.Target.from_default_triple()
        self._machine = target.create_target_machine(cpu=processor, features=features, opt=LEVEL, jit=True)
        self._engine = self._llvm.create_mcjit_compiler(self._llvm.parse_assembly(""), self._machine)
        what = (processor, features, self._llvm.get_default_triple(), self._llvm.llvm_version_info, installed(), LEVEL)
        self._processor = repr(what)
        self._addresses: dict[str, int] = {}
        self.compiled = 0
        self.found = 0

    def addresses(self, texts: Sequence[str]) -> list[int]:
        """The addresses of the functions of texts; new texts are compiled."""
        with _lock:
            before = self.compiled
            found = [self._address(text) for text in texts]
            folder = _folder() if self.compiled > before else None
            if folder is not None:
                make_room(folder, MOST_BYTES)
            return found

    def _address(self, text: str) -> int:
        name = hashlib.sha256(f"{self._processor} {text}".encode()).hexdigest()
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = self._load(name, text.replace("@kernel(", f"@k{name}("))
        return found

    def _load(self, name: str, text: str) -> int:
        folder = _folder()
        code = None if folder is None else files.read(folder / name)
        if code is None:
            code = self._compile(text)
            self.compiled += 1
            if folder is not None:
                with suppress(CodeCacheError):  # a disk that is full, or read-only, costs time and nothing else
                    files.write(folder / name, code)
        else:
            self.found += 1
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        return self._engine.get_function_address(f"k{name}")

    def _compile(self, text: str) -> bytes:
        return self._machine.emit_object(self._optimized(text, self._machine))

    def object_for(self, text: str, triple: str, features: str) -> bytes:
        """The object file of a text for another processor: object_for(text, "wasm32-unknown-unknown", "+simd128")."""
        self._llvm.initialize_all_targets()
        self._llvm.initialize_all_asmprinters()
        machine = self._llvm.Target.from_triple(triple).create_target_machine(features=features, opt=LEVEL)
        return machine.emit_object(self._optimized(text, machine))

    def assembly(self, text: str) -> str:
        """The processor's instructions, for people."""
        return self._machine.emit_assembly(self._optimized(text, self._machine))

    def _optimized(self, text: str, machine: Any) -> Any:
        """The module of a text for a processor. Loops are vectors already, so LLVM looks for none."""
        llvm = self._llvm
        try:
            module = llvm.parse_assembly(text, llvm.create_context())
        except RuntimeError as error:
            raise NativeCodeError(f"LLVM does not take a native kernel: {str(error).strip()}. {HINT}") from error
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        return module


@cache
def code() -> Code:
    """The compiler of this process. Raises NativeCodeError where llvmlite is absent or does not work here."""
    try:
        return Code()
    except (ImportError, OSError, RuntimeError) as error:
        raise NativeCodeError(
            f"llvmlite, which compiles for the cpu device, does not work here: {error}. {HINT}"
        ) from error


_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)  # releases the interpreter lock


class Function(Protocol):
    """A function in machine code, called with a table of buffers, and the begin and the end of a range. address: of its code."""

    address: int

    def __call__(self, table: int, begin: int, end: int, /) -> None: ...


def functions(texts: Sequence[str]) -> list[Function]:
    """The functions that texts define."""
    found: list[Any] = []
    for address in code().addresses(texts):
        function: Any = _SIGNATURE(address)
        function.address = address
        found.append(function)
    return found


def function(text: str) -> Function:
    """The function that a text defines."""
    return functions([text])[0]


# -- machine code on disk


def _folder() -> Path | None:
    """The folder for object code; None if none is kept."""
    folder = config.cache_folder("native")
    return None if folder is None else files.usable(folder)
