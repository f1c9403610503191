"""Exports a compiled step as a folder: plans, state, data, and the page that runs them.

In: a compiled step with example arguments. Out: `step.json` and a plan for each further program, plans for other adapters in `plans/`
(plans.py), `state.safetensors`, `data.safetensors`, `page.json`, and copies of the runtime and the page.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad.system.safe_tensors import save

from ..plan import Label, Plan
from ..run.portable import PortableStep
from ..target import Target
from . import plans, wasm_step
from .errors import WebError
from .javascript_step import render
from .javascript_work import work
from .join import joined
from .playground import PLAYGROUND
from .preview import PREVIEW, preview
from .state_file import Key, state_bytes
from .wasm_step import WasmStep

PAGES = {  # and the scripts that no other page needs
    "step": ("step.js",),
    "digits": ("digits.js",),
    "automaton": ("automaton.js", "circuit.js", "circuit-text.js", "circuit-wasm.js", "circuit-worker.js"),
    "compare": ("compare.js", "cpu-worker.js"),
}
GENERAL = ("step", "compare")  # pages of any step, which read data for arguments alone
STATE, DATA, PAGE = "state.safetensors", "data.safetensors", "page.json"
ELSEWHERE = {*PLAYGROUND, "gallery.html"}  # files that no exported page needs
API = "runtime.js"  # its comments keep the types of its exports, for other pages that use it


def export(
    step: sg.CompiledStep,
    folder: str | Path,
    *args: Any,
    title: str | None = None,
    text: str = "",
    programs: Mapping[str, tuple[Any, ...]] | None = None,
    data: Mapping[str, np.ndarray] | None = None,
    page: str = "step",
    settings: Mapping[str, Any] | None = None,
    address: str = "",
    targets: Sequence[str] | Mapping[str, Target] | None = None,
    **kwargs: Any,
) -> Path:
    """Write a folder that runs `step` on the visitor's GPU, without a server or Python; where there is none, on the CPU.

    args, kwargs: example arguments of the step, with the shapes that the page uses. Nothing runs.
    title, text: those of the page; by default the name of the step's function. text is a sentence on why the page is interesting.
    programs: further compiled functions, (function, *arguments) by name, which share the step's parameters and state.
    data: arrays by name. The page samples the arguments of the same names from them, in batches along the first axis. Arguments
    without data are random.
    page: "step"; "compare", which also runs the step on the CPU, in plain JavaScript (matrix multiplication, convolution, attention,
    recurrent layers, random numbers, sorting; operations of `extend` that have `javascript`); or a page of the library's recipes. Steps
    that JavaScript cannot run need a GPU on the other pages.
    settings: JSON data for it. address: where the folder will be on the web: links to the page show its picture only by a full address.
    targets: the adapters that have plans of their own beside the portable one, which runs on all: names of `sg.web.TARGETS`, or
    targets by names of yours, the best first. A page takes the first that its adapter allows, and fetches no other. By default
    ("matrices", "desktop"): GPUs of desktops, with more storage buffers and workgroup memory, and unrolled loops; "matrices" also uses
    their matrix units, in steps with float16, where a browser grants them. "subgroups" is for software
    adapters with subgroups of eight or more. Each plan takes about half the time of an export without any, which is `targets=()`; a plan equal to
    an earlier one is not written.
    Returns the folder. Export overwrites an existing folder file by file.
    Raises WebError for invalid file names, data that do not fit and unknown targets, CompileError for a step that cannot be exported (see
    `CompiledStep.portable`).

    >>> import tempfile
    >>> w = sg.zeros(2)
    >>> step = sg.compile(lambda x: w.add_(x).sum())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in sg.web.export(step, folder, sg.ones(2)).iterdir())[-5:]
    ['step.js', 'step.json', 'style.css', 'ui.js', 'worker.js']
    """
    if page not in PAGES:
        raise WebError(f"[export] there is no page {page!r}; choose of {', '.join(PAGES)}.")
    if not isinstance(step, sg.CompiledStep):
        hint = "sg.compile(lambda x: model(x))" if isinstance(step, sg.nn.Module) else "sg.compile(step)"
        raise WebError(f"[export] the step is a {type(step).__name__}. Hint: {hint}.")
    arrays = {name: np.asarray(a, order="C") for name, a in (data or {}).items()}
    wanted = plans.chosen(plans.DEFAULT if targets is None else targets)
    made = _programs((step, args, kwargs), programs or {}, wanted)
    outputs = {name: part.outputs for name, part in made.portable.items()}
    modules, refused = _on_cpu(made.node_by_node, outputs)
    compiled, interpreted = ({}, refused) if refused else _in_wasm(made.node_by_node, outputs)
    if page == "compare" and refused:
        raise WebError(f"[compare] {refused}")
    own = {name for part in made.portable.values() for name in part.arguments} if page in GENERAL else None
    _check_data(made.portable["step"].arguments, arrays, own, bool((settings or {}).get("whole_batches")))
    site = Path(folder)
    site.mkdir(parents=True, exist_ok=True)
    plans.write(site, plans.documents(made.with_plans, STATE, compiled))
    (site / STATE).write_bytes(state_bytes(made.state))
    for name in made.portable:
        _write_for_cpu(site, name, modules.get(name), compiled.get(name))
    if arrays:
        (site / DATA).write_bytes(save(arrays))
    described = {
        "page": page,
        "title": _title_of(step) if title is None else title,
        "text": text,
        "programs": list(made.portable),
        "data": DATA if arrays else None,
        "cpu": refused,  # why the page cannot train on the CPU; "" where it can
        "wasm": interpreted,  # why it trains there in plain JavaScript alone; "" where it has WebAssembly
        "work": work(made.node_by_node["step"], "step" in compiled),
        "settings": dict(settings or {}),
    }
    (site / PAGE).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    _copy_site(site, page)
    _fill_index(site, described["title"], text, address)
    (site / PREVIEW).write_bytes(preview(arrays, settings or {}))
    return site


@dataclass(frozen=True)
class _Programs:
    """The programs of a page, by name: their portable plans, the same with plans for other targets, and their graphs for the CPU."""

    portable: dict[str, PortableStep]
    with_plans: dict[str, plans.Program]
    node_by_node: dict[str, PortableStep]
    state: dict[Key, np.ndarray]


def _programs(
    step: tuple[sg.CompiledStep, tuple[Any, ...], Mapping[str, Any]],
    further: Mapping[str, tuple[Any, ...]],
    targets: Mapping[str, Target],
) -> _Programs:
    """Compile the step and further programs for every target, with one name for each array that they share."""
    function, args, kwargs = step
    portable = {"step": function.portable(*args, **kwargs)}
    others = {"step": _planned(function, portable["step"].plan, targets, args, kwargs)}
    node_by_node = {"step": function.node_by_node(*args, **kwargs)}
    for name, (function, *given) in further.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in (*portable, "page"):
            raise WebError(
                f"[export] a program cannot be called {name!r}: give a name of small letters, another for each."
            )
        portable[name] = function.portable(*given)
        others[name] = _planned(function, portable[name].plan, targets, given, {})
        node_by_node[name] = function.node_by_node(*given)
    compiled = {name: part.plan for name, part in portable.items()}  # before shared arrays are renamed
    known: dict[int, Any] = {}
    state: dict[Key, np.ndarray] = {}
    for name, part in (*portable.items(), *node_by_node.items()):
        part.share(known, name)
        state |= part.state()
    with_plans = {
        name: plans.Program(
            part, {k: plans.like(k, plan, compiled[name], part.plan) for k, plan in others[name].items()}
        )
        for name, part in portable.items()
    }
    return _Programs(portable, with_plans, node_by_node, state)


def _planned(
    function: sg.CompiledStep,
    portable: Plan,
    targets: Mapping[str, Target],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Plan]:
    """The plans of a program for the targets that it can use, by their names."""
    used = {name: target for name, target in targets.items() if plans.takes(target, portable)}
    return {name: function.planned_for(target, *args, **kwargs).plan for name, target in used.items()}


def _write_for_cpu(site: Path, name: str, javascript: str | None, wasm: WasmStep | None) -> None:
    """Write a program for the page's CPU, and remove its files of an earlier export."""
    for end in (".cpu.js", ".wasm", ".wasm.js"):
        (site / f"{name}{end}").unlink(missing_ok=True)
    if javascript is not None:
        (site / f"{name}.cpu.js").write_text(javascript, encoding="utf-8")
    if wasm is not None:
        (site / f"{name}.wasm").write_bytes(wasm.module)
        (site / f"{name}.wasm.js").write_text(wasm.script, encoding="utf-8")


