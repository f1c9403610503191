"""Writes the pages of results: python scripts/results.py [--check].

In: the records of benchmarks/results (`benchmarks/record.py`). Out: benchmarks/RESULTS.md, the newest figures by machine, and the tables
in README.md and docs between `<!-- results NAME: begin -->` and `<!-- results NAME: end -->`. Nobody types a figure on these pages.
With --check the script writes nothing; if a page differs from the records, it names the page and exits with status 1.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from record import BY_HAND, FOLDER, Machine, Record, RecordError, read  # noqa: E402

PAGE = ROOT / "benchmarks" / "RESULTS.md"
WIDTH = 140
MARKED = re.compile(r"(<!-- results (\w+): begin -->\n)(.*?)(<!-- results \2: end -->)", re.S)
EAGER, COMPILED = "PyTorch eager", "torch.compile"
SHARE = f"of {EAGER}'s speed"  # a quantity: the ratio alone was noted
TASKS = {
    "xor": "xor, batch 4",
    "mlp": "MLP 784-512-512-10, batch 256",
    "cnn": "CNN, two convolutions, batch 128",
    "lstm": "LSTM of 256, 32 steps, batch 64",
    "resnet": "ResNet-18, batch 128",
    "transformer": "transformer, 4 layers of 256",
    "mlm": "masked language model, 6 layers of 128",
    "gpt2s": "GPT-2 small, 4 x 512 tokens",
    "gpt2s_128": "GPT-2 small, 1 x 128 tokens",
    "resnet_16": "ResNet-18, batch 16",
    "logreg": "logistic regression, batch 256",
}
# Benchmarks of the page, in its order, with what a row of each begins with. The others are told where they belong, or by themselves.
SHOWN = {
    "uncompiled": "training step",
    "uncompiled_programs": "uncompiled program of examples/",
    "first_step": "first step",
    "products": "",
    "units": "float16 on matrix units",
    "half_precision": "training step under autocast",
    "torch_device": "training step of PyTorch on device webgpu",
    "attention": "attention",
    "memory": "",
    "transfers": "transfer",
    "host_time": "host time of a dispatch",
    "implementations": "host time of a dispatch, by implementation of WebGPU",
    "scaling": "several GPUs",
    "diloco_loss": "",
    "logic": "automaton, training step",
    "circuits": "circuit",
}
QUANTITIES = (
    "time",
    "throughput of one process",
    "device time",
    "rate",
    "first step",
    "second step",
    SHARE,
    "a dispatch from begin to submit",
    "loss of the text",
    "loss of its end, held out",
)
MOST_ROWS = 6  # of a benchmark and machine
ON_ONE_CORE = (", NumPy", ", C")  # circuits, in docs/logic.md


# -- words


def figure(value: float, unit: str) -> str:
    """With its unit, to three digits: 0.041 ms, 6.5 KiB, 3.14e14 gates/s."""
    if unit == "bytes":
        for name in ("B", "KiB", "MiB", "GiB"):
            if value < 1024 or name == "GiB":
                return f"{number(value)} {name}"
            value /= 1024
    words = {"share": "", "times": "", "dispatches": "", "us": " \N{MICRO SIGN}s"}
    return f"{number(value, whole=unit != 'dispatches')}{words.get(unit, f' {unit}')}"


def number(value: float, whole: bool = False) -> str:
    """Three digits. whole: three also where the last are zeros, from 1 on."""
    if value >= 1e7:
        return f"{value:.2e}".replace("e+", "e")
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}" if whole and value >= 1 else f"{value:.3g}"


def naturally(case: str) -> list[tuple[int, str]]:
    """A key that sorts numbers in words by their size."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", case)]


