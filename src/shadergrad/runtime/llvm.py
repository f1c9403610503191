"""Machine code from texts in LLVM IR, by llvmlite. In: texts, each of which defines `kernel`. Out: their addresses in this process.

The only module that imports llvmlite, which is optional. Object code is kept on disk, in a file named by a digest of the text, the
processor with its features, and LLVM's version. It is machine code that this process runs: a folder or file that is another user's, or
that others may write, is left alone, with one warning; a file that is torn is compiled anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..config import config
from ..errors import ShadergradError
from ..system import atomic_files
from ..system.ownership import why_not_private

MOST_BYTES = 256 << 20  # of all files; beyond it those used longest ago go
DIGEST = hashlib.sha256().digest_size
LEVEL = 2  # of LLVM's optimization; loops are vectors already
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # nobody in a child will let it go
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


class CodeCacheWarning(UserWarning):
    """Machine code on disk that others may have written."""


class CodeCacheError(ShadergradError, OSError):
    """Machine code that cannot be kept."""


@cache
def installed() -> str | None:
    """The version of llvmlite; None where it is absent or does not load."""
    try:
        importlib.import_module("llvmlite.binding")
        return version("llvmlite")
    except (ImportError, OSError, PackageNotFoundError):
        return None


class Code:
    """The compiler for this processor, and what it has compiled in this process.

    compiled, found: how many texts were compiled, and how many came from disk, so that tests can say which.
    """

    def __init__(self) -> None:
        self._llvm: Any = importlib.import_module("llvmlite.binding")
        self._llvm.initialize_native_target()
        self._llvm.initialize_native_asmprinter()
        processor = self._llvm.get_host_cpu_name()
        features = self._llvm.get_host_cpu_features().flatten()
        target = self._llvm.Target.from_default_triple()
        self._machine = target.create_target_machine(cpu=processor, features=features, opt=LEVEL, jit=True)
        self._engine = self._llvm.create_mcjit_compiler(self._llvm.parse_assembly(""), self._machine)
        what = (processor, features, self._llvm.get_default_triple(), self._llvm.llvm_version_info, installed(), LEVEL)
        self._processor = repr(what)
        self._addresses: dict[str, int] = {}
        self.compiled = 0
        self.found = 0

    def addresses(self, texts: Sequence[str]) -> list[int]:
        """Where the functions of texts begin, compiled where they are new."""
        with _lock:
            return [self._address(text) for text in texts]

    def _address(self, text: str) -> int:
        name = hashlib.sha256(f"{self._processor} {text}".encode()).hexdigest()
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = self._load(name, text.replace("@kernel(", f"@k{name}("))
        return found

    def _load(self, name: str, text: str) -> int:
        folder = _folder()
        code = None if folder is None else _read(folder / name)
        if code is None:
            code = self._compile(text)
            self.compiled += 1
            if folder is not None:
                with suppress(CodeCacheError):  # a disk that is full, or read-only, costs time and nothing else
                    _write(folder / name, code)
        else:
            self.found += 1
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        return self._engine.get_function_address(f"k{name}")

    def _compile(self, text: str) -> bytes:
        llvm = self._llvm
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = llvm.get_default_triple()
        module.data_layout = str(self._machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        passes = llvm.create_pass_builder(self._machine, options)
        passes.getModulePassManager().run(module, passes)
        return self._machine.emit_object(module)

    def assembly(self, text: str) -> str:
        """The processor's instructions, for people."""
        llvm = self._llvm
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = llvm.get_default_triple()
        options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        passes = llvm.create_pass_builder(self._machine, options)
        passes.getModulePassManager().run(module, passes)
        return self._machine.emit_assembly(module)


@cache
def code() -> Code:
    """The compiler of this process. Raises ImportError where llvmlite is absent."""
    return Code()


FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)  # it lets the interpreter lock go


# -- what is kept on disk


def _folder() -> Path | None:
    """Where object code is kept; None where nothing is to be."""
    folder = config.kept("native")
    if folder is None:
        return None
    try:
        complaint = why_not_private(folder.stat())
    except OSError:
        return folder  # it is not there yet
    if complaint is None:
        return folder
    _warn(folder, complaint)
    return None


_warned: list[Path] = []


def _warn(path: Path, complaint: str) -> None:
    """Once in a process."""
    if not _warned:
        _warned.append(path)
        warnings.warn(
            f"compiled kernels on disk are not used: {path} {complaint}, and they are code that this process runs. "
            "Hint: look into it or delete it, then chmod 700 the folder and 600 its files; or set SHADERGRAD_CACHE.",
            CodeCacheWarning,
            stacklevel=2,
        )


def _read(path: Path) -> bytes | None:
    """The object code of a file; None where there is no whole one."""
    try:
        with open(os.open(path, os.O_RDONLY | _NO_LINK), "rb") as file:
            if (complaint := why_not_private(os.fstat(file.fileno()))) is not None:
                _warn(path, complaint)
                return None
            data = file.read()
        os.utime(path)  # used now
    except OSError:
        return None
    digest, packed = data[:DIGEST], data[DIGEST:]
    return packed if hashlib.sha256(packed).digest() == digest else None


def _write(path: Path, packed: bytes) -> None:
    """Keep object code. Raises CodeCacheError where the disk does not take it."""
    with suppress(OSError):  # the user's alone, whatever the umask; what cannot be made is said below
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700)
    with atomic_files.replacing(path, CodeCacheError) as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), 0o600)
        file.write(hashlib.sha256(packed).digest() + packed)
