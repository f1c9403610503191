"""Builds the npm package `shadergrad-runtime` of what pages run: the modules, their types, README, licence and example.

    python scripts/npm.py             the folder build/npm, and the archive that npm packs of it beside it
    python scripts/npm.py FOLDER      the same elsewhere

In: runtime.js and cpu.js of src/shadergrad/web/site, whose JSDoc gives the types, and npm/. Needs Node's npx, which fetches TypeScript. Publishes nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "src" / "shadergrad" / "web" / "site"
MODULES = ("runtime.js", "cpu.js")
JOINED = "runtime.js"
TYPESCRIPT = "typescript@7"
joined = runpy.run_path(str(SITE.parent / "join.py"))["joined"]


def version() -> str:
    """The library's, in the form that npm takes."""
    text = (ROOT / "src" / "shadergrad" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(\d+\.\d+\.\d+)', text)
    assert found, "version.py says the version"
    return found[1]


def build(folder: Path) -> Path:
    """Write the package's files to a folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in MODULES:
        text = (SITE / name).read_text(encoding="utf-8")
        (folder / name).write_text(joined(SITE / name) if name == JOINED else text, encoding="utf-8")
    for name in ("README.md", "LICENSE"):
        shutil.copyfile((ROOT if name == "LICENSE" else ROOT / "npm") / name, folder / name)
    ignored = shutil.ignore_patterns("step", "node_modules", "package-lock.json")
    shutil.copytree(ROOT / "npm" / "example", folder / "example", ignore=ignored)
    for written in (folder / "example" / "public").glob("*.js"):  # by a build of the example
        written.unlink()
    described = json.loads((ROOT / "npm" / "package.json").read_text(encoding="utf-8"))
    text = json.dumps({**described, "version": version()}, indent=2)
    (folder / "package.json").write_text(text + "\n", encoding="utf-8")
    return folder


def add_types(folder: Path) -> None:
    """Generate the declarations of the modules."""
    options = "--allowJs --declaration --emitDeclarationOnly --target es2022 --module esnext --moduleResolution bundler"
    command = [
        "npx",
        "--yes",
        "--package",
        TYPESCRIPT,
        "tsc",
        *MODULES,
        *options.split(),
        "--lib",
        "es2022,dom,dom.iterable",
    ]
    subprocess.run(command, cwd=folder, check=True)


def pack(folder: Path) -> Path:
    """The archive that npm makes of the folder, beside it."""
    command = ["npm", "pack", "--json", "--pack-destination", str(folder.parent)]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (packed,) = json.loads(done.stdout)
    return folder.parent / packed["filename"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "npm")
    folder = build(parser.parse_args().folder.resolve())
    add_types(folder)
    print(pack(folder))


if __name__ == "__main__":
    main()