def caption(records: Iterable[Record], said: Machine | None = None) -> str:
    """Machine, days, commits and versions of what a table shows. said: the machine, where the heading names it."""
    records = list(records)
    machines = {r.machine for r in records}
    days = sorted({r.date for r in records})
    commits = sorted({r.commit for r in records if r.commit})
    peers = sorted({f"{name} {r.versions[name]}" for r in records for name in ("torch", "jax") if name in r.versions})
    by_hand = sum(BY_HAND in r.how for r in records)
    parts = [described(machines.pop())] if len(machines) == 1 and said is None else []
    parts += [" to ".join(dict.fromkeys((days[0], days[-1])))]
    parts += [f"commit {', '.join(commits)}"] if commits else []
    parts += [", ".join(peers)] if peers else []
    if by_hand:
        parts.append(BY_HAND if by_hand == len(records) else f"{by_hand} of {len(records)} figures {BY_HAND}")
    return textwrap.fill("; ".join(parts) + ".", WIDTH, break_on_hyphens=False)


def described(machine: Machine) -> str:
    driver = f", driver {machine.driver}" if machine.driver else ""
    processor = "" if machine.processor == "not noted" else f", {machine.processor}"
    return f"{title(machine)}{driver}{processor}"


def title(machine: Machine) -> str:
    return "The cpu device" if machine.adapter == "cpu" else machine.adapter


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table without its empty columns; the first column always stays."""
    rows = [*rows]
    kept = [k for k in range(len(head)) if k == 0 or any(row[k] for row in rows)]
    lines = ["| " + " | ".join(line[k] for k in kept) + " |\n" for line in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(kept) + "\n")
    return re.sub(r"\|  (?=\|)", "| ", "".join(lines))


def ratio(record: Record, peer: str = "") -> float | None:
    """The speed relative to a peer, by default the first; None without that peer."""
    peer = peer or first_peer(record)
    if record.quantity == SHARE:
        return record.value
    return record.times_as_good(peer) if record.peers.get(peer) and record.value else None


def times(record: Record, peer: str) -> str:
    """The ratio as text."""
    found = ratio(record, peer)
    return "" if found is None else bold(found)


def bold(found: float) -> str:
    """A ratio, bold where ours is slower."""
    return number(found, whole=True) if found >= 1 else f"**{found:.2f}**"


# -- tables


def steps(records: list[Record], tasks: dict[str, str] = TASKS) -> str:
    """Training steps of one machine, in the order of `tasks`."""
    of = {(r.benchmark, r.case, r.quantity): r for r in records}
    rows = []
    for case, name in tasks.items():
        time = of.get(("step", case, "time")) or of.get(("step", case, SHARE)) or of.get(("uncompiled", case, "time"))
        if time is None:
            continue
        memory, count = (of.get(("step", case, what)) for what in ("peak memory", "dispatches"))
        rows.append(
            [
                name,
                "" if time.quantity == SHARE else number(time.value, whole=True),
                *(number(time.peers[p], whole=True) if p in time.peers else "" for p in (EAGER, COMPILED)),
                times(time, EAGER),
                times(time, COMPILED) if COMPILED in time.peers else "",
                figure(count.value, "dispatches") if count else "",
                figure(memory.value, "bytes") if memory else "",
                figure(memory.peers[EAGER], "bytes") if memory and EAGER in memory.peers else "",
            ]
        )
    head = ["training step, ms", "shadergrad", EAGER, COMPILED, "times as fast", f"as {COMPILED}"]
    return table([*head, "dispatches", "peak memory", "PyTorch's"], rows)


def others(records: list[Record]) -> str:
    """A row a record of the benchmarks that the page shows, but for those that have many: of them the slowest beside their peers."""
    rows = []
    for benchmark in SHOWN:
        own = [r for r in records if r.benchmark == benchmark and r.quantity in QUANTITIES]
        own = sorted(
            (r for r in own if not r.case.endswith(ON_ONE_CORE)), key=lambda r: (naturally(r.case), r.quantity)
        )
        slowest = sorted((r for r in own if ratio(r)), key=lambda r: ratio(r) or 0)[:MOST_ROWS]
        for r in own if len(own) <= MOST_ROWS else slowest:
            peers = ", ".join(f"{peer} {figure(v, r.unit)}" for peer, v in r.peers.items())
            rows.append(
                [row_name(r), "" if r.quantity == SHARE else figure(r.value, r.unit), peers, times(r, first_peer(r))]
            )
        if len(own) > MOST_ROWS:
            ratios = [ratio(r) or 0 for r in own if r not in slowest and ratio(r)]
            between = f"{bold(min(ratios))} to {bold(max(ratios))}" if ratios else ""
            rows.append([f"{len(own) - len(slowest)} others of results/{benchmark}.json", "", "", between])
    return table(["", "shadergrad", "beside", "times as fast"], rows)


def first_peer(record: Record) -> str:
    return next(iter(record.peers), EAGER)


def row_name(r: Record) -> str:
    """What was measured: "first step: ResNet-18, batch 128"."""
    task, comma, more = r.case.partition(",")
    name = task if r.benchmark == "uncompiled_programs" else TASKS.get(task, task)  # programs have names of their own
    if more.startswith(" batch "):  # another batch than the task's
        name = re.sub(", batch [0-9]+$", "", name)
    case = f"{name}{comma}{more}".replace("dot ", "multiplication ")
    case = case.replace(" aT", ", a transposed").replace(" bT", ", b transposed")
    what = r.quantity if r.quantity in ("first step", "second step") or "loss" in r.quantity else SHOWN[r.benchmark]
    return f"{what}: {case}" if what else case


def speed(records: list[Record]) -> str:
    """README's: training steps of the GPU with most of them beside PyTorch."""
    machine = best_machine(r for r in records if r.benchmark == "step" and r.quantity == "time" and EAGER in r.peers)
    tasks = {"xor": TASKS["xor"], "mlp": TASKS["mlp"], "mlp, uncompiled": "MLP, uncompiled", **TASKS}
    own = [r for r in records if r.machine == machine and r.benchmark in ("step", "uncompiled") and r.case in tasks]
    beside_eager = {r.case for r in own if EAGER in r.peers and r.quantity == "time"}
    own = [r for r in own if r.case in beside_eager]
    beside = "Milliseconds a training step and peak memory, beside PyTorch in the same run, float32 without TF32."
    return f"{beside}\n{caption(own)}\n\n{steps([r for r in own if r.quantity != 'dispatches'], tasks)}"