def _fill_index(site: Path, title: str, text: str, address: str) -> None:
    """Write the title, the text and the address into the page."""
    filled = {
        "title": title,
        "text": text,
        "address": address if not address or address[-1] == "/" else f"{address}/",
    }
    index = Template((site / "index.html").read_text(encoding="utf-8"))
    (site / "index.html").write_text(index.substitute({k: escape(v) for k, v in filled.items()}), encoding="utf-8")


def _on_cpu(parts: Mapping[str, PortableStep], outputs: Mapping[str, list[Label]]) -> tuple[dict[str, str], str]:
    """The programs as JavaScript, and ""; or none, and the reason. outputs: the labels of each program's outputs."""
    try:
        return {name: render(part, outputs[name]) for name, part in parts.items()}, ""
    except WebError as error:
        return {}, str(error)


def _in_wasm(parts: Mapping[str, PortableStep], outputs: Mapping[str, list[Label]]) -> tuple[dict[str, WasmStep], str]:
    """The programs in WebAssembly, and ""; or none, and the reason: one of them is not supported, or llvmlite is missing."""
    try:
        return {name: wasm_step.render(part.plan, outputs[name]) for name, part in parts.items()}, ""
    except WebError as error:
        return {}, str(error)


def _title_of(step: sg.CompiledStep) -> str:
    """A function's name in words; empty for functions without a name, and for the commonest names."""
    name = getattr(step, "__name__", "")
    return "A training step" if name in ("", "<lambda>", "step") else name.strip("_").replace("_", " ").capitalize()


