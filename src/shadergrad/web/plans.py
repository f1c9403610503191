"""The plans of an exported folder: the portable one of each program, and others for more capable adapters.

In: for each program its portable plan, and those for other targets. Out: `NAME.json` with the portable plan and a manifest of each
other, and the files in `plans/` that manifests name. Such a file is named by the digest of its content, so that a stale copy of a host
or a browser is never used. Each kernel is stored once: the portable plan's in `NAME.json`, one that several others need in a file that
they share, any other in its plan's file. The reader is site/runtime.js.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from ..compile.tuning import digest_for
from ..dtypes import float16
from ..plan import Label, Plan
from ..run.portable import PortableStep
from ..target import PORTABLE, ROWS, Matrices, Target
from .errors import WebError

FOLDER = "plans"
FORMAT = 1  # of the files there
# what Chromium grants on the GPUs of desktops
_DESKTOP = Target("wgsl", max_storage_buffers=10, max_workgroup_storage=32768, traits=ROWS["desktop"])
# The best first. Pages take the first plan whose requirements their adapter meets.
TARGETS: Mapping[str, Target] = {
    # the matrix units of NVIDIA's GPUs, for steps with float16; units of other shapes refuse its kernels, and the next plan runs
    "matrices": replace(_DESKTOP, f16=True, subgroups=(32, 32), matrices=(Matrices(16, 16, 16, "f16", "f32"),)),
    "desktop": _DESKTOP,
    # eight threads of a workgroup are one subgroup (compile/tiles.py, SHARED_BY)
    "subgroups": Target("wgsl", traits=ROWS["software page"], subgroups=(8, 128)),
}
DEFAULT = ("matrices", "desktop")
# WebGPU's names of the features that shaders enable: https://www.w3.org/TR/WGSL/#extension-names
_FEATURES = {
    "f16": "shader-f16",
    "subgroups": "subgroups",
    "chromium_experimental_subgroup_matrix": "chromium-experimental-subgroup-matrix",
}
_SUBGROUPS = re.compile(r"\b(?:subgroup|quad)[A-Z]\w*\(|@builtin\(subgroup_")
_WORKGROUP = re.compile(r"var<workgroup> \w+: ?([^;=]+);")
_SCALARS = {"f32": 4, "i32": 4, "u32": 4, "atomic<u32>": 4, "atomic<i32>": 4, "f16": 2}


@dataclass(frozen=True)
class Program:
    """A program of a folder, and its plans for other targets, by their names."""

    part: PortableStep
    others: Mapping[str, Plan]


def chosen(targets: Sequence[str] | Mapping[str, Target]) -> dict[str, Target]:
    """The targets of these names, the best first. Raises WebError for an unknown name, and for a target without shaders."""
    if isinstance(targets, str):
        raise WebError(f"[export] targets={targets!r} is one name. Hint: targets=({targets!r},).")
    if isinstance(targets, Mapping):
        found = dict(targets)
    else:
        unknown = [name for name in targets if name not in TARGETS]
        if unknown:
            raise WebError(f"[export] there is no target {unknown[0]!r}; choose of {', '.join(TARGETS)}.")
        found = {name: target for name, target in TARGETS.items() if name in targets}
    for name, target in found.items():
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name == "portable":
            raise WebError(f"[export] a target cannot be called {name!r}: give a name of small letters.")
        if target.language != "wgsl":
            raise WebError(f"[export] the target {name} is one of {target.language}, which pages do not run.")
    return {name: _with_tiles(target) for name, target in found.items()}


def _with_tiles(target: Target) -> Target:
    """The target with the tiles that ship with the library for similar adapters."""
    table = target.traits.table
    return replace(target, measured=digest_for("page", "", table)) if table and not target.measured else target


def takes(target: Target, portable: Plan) -> bool:
    """Whether a plan for a target is compiled: one with matrix units only of a program with float16."""
    return not target.matrices or any(spec.dtype is float16 for spec in portable.buffers)


def like(name: str, plan: Plan, portable: Plan, labels: Plan) -> Plan:
    """A plan with the names of its program's portable plan. portable: as it was compiled, `labels`: as it is named.

    Raises WebError if their inputs or outputs differ, because a page's state would not fit both.
    """
    if _interface(plan) != _interface(portable):
        raise WebError(f"[export] the plan for {name} reads or writes other values than the portable one.")

    def of(rows: Sequence[int]) -> list[Label]:
        return [Label(labels.buffers[row].role, labels.buffers[row].name) for row in rows]

    return plan.labelled(of(labels.inputs), of(labels.outputs))


def _interface(plan: Plan) -> list[list[Any]]:
    return [
        [(b.role, b.name, b.shape, b.dtype) for b in (plan.buffers[row] for row in rows)]
        for rows in (plan.inputs, plan.outputs)
    ]


def documents(programs: Mapping[str, Program], state: str, in_wasm: Collection[str] = ()) -> dict[str, str]:
    """The texts of the files, by path. state: the name of the file with the programs' state. in_wasm: programs that also exist in
    WebAssembly.
    """
    found: dict[str, str] = {}
    written = {name: _differing(program) for name, program in programs.items()}
    requires = _requirements([plans for _, plans in written.values()], programs)
    for name, (portable, others) in written.items():
        document = json.loads(programs[name].part.to_json(state))
        document["plan"] = portable
        if name in in_wasm:
            document["wasm"] = True
        if others:
            known = [_digest(kernel["source"]) for kernel in portable["kernels"]]
            document["digests"] = known
            document["plans"] = _manifests(others, set(known), requires, found)
        found[f"{name}.json"] = _text(document)
    return found


def write(site: Path, documents: Mapping[str, str]) -> None:
    """Writes the files into a folder, and removes those of earlier exports from `plans/`."""
    folder = site / FOLDER
    for old in folder.glob("*.json"):
        if re.fullmatch(r"[0-9a-f]{16}\.json", old.name) and f"{FOLDER}/{old.name}" not in documents:
            old.unlink()
    if any(path.startswith(f"{FOLDER}/") for path in documents):
        folder.mkdir(exist_ok=True)
    elif folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    for path, text in documents.items():
        (site / path).write_text(text, encoding="utf-8")


def _manifests(
    others: Mapping[str, Any], known: set[str], requires: Mapping[str, Any], found: dict[str, str]
) -> list[dict[str, Any]]:
    """The manifests of a program's other plans, whose files are added to `found`. known: digests of the portable plan's kernels."""
    users: dict[str, list[str]] = {}
    sources: dict[str, str] = {}
    for name, plan in others.items():
        for kernel in plan["kernels"]:
            source = kernel.pop("source")
            kernel["digest"] = digest = _digest(source)
            if digest not in known:
                sources[digest] = source
                users.setdefault(digest, []).append(name)
    shared = {tuple(names) for names in users.values() if len({*names}) > 1}
    files = {
        names: _add({"format": FORMAT, "sources": {d: sources[d] for d in sources if tuple(users[d]) == names}}, found)
        for names in sorted(shared)
    }
    return [
        {
            "name": name,
            "plan": _add(
                {
                    "format": FORMAT,
                    "plan": plan,
                    "sources": {d: text for d, text in sources.items() if users[d] == [name]},
                },
                found,
            ),
            "kernels": [path for names, path in files.items() if name in names],
            "requires": requires[name],
        }
        for name, plan in others.items()
    ]


def _add(document: Mapping[str, Any], found: dict[str, str]) -> str:
    text = _text(document)
    path = f"{FOLDER}/{_digest(text)}.json"
    found[path] = text
    return path


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# -- which plans there are


def _differing(program: Program) -> tuple[dict[str, Any], dict[str, Any]]:
    """The portable plan as data, and the other plans that differ from all before them."""
    portable = _data(program.part.plan)
    seen, others = [_work(portable)], {}
    for name, plan in program.others.items():
        data = _data(plan)
        if _work(data) not in seen:
            seen.append(_work(data))
            others[name] = data
    return portable, others


def _work(plan: Mapping[str, Any]) -> str:
    """The work of a plan, without the descriptions of its kernels."""
    kernels = [(kernel["source"], kernel["access"]) for kernel in plan["kernels"]]
    return json.dumps([kernels, *(plan[key] for key in ("buffers", "dispatches", "inputs", "outputs", "slots"))])


def _data(plan: Plan) -> dict[str, Any]:
    """A plan as data, with its kernels' text in the form for pages, and without fields that no runner needs."""
    data = json.loads(plan.to_json())
    for kernel in data["kernels"]:
        kernel["source"] = _compact(_enabling(kernel["source"]))
        for key in ("primitive", "parameters", "choice"):  # of other devices, and for people
            del kernel[key]
    for buffer in data["buffers"]:
        if buffer["role"] == "temporary":
            buffer["name"] = ""
    return data