def growth(records: list[Record]) -> str:
    """Of each network the ends of each axis."""
    machine = best_machine(r for r in records if r.benchmark == "growth")
    own = [r for r in records if r.machine == machine and r.benchmark == "growth"]
    by_axis: dict[str, list[tuple[int, Record]]] = {}
    for r in own:
        axis, size = r.case.rsplit(" ", 1)
        by_axis.setdefault(axis, []).append((int(size), r))
    ends = {axis: [sorted(sizes, key=lambda s: s[0])[k] for k in (0, -1)] for axis, sizes in by_axis.items()}
    rows = [
        [
            axis,
            *(
                f"{size}: {number(r.value)} ({number(r.peers[EAGER])})"
                if EAGER in r.peers
                else f"{size}: {number(r.value)}"
                for size, r in pair
            ),
        ]
        for axis, pair in ends.items()
    ]
    return f"{caption(own)}\n\n{table(['ms a step (PyTorch eager)', 'smallest', 'largest'], rows)}"


def circuits(records: list[Record]) -> str:
    """Gates a second on one core."""
    found = [r for r in records if r.benchmark == "circuits" and r.case.endswith((", NumPy", ", C"))]
    machine = best_machine(found)
    by_board: dict[tuple[int, str], dict[str, str]] = {}
    for r in found:
        if r.machine == machine:
            gates, board, how = r.case.split(", ")
            by_board.setdefault((int(board.partition("x")[0]), gates), {})[how] = number(r.value)
    rows = [
        [f"{gates}, {side} x {side}", by.get("NumPy", ""), by.get("C", "")]
        for (side, gates), by in sorted(by_board.items())
    ]
    shown = caption((r for r in found if r.machine == machine), machine)
    return f"{machine.processor}; {shown}\n\n{table(['gates per second', 'NumPy', 'C'], rows)}"


def browser(records: list[Record]) -> str:
    """Pages' steps beside those of the native runtime."""
    own = [r for r in records if r.benchmark == "browser" and r.quantity == "rate" and r.peers]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    rows = [
        [
            f"{r.case}, {r.machine.adapter}",
            number(r.value),
            *map(number, r.peers.values()),
            times(r, next(iter(r.peers))),
        ]
        for r in sorted(own, key=lambda r: r.key)
    ]
    return f"{caption(own)}\n\n{table(['steps per second', 'page', 'native runtime', 'times as fast'], rows)}"


