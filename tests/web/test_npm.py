"""The npm package: what npm packs has types, is a module for Node, and trains in a bundler's project and without a bundler."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shadergrad.web.join import joined

ROOT = Path(__file__).parents[2]
WITHOUT_A_GPU = "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})"
USE = """import { CpuProgram } from "shadergrad-runtime/cpu";
import { NoGpuError, Program, readTensors, writeTensors, type Batch, type Options } from "shadergrad-runtime";
const options: Options = { plan: "portable", inFlight: 4, onlost: ({ reason, stepsLost }) => console.log(reason, stepsLost + 1) };
const program: Program = await Program.load("step.json", options);
const results: Record<string, any> = await program.run({ x: [1, 2], y: new Int32Array(1) }, { results: ["loss"] });
const told: string = program.plan.name + program.refused.map(({ plan, reason }) => plan + reason).join();
const batch: Batch = program.batch({ x: [1, 2], y: [0] });
await program.run(batch);
// @ts-expect-error: a text is no argument of a run
await program.run({ x: "1" });
// @ts-expect-error: there is no such option
await Program.load("step.json", { inflight: 4 });
const onCpu: CpuProgram = await CpuProgram.load("step.json");
export { NoGpuError, onCpu, readTensors, results, told, writeTensors };
"""
ROUND = """import { NoGpuError, Program, ShadergradError, readTensors, writeTensors } from "shadergrad-runtime";
const file = writeTensors([{ name: "parameter/w", dtype: "float32", shape: [2], data: new Float32Array([1.5, -2]) }]);
const found = readTensors(file.buffer).get("parameter/w");
console.log(JSON.stringify([[...found.data], found.shape, typeof Program.load, new NoGpuError("") instanceof ShadergradError]));
"""


def npm_script() -> Any:
    return runpy.run_path(str(ROOT / "scripts" / "npm.py"))


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, with the packed archive installed."""
    if shutil.which("npx") is None:  # not a must, as `make javascript` is none
        pytest.skip("NPM PACKAGE NOT TESTED, no npx: install Node with npm (Debian: apt-get install npm)")
    folder = tmp_path_factory.mktemp("npm")
    script = npm_script()
    built = script["build"](folder / "package")
    script["add_types"](built)
    archive = script["pack"](built)
    example = folder / "example"
    shutil.copytree(built / "example", example)
    described = json.loads((example / "package.json").read_text())
    described["dependencies"]["shadergrad-runtime"] = f"file:{archive}"
    (example / "package.json").write_text(json.dumps(described))
    run(example, "npm", "install", "--no-audit", "--no-fund")
    return example


def test_the_package_is_of_the_librarys_version_and_names_no_host(tmp_path: Path) -> None:
    built = npm_script()["build"](tmp_path / "npm")
    described = json.loads((built / "package.json").read_text())
    version = importlib.util.find_spec("shadergrad.version")
    assert version is not None
    assert f'"{described["version"]}"' in Path(str(version.origin)).read_text()
    assert {"runtime.js", "cpu.js", "README.md", "LICENSE", "package.json", "example"} == {
        p.name for p in built.iterdir()
    }
    assert not re.search(r"https?://", (built / "package.json").read_text() + (built / "README.md").read_text())
    assert not {"repository", "homepage", "bugs", "publishConfig"} & described.keys()


def test_the_readme_names_what_the_module_has() -> None:
    text = (ROOT / "npm" / "README.md").read_text()
    source = joined(ROOT / "src" / "shadergrad" / "web" / "site" / "runtime.js")
    methods = set(re.findall(r"`program\.(\w+)\(", text))
    assert len(methods) >= 4
    assert all(re.search(rf"^  (?:async )?{name}\(", source, re.M) for name in methods), methods
    assert all(f"export function {name}(" in source for name in ("readTensors", "writeTensors"))


@pytest.mark.slow
def test_node_imports_the_package_and_type_checkers_know_it(project: Path) -> None:
    (project / "round.mjs").write_text(ROUND)
    assert json.loads(run(project, "node", "round.mjs")) == [[1.5, -2], [2], "function", True]
    (project / "use.ts").write_text(USE)
    options = (
        "--noEmit --strict --target es2022 --module esnext --moduleResolution bundler --lib es2022,dom,dom.iterable"
    )
    run(project, "npx", "--yes", "--package", "typescript@7", "tsc", "use.ts", *options.split())


@pytest.mark.slow
@pytest.mark.parametrize(("page", "script", "where"), [
    ("index.html", "", "gpu"), ("module.html", "", "gpu"), ("index.html", WITHOUT_A_GPU, "cpu"),
])  # fmt: skip
def test_the_example_trains(page: str, script: str, where: str, project: Path, visit: Any) -> None:
    runpy.run_path(str(project / "export.py"))
    run(project, "npm", "run", "build")
    opened = visit(project / "public", page, script)
    opened.wait_for_selector(f"output[data-finished={where}]", timeout=120_000)
    step, loss = re.findall(r"step (\d+): loss (\S+)", opened.text_content("output"))[0]
    assert (int(step), float(loss) < 0.3) == (300, True), loss