def _enabling(source: str) -> str:
    """A shader with `enable` directives for its features: browsers require them, and wgpu-native rejects them."""
    missing = _SUBGROUPS.search(source) and not re.search(r"^enable [^;]*\bsubgroups\b", source, re.MULTILINE)
    return f"enable subgroups;\n{source}" if missing else source


def _compact(source: str) -> str:
    """A shader without indentation and comments, and with fewer spaces. Lines keep their numbers."""
    text = re.sub(r"^ +|^ *//.*", "", source, flags=re.MULTILINE)
    text = re.sub(r"(?<=\blet )(\w+) = |(?<=[]]) = ", r"\1=", text)
    text = re.sub(r"(?<=[\w)\]]) ([-/]) (?=[\w(])", r"\1", text)
    return re.sub(r"(?<=[,;{}*+]) | (?=[{}*+])", "", text)


# -- what a plan requires


def _requirements(written: Sequence[Mapping[str, Any]], programs: Mapping[str, Program]) -> dict[str, dict[str, Any]]:
    """What each plan requires, by its name. The programs of a folder share a device, so a name requires the same in all of them.

    The plans' targets are given the limits that they require.
    """
    targets = {name: plan.target for program in programs.values() for name, plan in program.others.items()}
    found = {}
    for name, target in targets.items():
        plans = [plans[name] for plans in written if name in plans]
        kernels = [kernel for plan in plans for kernel in plan["kernels"]]
        limits = _limits(kernels, target)
        for plan in plans:
            plan["target"] |= {
                "max_storage_buffers": limits["maxStorageBuffersPerShaderStage"],
                "max_workgroup_invocations": limits["maxComputeInvocationsPerWorkgroup"],
                "max_workgroup_storage": limits["maxComputeWorkgroupStorageSize"],
            }
        features = sorted({f for kernel in kernels for f in _features(kernel)})
        own = {"features": features, "limits": {k: n for k, n in limits.items() if n > _LEAST[k]}}
        if "subgroups" in features or target.traits.slow_loads:
            own["subgroups"] = list(target.subgroups)
        # long texts take a phone's processor too long to compile
        found[name] = own | {"software": target.traits.slow_loads, "phones": not target.traits.unrolls}
    return found