def browser_peers(records: list[Record]) -> str:
    """Pages' steps beside other libraries in a browser, and beside Python in the page; of each how many times as long it takes."""
    own = [r for r in records if r.benchmark == "browser_peers" and r.quantity == "time" and r.case in TASKS]
    machine = best_machine(own)
    own = sorted((r for r in own if r.machine == machine), key=lambda r: [*TASKS].index(r.case))
    names = dict.fromkeys(name for r in own for name in r.peers)

    def beside(r: Record, name: str) -> str:
        return f"{figure(r.peers[name], r.unit)} ({times(r, name)})" if name in r.peers else ""

    rows = [[TASKS[r.case], figure(r.value, r.unit), *(beside(r, name) for name in names)] for r in own]
    heads = ["step with Adam (in brackets: times the page's)", "page", *names]
    return f"{caption(own)}\n\n{table(heads, rows)}"


def mnist_logic(records: list[Record]) -> str:
    """Accuracies and seconds of trainings on MNIST, by machine."""
    own = [r for r in records if r.benchmark == "mnist_logic"]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    tables = []
    for machine in sorted({r.machine for r in own}, key=lambda m: (not is_gpu(m), m)):
        by_case: dict[str, dict[str, Record]] = {}
        for r in own:
            if r.machine == machine:
                by_case.setdefault(r.case, {})[r.quantity] = r
        rows = [
            [
                case,
                f"{100 * by['hard accuracy'].value:.2f}",
                f"{100 * by['soft accuracy'].value:.2f}",
                number(by["time"].value),
                str(by["hard accuracy"].how.count("seed ")),
            ]
            for case, by in sorted(by_case.items(), key=lambda item: naturally(item[0]))
        ]
        head = ["training", "circuit, %", "mixtures, %", "seconds", "seeds"]
        where = ", ".join(filter(None, (machine.adapter, machine.driver, machine.processor)))
        tables.append(f"{where}; {caption((r for r in own if r.machine == machine), machine)}\n\n{table(head, rows)}")
    return "\n".join(tables)


def logic_peers(records: list[Record]) -> str:
    """Logic networks beside torchlogix and difflogic, the newest run of each machine."""
    own = [r for r in records if r.benchmark == "logic_peers"]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    tables = []
    for machine in sorted({r.machine for r in own}, key=lambda m: (not is_gpu(m), m)):
        here = {r.quantity: r for r in own if r.machine == machine}
        time, accuracy = here["time"], here["hard accuracy"]
        names = ["shadergrad", *time.peers]
        values = [{"shadergrad": r.value, **r.peers} for r in (time, accuracy)]
        rows = [[name, figure(values[0][name], time.unit), f"{100 * values[1][name]:.2f}"] for name in names]
        words = caption(here.values())
        tables.append(
            f"{textwrap.fill(f'{time.case}; {time.how}. {words}', WIDTH)}\n\n{table(['library', 'step', 'gates, %'], rows)}"
        )
    return "\n".join(tables)


def coevolution(records: list[Record]) -> str:
    """Precision of predicted contacts over depth, a table a test."""
    cases = r"(\w+) families of (\d+) pairs"
    own = [r for r in records if r.benchmark == "coevolution" and re.fullmatch(cases, r.case)]
    machine = best_machine(own)
    tables = []
    for test, words in (("independent", "Independent families"), ("tree", "Families that evolved along a tree")):
        here: dict[int, dict[str, Record]] = {}
        for r in own:
            found = re.fullmatch(cases, r.case)
            if r.machine == machine and found and found[1] == test:
                here.setdefault(int(found[2]), {})[r.quantity] = r
        if not here:
            continue
        depths = sorted(here)
        by_depth = [[here[d].get(quantity) for d in depths] for quantity in ("precision at L", "average precision")]
        peers = dict.fromkeys(name for row in by_depth for r in row if r for name in r.peers)

        def cell(pair: tuple[Record | None, ...], name: str) -> str:
            values = [r.peers.get(name) if name else r.value for r in pair if r]
            return ", ".join(f"{v:.2f}" for v in values if v is not None)

        rows = [
            [name or "the model", *(cell(pair, name) for pair in zip(*by_depth, strict=True))] for name in (*peers, "")
        ]
        shown = caption((r for by in here.values() for r in by.values()), machine)
        head = [f"{words}: pairs", *(f"{d:,}" for d in depths)]
        tables.append(f"{title(machine)}; {shown}\n\n{table(head, rows)}")
    return "\n".join(tables)


