"""A folder's plans: which there are, which one a page takes, and that all of them compute the same on one state."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from dawn_front_end import FrontEnd
from shadergrad import nn
from shadergrad.drive import execute
from shadergrad.plan import Plan
from shadergrad.target import NUMPY, PORTABLE
from shadergrad.web.errors import WebError

LARGE = {"maxStorageBuffersPerShaderStage": 10, "maxComputeWorkgroupStorageSize": 32768}
GPU = {
    "limits": LARGE,
    "info": {"vendor": "acme", "subgroupMinSize": 32, "subgroupMaxSize": 32},
    "features": ["subgroups", "shader-f16"],
}
LLVMPIPE = {
    "info": {"description": "llvmpipe (256 bits)", "subgroupMinSize": 8, "subgroupMaxSize": 8},
    "features": ["subgroups"],
}
SWIFTSHADER = {
    "limits": LARGE,
    "info": {"architecture": "swiftshader", "subgroupMinSize": 4, "subgroupMaxSize": 4},
    "features": ["subgroups"],
}
OTHERS = ("desktop", "subgroups")


def classifier(rows: int = 128, width: int = 64) -> tuple[Any, Any, list[tuple[np.ndarray, np.ndarray]]]:
    """(step, predict, batches). By default its products are large enough to be computed in other ways for other targets."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.ReLU(), nn.Linear(2 * width, 10))
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(F.dropout(x, 0.1)), y)
        loss.backward()
        optimizer.step()
        return loss

    draw = np.random.default_rng(0)
    batches = [
        (draw.standard_normal((rows, width), np.float32), draw.integers(0, 10, rows).astype(np.int32)) for _ in range(4)
    ]
    return step, sg.compile(lambda x: model(x)), batches


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with all plans, which no test changes."""
    site = tmp_path_factory.mktemp("plans")
    step, predict, batches = classifier()
    given = [*map(sg.tensor, batches[0])]
    return sg.web.export(step, site, *given, programs={"predict": (predict, given[0])}, targets=OTHERS)


def manifests(folder: Path, program: str = "step") -> dict[str, Any]:
    return {m["name"]: m for m in json.loads((folder / f"{program}.json").read_text())["plans"]}


def sources_of(folder: Path, manifest: Any) -> tuple[Plan, list[str]]:
    """A plan of a folder, as the runtime puts it together, and the kernels that its own file holds."""
    exported = json.loads((folder / "step.json").read_text())
    file = json.loads((folder / manifest["plan"]).read_text())
    known = (
        dict(zip(exported["digests"], [k["source"] for k in exported["plan"]["kernels"]], strict=True))
        | file["sources"]
    )
    for path in manifest["kernels"]:
        known |= json.loads((folder / path).read_text())["sources"]
    for kernel in file["plan"]["kernels"]:
        kernel["source"] = known[kernel.pop("digest")]
    return Plan.from_json(json.dumps(file["plan"])), [*file["sources"].values()]


# -- which there are


def test_each_kernel_is_written_once_and_plans_tell_what_they_require(folder: Path) -> None:
    found = manifests(folder)
    assert [*found] == [*OTHERS]
    desktop, subgroups = (found[name]["requires"] for name in OTHERS)
    assert desktop["limits"].keys() <= LARGE.keys()
    assert desktop["limits"]["maxStorageBuffersPerShaderStage"] in (9, 10)
    assert (desktop["features"], desktop["software"], desktop["phones"]) == ([], False, False)
    assert (subgroups["features"], subgroups["subgroups"], subgroups["software"]) == (["subgroups"], [8, 128], True)
    texts = [k["source"] for k in json.loads((folder / "step.json").read_text())["plan"]["kernels"]]
    plans = {name: sources_of(folder, m) for name, m in found.items()}
    for plan, own in plans.values():
        assert 0 < len(own) < len(plan.kernels), "some kernels are the portable plan's"
        texts += own
    assert len(texts) == len({*texts})
    refused = FrontEnd().refused([k.source for plan, _ in plans.values() for k in plan.kernels])
    assert not refused, "browsers read every kernel: " + refused[0]
    assert "enable subgroups;" in "".join(k.source for k in plans["subgroups"][0].kernels)


def test_kernels_that_other_plans_share_lie_in_a_file_of_their_own(tmp_path: Path) -> None:
    step, _, batches = classifier()
    more = replace(PORTABLE, max_storage_buffers=10)
    same = {"a": more, "b": replace(more, traits=sg.web.TARGETS["desktop"].traits), "c": PORTABLE, "d": more}
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), targets=same)
    found = manifests(tmp_path)
    assert [*found] == ["a", "b"], "c is the portable plan, d is a"
    assert found["a"]["kernels"] == found["b"]["kernels"] != []
    for manifest in found.values():
        sources_of(tmp_path, manifest)
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), targets=())
    assert "plans" not in json.loads((tmp_path / "step.json").read_text())
    assert not (tmp_path / "plans").exists(), "an earlier export's files are gone"


def test_unknown_targets_are_refused(tmp_path: Path) -> None:
    step = sg.compile(lambda x: x + 1)
    wrong: list[tuple[Any, str]] = [
        (("fast",), "there is no target 'fast'; choose of matrices, desktop, subgroups"),
        ("desktop", "is one name"),
        ({"portable": PORTABLE}, "cannot be called 'portable'"),
        ({"numpy": NUMPY}, "is one of numpy"),
    ]
    for targets, text in wrong:
        with pytest.raises(WebError, match=text):
            sg.web.export(step, tmp_path, sg.ones(2), targets=targets)
    sg.web.export(step, tmp_path, sg.ones(2))  # a step that has one plan for all adapters
    assert "plans" not in json.loads((tmp_path / "step.json").read_text())


# -- matrix units

MATRIX_FEATURES = ["chromium-experimental-subgroup-matrix", "shader-f16", "subgroups"]
MATRIX_GPU = {**GPU, "features": MATRIX_FEATURES}


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step that multiplies halves, for adapters with matrix units and without."""
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    optimizer = sg.optim.SGD(model.parameters(), lr=1e-2)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        with sg.autocast("cpu", dtype=sg.float16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = np.ones((256, 256), np.float32), np.zeros(256, np.int32)
    return sg.web.export(
        step, tmp_path_factory.mktemp("half"), sg.tensor(x), sg.tensor(y), targets=("matrices", "desktop")
    )


def test_a_step_with_halves_has_a_plan_for_matrix_units(half: Path) -> None:
    found = manifests(half)
    assert [*found] == ["matrices", "desktop"]
    requires = found["matrices"]["requires"]
    assert requires["features"] == MATRIX_FEATURES
    assert requires["subgroups"] == [32, 32]
    assert not requires["software"]
    plan, own = sources_of(half, found["matrices"])
    assert sum("subgroupMatrixMultiplyAccumulate" in text for text in own) >= 3, "forward, and the gradients"
    refused = FrontEnd().refused([k.source for k in plan.kernels])
    assert not refused, refused[0]


def test_a_step_without_halves_has_none(folder: Path, tmp_path: Path) -> None:
    step, _, batches = classifier()
    sg.web.export(step, tmp_path, *map(sg.tensor, batches[0]), targets=("matrices", "desktop"))
    assert [*manifests(tmp_path)] == ["desktop"]


def test_a_page_uses_matrix_units_where_its_gpu_has_them_and_compiles_the_kernels(half: Path) -> None:
    unknown = next(text for text in sources_of(half, manifests(half)["matrices"])[1] if "subgroupMatrixLoad" in text)
    wide = {**MATRIX_GPU, "info": {**MATRIX_GPU["info"], "subgroupMaxSize": 64}}
    cases = {
        "matrices": {"adapter": MATRIX_GPU},
        "desktop: no feature": {"adapter": GPU},
        "desktop: wider subgroups": {"adapter": wide},
    }
    for name, found in outcomes(half, cases).items():
        assert found.get("plan") == name.partition(":")[0], (name, found)
        ((_, _, features),) = found["asked"]
        assert features == (MATRIX_FEATURES if name == "matrices" else []), name
    refused = outcomes(half, {"": {"adapter": MATRIX_GPU, "uncompiled": unknown}})[""]
    assert (refused["plan"], [r["plan"] for r in refused["refused"]]) == ("desktop", ["matrices"]), refused


# -- which one a page takes


def outcomes(folder: Path, scenarios: dict[str, dict[str, Any]]) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("CHOICE OF PLANS NOT TESTED, no node: install Node (Debian: apt-get install nodejs)")
    text = json.dumps([*scenarios.values()])
    done = subprocess.run(
        [node, "--no-warnings", str(Path(__file__).parent / "stub_gpu.mjs"), str(folder), text],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(scenarios, json.loads(done.stdout), strict=True))


def test_the_best_plan_is_taken_that_the_adapter_allows_and_no_other_is_fetched(folder: Path) -> None:
    phone = "Mozilla/5.0 (Linux; Android 15) Mobile"
    cases = {
        "desktop": {"adapter": GPU, "program": "predict.json"},
        "subgroups": {"adapter": LLVMPIPE},
        "portable: small": {"adapter": {**GPU, "limits": {}}, "program": "predict.json"},
        "portable: a phone": {"adapter": GPU, "agent": phone},
        "portable: subgroups of four": {"adapter": SWIFTSHADER},
        "portable: no subgroups": {"adapter": {**LLVMPIPE, "features": []}},
        "portable: wished": {"adapter": GPU, "plan": "portable"},
        "subgroups: wished": {"adapter": LLVMPIPE, "plan": "subgroups", "program": "predict.json"},
        "portable: an older export": {
            "adapter": GPU,
            "edits": [["step.json", ["plans"], None], ["step.json", ["digests"], None]],
        },
    }
    files = {name: [m["plan"], *m["kernels"]] for name, m in manifests(folder).items()} | {"portable": []}
    for name, found in outcomes(folder, cases).items():
        plan = name.partition(":")[0]
        assert found.get("plan") == plan, (name, found)
        mine = [path for path in found["fetched"] if path.startswith("plans/")]
        assert {*files[plan]} <= {*mine}, name
        assert len(mine) <= 2 * len(files[plan]), name
        ((buffers, storage, features),) = found["asked"]
        requires = manifests(folder)[plan]["requires"] if plan != "portable" else {"limits": {}, "features": []}
        assert (buffers, storage) == tuple(
            requires["limits"].get(k, low) for k, low in zip(LARGE, (8, 16384), strict=True)
        ), name
        assert (features, found["warned"]) == (requires["features"], []), name


def test_a_refused_plan_is_told_and_the_next_one_runs(folder: Path) -> None:
    only_desktop = sources_of(folder, manifests(folder)["desktop"])[1][0]
    cases = {
        "device": {"adapter": {**GPU, "refuses": True}},
        "kernel": {"adapter": GPU, "uncompiled": only_desktop},
        "later": {"adapter": GPU, "later": SWIFTSHADER, "program": "predict.json"},
        "wished": {"adapter": {**GPU, "refuses": True}, "plan": "desktop"},
        "unsuitable": {"adapter": SWIFTSHADER, "plan": "desktop"},
        "unknown": {"adapter": GPU, "plan": "fast"},
    }
    found = outcomes(folder, cases)
    for name, why in (
        ("device", "out of memory"),
        ("kernel", "does not compile"),
        ("later", "it is a software adapter"),
    ):
        outcome = found[name]
        assert outcome["later" if name == "later" else "plan"] == "portable", (name, outcome)
        assert outcome["asked"][-1][0] == 8, name
        assert [r["plan"] for r in outcome["refused"]] == ["desktop"], name
        assert why in outcome["refused"][0]["reason"], name
        assert "[load] the GPU refuses the plan desktop" in outcome["warned"][0], name
    assert "out of memory" in found["wished"]["error"]
    assert "[load] the plan desktop does not suit this GPU: it is a software adapter." in found["unsuitable"]["error"]
    assert "[load] there is no plan fast; there are: desktop, subgroups, portable." in found["unknown"]["error"]


def test_damaged_manifests_and_plans_are_refused(folder: Path) -> None:
    file = manifests(folder)["desktop"]["plan"]
    wrong = {
        "no list": ["step.json", ["plans"], {}],
        "no name": ["step.json", ["plans", 0, "name"], None],
        "features": ["step.json", ["plans", 0, "requires", "features"], "subgroups"],
        "limits": ["step.json", ["plans", 0, "requires", "limits"], {"maxBufferSize": "large"}],
        "sizes": ["step.json", ["plans", 1, "requires", "subgroups"], [8]],
        "adapters": ["step.json", ["plans", 0, "requires", "software"], None],
        "kernels": ["step.json", ["digests"], None],
        "another format": [file, ["format"], 0],
        "no plan": [file, ["plan"], None],
        "another state": [file, ["plan", "inputs"], [0]],
        "rows": [file, ["plan", "outputs"], [9999]],
        "sources": [file, ["sources"], {}],
    }
    cases: dict[str, dict[str, Any]] = {name: {"adapter": GPU, "edits": [edit]} for name, edit in wrong.items()}
    found = outcomes(folder, cases | {"missing": {"adapter": GPU, "missing": file}})
    for name, outcome in found.items():
        texts = ("has a manifest that is none", "is not the plan desktop of", "cannot be loaded: status 404")
        assert outcome.get("error", "").startswith("ShadergradError: [load] "), (name, outcome)
        assert any(text in outcome["error"] for text in texts), (name, outcome)


# -- that all compute the same


def losses_of(step: Any, batches: Any) -> list[float]:
    return [step(*map(sg.tensor, batch)).item() for batch in batches]


@pytest.mark.parametrize("name", ["subgroups", pytest.param("desktop", marks=pytest.mark.slow)])
def test_a_plan_runs_natively_where_the_device_grants_it(folder: Path, webgpu: str, name: str) -> None:
    """llvmpipe has subgroups of eight and the limits of a desktop; another device, and the portable profile, run the portable plan."""
    device: Any = execute.get_device(webgpu)
    target = device.target
    large = target.max_storage_buffers >= 10 and target.max_workgroup_storage >= 32768
    plan = Plan.from_json(json.dumps(json.loads((folder / "step.json").read_text())["plan"]))
    if target.traits.slow_loads if name == "subgroups" else large:
        plan = sources_of(folder, manifests(folder)[name])[0]
        assert (name == "subgroups") == any("subgroupShuffle(" in k.source for k in plan.kernels)
    kernels = tuple(
        replace(k, source=k.source.replace("enable subgroups;\n", "")) for k in plan.kernels
    )  # wgpu knows no such word
    step, _, batches = classifier()
    given = [*map(sg.tensor, batches[0])]
    values = {name: value for _, name, value in step.portable(*given).held()}
    program = execute.load_plan(replace(plan, kernels=kernels), webgpu)
    inputs, outputs = ([plan.buffers[row] for row in rows] for rows in (plan.inputs, plan.outputs))
    found = program.run([device.upload(np.ascontiguousarray(values[s.name]), s.dtype) for s in inputs])
    left = {s.name: device.download(o, s.shape, s.dtype) for s, o in zip(outputs, found, strict=True)}
    assert abs(left["result"].item() - losses_of(step, batches[:1])[0]) < 1e-5
    for _, parameter, value in step.portable(*given).held("parameter"):
        np.testing.assert_allclose(left[parameter], value, rtol=1e-4, atol=1e-5)


TRAINED = """async (batches) => {
  const {Program} = await import(new URL('runtime.js', location.href));
  const run = async (step, [x, y]) => (await step.run({x, y})).result;
  const step = await Program.load('step.json');
  const losses = [await run(step, batches[0]), await run(step, batches[1])];
  const portable = await Program.load('step.json', {plan: 'portable', state: (await step.saveState()).buffer});
  losses.push(await run(portable, batches[2]));
  await step.loadState(await portable.saveState());
  losses.push(await run(step, batches[3]));
  const features = [...step.device.features].filter((name) => name === 'subgroups');
  return {losses, plans: [step.plan.name, portable.plan.name], features, state: [...await step.saveState()]};
}"""


def test_plans_train_alike_in_a_browser_and_exchange_their_state(visit: Any, tmp_path: Path) -> None:
    """Those of larger limits and of the least, on SwiftShader, with a feature that is to be asked for."""
    step, _, batches = classifier(16, 8)
    given = [*map(sg.tensor, batches[0])]
    sg.web.export(step, tmp_path, *given, targets={"larger": replace(PORTABLE, max_storage_buffers=10)})
    exported = json.loads((tmp_path / "step.json").read_text())
    (requires,) = (manifest["requires"] for manifest in exported["plans"])
    assert requires["limits"]["maxStorageBuffersPerShaderStage"] > 8
    requires |= {"software": True, "features": ["subgroups"], "subgroups": [4, 4]}
    (tmp_path / "step.json").write_text(json.dumps(exported))
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,">')
    lists = [[part.ravel().tolist() for part in batch] for batch in batches]
    found = visit(tmp_path, "blank.html").evaluate(TRAINED, lists)
    here = losses_of(step, [*batches, batches[0]])
    assert np.abs(np.subtract(found["losses"], here[:4])).max() < 1e-4
    assert (found["plans"], found["features"]) == (["larger", "portable"], ["subgroups"])
    (tmp_path / "later").write_bytes(bytes(found["state"]))
    other, _, _ = classifier(16, 8)
    sg.web.load_state(other, tmp_path / "later", *given)
    assert abs(losses_of(other, batches[:1])[0] - here[4]) < 1e-4