_LEAST = {
    "maxStorageBuffersPerShaderStage": PORTABLE.max_storage_buffers,
    "maxComputeInvocationsPerWorkgroup": PORTABLE.max_workgroup_invocations,
    "maxComputeWorkgroupStorageSize": PORTABLE.max_workgroup_storage,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
}


def _limits(kernels: Sequence[Mapping[str, Any]], target: Target) -> dict[str, int]:
    """The limits that kernels need, at least WebGPU's defaults."""
    groups = [kernel["workgroup"] for kernel in kernels]
    need = {
        "maxStorageBuffersPerShaderStage": [len(kernel["access"]) for kernel in kernels],
        "maxComputeInvocationsPerWorkgroup": [prod(group) for group in groups],
        "maxComputeWorkgroupStorageSize": [_workgroup_bytes(kernel["source"], target) for kernel in kernels],
        **{f"maxComputeWorkgroupSize{axis}": [group[k] for group in groups] for k, axis in enumerate("XYZ")},
    }
    return {name: max([_LEAST[name], *values]) for name, values in need.items()}


def _workgroup_bytes(source: str, target: Target) -> int:
    """Bytes of workgroup memory that a shader declares; its target's limit if a declaration is not plain."""
    total = 0
    for declared in _WORKGROUP.findall(source):
        array = re.fullmatch(r"array<(.+), ?(\d+)>", declared.strip())
        element, count = (array[1].strip(), int(array[2])) if array else (declared.strip(), 1)
        vector = re.fullmatch(r"vec([24])<(\w+)>", element)
        scalar, width = (vector[2], int(vector[1])) if vector else (element, 1)
        if scalar not in _SCALARS:
            return target.max_workgroup_storage
        total += -(-count * width * _SCALARS[scalar] // 16) * 16  # as WebGPU counts, each rounded up
    return total


def _features(kernel: Mapping[str, Any]) -> set[str]:
    names = [
        n.strip() for given in re.findall(r"^enable ([^;]+);", kernel["source"], re.MULTILINE) for n in given.split(",")
    ]
    unknown = [name for name in names if name not in _FEATURES]
    if unknown:
        raise WebError(
            f"[export] the kernel {kernel['name']} enables {unknown[0]}, of which no feature of WebGPU is known."
        )
    return {_FEATURES[name] for name in names}