def dca(records: list[Record]) -> str:
    """Seconds of the classical methods on one large family, by machine."""
    own = [r for r in records if r.benchmark == "dca" and r.quantity == "first call"]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    tables = []
    for machine in sorted({r.machine for r in own}, key=lambda m: (not is_gpu(m), m)):
        here = sorted((r for r in own if r.machine == machine), key=lambda r: naturally(r.case))
        rows = [[r.case, number(r.value), r.how.removesuffix(" TFLOP/s")] for r in here]
        head = ["first call", "seconds", "TFLOP/s"]
        tables.append(f"{described(machine)}; {caption(here, machine)}\n\n{table(head, rows)}")
    return "\n".join(tables)


def quantized(records: list[Record]) -> str:
    """A language model of quantised weights: a token, a step of LoRA and its memory, by machine."""
    own = [r for r in records if r.benchmark == "quantized" and r.case.startswith("GPT-2 small")]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    tables = []
    for machine in sorted({r.machine for r in own}, key=lambda m: (not is_gpu(m), m)):
        by_case: dict[str, dict[tuple[str, str], Record]] = {}
        for r in own:
            if r.machine == machine:
                case, _, what = r.case.rpartition(", ")
                by_case.setdefault(case, {})[what, r.quantity] = r
        columns = [("a token", "time"), ("a step of LoRA", "time"), ("a step of LoRA", "peak memory")]
        rows = [[case, *[figure(by[c].value, by[c].unit) for c in columns]] for case, by in by_case.items()]
        head = ["weights", "a token", "a step of LoRA", "its peak of memory"]
        tables.append(f"{caption(r for r in own if r.machine == machine)}\n\n{table(head, rows)}")
    return "\n".join(tables)


def page_cpu(records: list[Record]) -> str:
    """Steps on a page's CPU: WebAssembly, plain JavaScript, and Python's cpu device, by machine."""
    own = [r for r in records if r.benchmark == "page_cpu"]
    if not own:
        raise RecordError("a page has a table of which there is no record")
    tables = []
    for machine in sorted({r.machine for r in own}):
        here = [r for r in own if r.machine == machine]
        peers = [*here[0].peers]
        rows = [
            [TASKS.get(r.case, r.case), *(figure(v, r.unit) for v in (r.value, *(r.peers[p] for p in peers)))]
            for r in here
        ]
        tables.append(f"{caption(here)}\n\n{table(['step', 'WebAssembly', *peers], rows)}")
    return "\n".join(tables)


def best_machine(records: Iterable[Record]) -> Machine:
    """The machine with most records, among equals the one measured last. GPUs come before others."""
    by_machine: dict[Machine, list[Record]] = {}
    for r in records:
        by_machine.setdefault(r.machine, []).append(r)
    if not by_machine:
        raise RecordError("a page has a table of which there is no record")
    return max(by_machine, key=lambda m: (is_gpu(m), len(by_machine[m]), max(r.date for r in by_machine[m]), m))


def is_gpu(machine: Machine) -> bool:
    return not re.match(r"cpu|llvmpipe|SwiftShader", machine.adapter)


TABLES: dict[str, Callable[[list[Record]], str]] = {
    "speed": speed,
    "growth": growth,
    "circuits": circuits,
    "browser": browser,
    "browser_peers": browser_peers,
    "mnist_logic": mnist_logic,
    "logic_peers": logic_peers,
    "coevolution": coevolution,
    "dca": dca,
    "quantized": quantized,
    "page_cpu": page_cpu,
}


# -- pages