_BLOCKS = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n|/\*\*(?:(?!\*/).)*\*/ ?", re.MULTILINE | re.DOTALL)
_COMMENTS = re.compile(  # of type checkers, and within the code; heads of files stay
    r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n|/\*\*(?:(?!\*/).)*\*/ ?|^[ \t]+// [^\n]*\n|(?<=[;{},()]) // [^\n]*",
    re.MULTILINE | re.DOTALL,
)


def _check_data(
    arguments: Mapping[str, np.ndarray], data: Mapping[str, np.ndarray], known: set[str] | None, whole: bool
) -> None:
    """known: the arguments of all programs, if the page has no other use for data. whole: data are whole batches."""
    strange = [name for name in data if known is not None and name not in known]
    if strange:
        raise WebError(
            f"[export] there is no argument {strange[0]!r} for data; there are {', '.join(sorted(known or ())) or 'none'}."
        )
    rows = {name: len(data[name]) for name in arguments if name in data and data[name].ndim}
    if not whole and len({*rows.values()}) > 1:
        lengths = ", ".join(f"{name} has {n:,}" for name, n in rows.items())
        raise WebError(f"[export] data have other numbers of samples: {lengths}. A batch takes the same rows of each.")
    for name, example in arguments.items():
        given = data.get(name)
        if given is None:
            continue
        if (
            given.dtype != example.dtype
            or not given.ndim
            or given.shape[1:] != example.shape[1:]
            or len(given) < len(example)
        ):
            raise WebError(
                f"[export] data for {name} are {given.dtype} {given.shape}; the step takes batches of {example.dtype} "
                f"{example.shape}."
            )


def _public(module: str) -> str:
    """A module without the comments of names that it does not export."""

    def kept(found: re.Match[str]) -> str:
        after = module[found.end() :]
        is_public = re.match(
            r"export |  (?!constructor)(?:(?:static|async|get) )*[a-z]\w*(?: =|\()", after
        ) and _class_of(module[: found.start()])
        return found[0] if "@typedef" in found[0] or is_public or not found.start() else ""

    short = re.sub(r"^[ \t]*//[^\n]*\n|(?<=[;{},()]) // [^\n]*", "", _BLOCKS.sub(kept, module), flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", _without_unused_types(short))


def _without_unused_types(module: str) -> str:
    """A module without the types that no comment of it names."""
    blocks = [found[0] for found in _BLOCKS.finditer(module)]
    for block in blocks:
        name = re.search(r"@typedef .*\} (\w+)", block)
        others = (other for other in blocks if other is not block)
        if name and not any(re.search(rf"\b{name[1]}\b", other) for other in others):
            return _without_unused_types(module.replace(block, "", 1))
    return module


def _class_of(before: str) -> bool:
    """Whether the class that a text is in, if any, is exported. before: the text before it."""
    classes = re.findall(r"^(export )?class ", before, re.MULTILINE)
    return not classes or bool(classes[-1])


def _copy_site(site: Path, page: str) -> None:
    """Copies the files that all steps share, without those of other pages."""
    others = {name for other, names in PAGES.items() if other != page for name in names} | ELSEWHERE
    with resources.as_file(resources.files(__name__.rpartition(".")[0]) / "site") as folder:
        for path in folder.iterdir():
            if path.name in others or path.is_dir():
                continue
            if path.suffix == ".js":
                short = (
                    _public(joined(path)) if path.name == API else _COMMENTS.sub("", path.read_text(encoding="utf-8"))
                )
                (site / path.name).write_text(short, encoding="utf-8")
            elif path.suffix == ".css":
                short = re.sub(r" */\*.*?\*/|^ +", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
                (site / path.name).write_text(short, encoding="utf-8")
            else:
                shutil.copyfile(path, site / path.name)