def results_page(records: list[Record]) -> str:
    """benchmarks/RESULTS.md."""
    intro = """# Results

`scripts/results.py` writes this page from the records in [benchmarks/results](results): of each case the newest figure, by machine.
Figures beside each other in a row were measured in one run. Of speeds the last column says how many times ours is the peer's: above 1 ours is
faster, and where it is slower the figure is bold. "Entered by hand": noted before records were kept, often a mean of several runs; of such GPUs the page shows
training steps only.
Experiments that led here, successful or not, are in [docs/experiments](../docs/experiments/README.md).

    python benchmarks/all.py --results benchmarks/results    # measures this machine
    python scripts/results.py                                # writes the page anew
"""
    machines = sorted({r.machine for r in records}, key=lambda m: order_of(m, records))
    of_gpus = [r for r in records if is_gpu(r.machine)]
    parts = []
    for machine in machines:
        own = [r for r in records if r.machine == machine and r.benchmark in ("step", *SHOWN)]
        training = [r for r in own if r.benchmark == "step"]
        is_brief = is_gpu(machine) and all(BY_HAND in r.how for r in own) and not all(BY_HAND in r.how for r in of_gpus)
        tables = [steps(training)] if is_brief else [steps(training), others(own)]
        tables = [text for text in tables if text.count("\n") > 2]
        if tables and is_brief:
            tables.append(f"{len(own) - len(training)} other figures of this machine are in the records.\n")
        if tables:
            parts.append(f"## {described(machine)}\n\n{caption(own, machine)}\n\n" + "\n".join(tables))
    return "\n".join([intro, *parts])


def not_replaced(records: list[Record]) -> list[Record]:
    """Without what was entered by hand and has been measured since on a machine of that name, such as NVIDIA H100 80GB HBM3."""
    measured = [r for r in records if BY_HAND not in r.how]

    def is_replaced(r: Record) -> bool:
        return BY_HAND in r.how and any(
            m.key[:3] == r.key[:3]
            and m.date >= r.date
            and f"{kind_of(m.machine)} ".startswith(f"{kind_of(r.machine)} ")
            for m in measured
        )

    return [r for r in records if not is_replaced(r)]


def kind_of(machine: Machine) -> str:
    """The GPU's name without what stands behind it in brackets; the processor's for other adapters."""
    return (
        machine.adapter.partition(" (")[0]
        if is_gpu(machine)
        else f"{machine.adapter.partition(' (')[0]}, {machine.processor.partition(',')[0]}"
    )


def order_of(machine: Machine, records: list[Record]) -> tuple[bool, int, str]:
    own = [r for r in records if r.machine == machine]
    return not is_gpu(machine), -len(own), f"{machine}"


def pages(records: list[Record]) -> dict[Path, str]:
    """The text of each page. Raises RecordError if a page asks for an unknown table, or a marker has no end."""
    shown = not_replaced([r for r in records if not r.case.endswith(", small")])
    found = {PAGE: results_page(shown)}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        if "<!-- results " in text:
            found[path] = filled(text, shown, path)
    return found


def filled(text: str, records: list[Record], path: Path) -> str:
    begun = len(re.findall("<!-- results ", text))
    if begun != 2 * len(MARKED.findall(text)):
        raise RecordError(f"{path}: a marker `<!-- results NAME: begin -->` has no end, or the other way round")
    for name in {found[2] for found in MARKED.finditer(text)} - TABLES.keys():
        raise RecordError(f"{path}: there is no table {name!r}; there are {', '.join(TABLES)}")
    return MARKED.sub(lambda found: f"{found[1]}{TABLES[found[2]](records)}{found[4]}", text)


def main(
    check: Annotated[
        bool, typer.Option("--check", help="write nothing; say which pages are not what the records say")
    ] = False,
    folder: Annotated[Path, typer.Option(help="of records")] = FOLDER,
) -> None:
    """Write the pages of results."""
    try:
        wanted = pages(read(folder))
    except RecordError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if not check:
            path.write_text(wanted[path], encoding="utf-8")
        typer.echo(
            f"{path.relative_to(ROOT)} {'is not what the records say: python scripts/results.py' if check else 'written'}"
        )
    raise typer.Exit(int(check and bool(stale)))


if __name__ == "__main__":
    typer.run(main)
