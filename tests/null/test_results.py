"""Results lie as data (`benchmarks/record.py`): the newest of each stays, and what is no record is refused in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import mnist_logic
import record
import results
from record import Machine, Record, RecordError

GPU = Machine("a processor, 2 cores", "a GPU (Vulkan)", "driver 1")
FIRST = Record("step", "mlp", "time", 0.2, "ms", GPU, "2026-11-20", {"PyTorch eager": 1.0}, {"numpy": "2"}, "abc")


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    others = [
        replace(FIRST, case="cnn"),
        replace(FIRST, benchmark="memory"),
        replace(FIRST, machine=replace(GPU, driver="2")),
    ]
    record.append(tmp_path / "new", [FIRST, *others])
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"step.json", "memory.json"}
    assert {r.key: r for r in record.read(tmp_path / "new")} == {r.key: r for r in (FIRST, *others)}
    assert len((tmp_path / "new" / "step.json").read_text().splitlines()) == 3 + 2  # a line a record


def test_the_newest_of_each_stays_in_whatever_order_they_come(tmp_path: Path) -> None:
    newer = replace(FIRST, value=0.1, date="2026-11-21")
    for order in ([FIRST, newer], [newer, FIRST]):
        folder = tmp_path / order[0].date
        for one in order:
            record.append(folder, [one])
        assert record.read(folder) == [newer]
    again = replace(newer, value=0.11)
    record.append(folder, [again])
    assert record.read(folder) == [again]


def test_records_of_another_machine_are_merged(tmp_path: Path) -> None:
    brought = replace(FIRST, machine=replace(GPU, adapter="another GPU"))
    record.append(tmp_path / "here", [FIRST])
    record.append(tmp_path / "there", [brought])
    record.append(tmp_path / "here", record.read(tmp_path / "there"))
    assert sorted(r.machine.adapter for r in record.read(tmp_path / "here")) == ["a GPU (Vulkan)", "another GPU"]


def test_better_is_less_of_a_time_and_more_of_a_rate() -> None:
    assert FIRST.times_as_good("PyTorch eager") == 5
    assert replace(FIRST, unit="GB/s").times_as_good("PyTorch eager") == 0.2


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in row().items() if k != name}


def row(**changes: Any) -> dict[str, Any]:
    return {**json.loads(record.text_of([FIRST]))[0], **changes}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{]", "is not JSON: .* in line 1, column 3"),
        ("{}", "holds no list of records"),
        ("[3]", "record 1: a record is an object with fields"),
        (json.dumps([row(), without("unit")]), "record 2: the field `unit` is missing"),
        (json.dumps([row(machine={"adapter": "x"})]), r"record 1: the field `machine\.processor` is missing"),
        (json.dumps([row(unit="msec")]), "the unit 'msec' is not known; there are s, ms"),
        (json.dumps([row(value="0.1")]), "the field `value` is '0.1', of the wrong kind"),
        (json.dumps([row(value=-1)]), "the figure of `value` is -1"),
        (json.dumps([row(value=float("nan"))]), "the figure of `value` is nan"),
        (json.dumps([row(peers={"JAX": None})]), "the figure of `JAX` is None"),
        (json.dumps([row(date="yesterday")]), "the date 'yesterday' is not written as 2026-01-31"),
        (json.dumps([row(speed=1)]), "the field `speed` is not known"),
        (json.dumps([row(case="")]), "the field `case` is empty"),
        (json.dumps([row(benchmark="memory")]), "belongs in memory.json"),
    ],
)
def test_what_is_no_record_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "step.json").write_text(text)
    with pytest.raises(RecordError, match=words):
        record.read(tmp_path)


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text("[{]")
    with pytest.raises(RecordError, match="is not JSON"):
        record.append(tmp_path, [FIRST])
    assert (tmp_path / "step.json").read_text() == "[{]"
    with pytest.raises(RecordError, match="no folder of results"):
        record.read(tmp_path / "elsewhere")


def test_the_committed_results_can_be_read() -> None:
    assert record.read(record.FOLDER)


def test_a_measurement_becomes_a_record_of_this_machine(tmp_path: Path) -> None:
    record.keep(None, "step", "cpu", [])
    record.keep(tmp_path, "step", "cpu", [record.Measured("mlp, small", "time", 1.5, "ms", {"PyTorch eager": 3.0})])
    (found,) = record.read(tmp_path)
    assert (found.case, found.value, found.machine.adapter) == ("mlp, small", 1.5, "cpu")
    assert "core" in found.machine.processor
    assert {"python", "numpy"} <= found.versions.keys()


# -- pages


def test_each_page_shows_what_the_records_say() -> None:
    """Else: python scripts/results.py."""
    wanted = results.pages(record.read(record.FOLDER))
    assert [path.name for path, text in wanted.items() if path.read_text(encoding="utf-8") != text] == []
    assert len(wanted) > 3
    assert len(wanted[results.PAGE].splitlines()) < 260


def test_a_page_is_compared_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command()(results.main)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "RESULTS.md")
    (tmp_path / "README.md").write_text(
        "before\n<!-- results speed: begin -->\nold\n<!-- results speed: end -->\nbehind\n"
    )
    record.append(tmp_path / "data", [FIRST, replace(FIRST, case="cnn, small")])
    arguments = ["--folder", str(tmp_path / "data")]
    checked = CliRunner().invoke(app, [*arguments, "--check"])
    assert (checked.exit_code, "README.md is not what the records say" in checked.output) == (1, True)
    assert not (tmp_path / "RESULTS.md").exists()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert CliRunner().invoke(app, [*arguments, "--check"]).exit_code == 0
    shown = (tmp_path / "README.md").read_text()
    assert shown.startswith("before\n<!-- results speed: begin -->\nMilliseconds")
    assert shown.endswith("<!-- results speed: end -->\nbehind\n")
    for words in (
        "a GPU (Vulkan), driver driver 1, a processor, 2 cores; 2026-11-20; commit abc",
        "| 0.2 | 1.00 | 5.00 |",
    ):
        assert words in shown
    assert "CNN" not in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- results speed: begin -->\n", "has no end"),
        ("<!-- results none: begin -->\n<!-- results none: end -->\n", "there is no table 'none'; there are speed"),
    ],
)
def test_a_marker_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        results.filled(text, [FIRST], Path("page.md"))


def test_a_table_without_a_record_is_refused() -> None:
    for table in results.TABLES.values():
        with pytest.raises(RecordError, match="there is no record"):
            table([replace(FIRST, benchmark="memory")])


def test_figures_have_three_digits_and_their_unit() -> None:
    found = [
        results.figure(*of)
        for of in ((2.0025, "ms"), (0.1036, "ms"), (21581, "us"), (6656, "bytes"), (3.14e14, "gates/s"))
    ]
    assert found == ["2.00 ms", "0.104 ms", "21,581 \N{MICRO SIGN}s", "6.5 KiB", "3.14e14 gates/s"]


def test_a_benchmark_of_many_cases_shows_its_slowest() -> None:
    """The page stays short, and nothing that is slower than its peer hides in what it leaves out."""
    many = [
        replace(
            FIRST,
            benchmark="products",
            case=f"dot {n}",
            quantity="device time",
            value=float(n),
            peers={results.EAGER: 10.0},
        )
        for n in range(1, 41)
    ]
    shown = results.others(many)
    assert "multiplication 40 |" in shown
    assert "multiplication 20 |" not in shown
    left = 40 - results.MOST_ROWS
    assert f"{left} others of results/products.json | | | **{10 / left:.2f}** to 10.0 |" in shown


def test_what_was_entered_by_hand_goes_once_it_is_measured() -> None:
    gpu = replace(GPU, adapter="NVIDIA H100 (Vulkan)", processor="not noted")
    by_hand = replace(FIRST, machine=gpu, how=record.BY_HAND)
    another = replace(by_hand, machine=replace(gpu, adapter="NVIDIA H200 (Vulkan)"))
    measured = replace(FIRST, machine=replace(gpu, adapter="NVIDIA H100 80GB HBM3 (Vulkan)"), date="2026-11-27")
    assert results.not_replaced([by_hand, another, measured]) == [another, measured]
    shorter = replace(by_hand, machine=replace(gpu, adapter="NVIDIA H10 (Vulkan)"))
    assert results.not_replaced([shorter, measured]) == [shorter, measured]
    assert results.not_replaced([by_hand, replace(measured, case="cnn")]) == [by_hand, replace(measured, case="cnn")]


def test_trainings_on_mnist_have_a_row_a_case_and_the_gpu_first() -> None:
    def told(case: str, machine: Machine, hard: float, seeds: int) -> list[Record]:
        how = ", ".join(f"seed {k}: {hard}" for k in range(seeds))
        one = replace(FIRST, benchmark="mnist_logic", case=case, machine=machine, peers={}, how=how)
        figures = (("hard accuracy", hard, "share"), ("soft accuracy", hard + 0.001, "share"), ("time", 80.0, "s"))
        return [replace(one, quantity=name, value=value, unit=unit) for name, value, unit in figures]

    cpu = replace(GPU, adapter="cpu", driver="")
    records = [*told("mnist-logic, width 20, 8 epochs", cpu, 0.96, 3), *told("mnist-logic, 100 epochs", GPU, 0.976, 1)]
    text = results.TABLES["mnist_logic"](records)
    assert text.index("| mnist-logic, 100 epochs | 97.60 | 97.70 | 80 | 1 |") < text.index(
        "width 20, 8 epochs | 96.00 |"
    )
    assert text.count("2026-11-20") == 2
    assert "| 3 |" in text
    with pytest.raises(RecordError, match="no record"):
        results.TABLES["mnist_logic"]([])


def test_contacts_over_depth_have_a_table_a_test_and_the_depths_in_order() -> None:
    def told(test: str, depth: int, quantity: str, value: float, peer: float) -> Record:
        case = f"{test} families of {depth} pairs"
        return replace(
            FIRST,
            benchmark="coevolution",
            case=case,
            quantity=quantity,
            value=value,
            unit="share",
            peers={"mfDCA": peer},
        )

    records = [
        told("tree", 8, "precision at L", 0.22, 0.07),
        told("independent", 1000, "precision at L", 0.99, 0.98),
        told("independent", 8, "precision at L", 0.23, 0.06),
        told("independent", 8, "average precision", 0.18, 0.05),
        replace(
            told("independent", 8, "precision at L", 0.5, 0.5), case="independent families of 8 pairs without phase 1"
        ),
    ]
    first, second = results.TABLES["coevolution"](records).split("| Families that evolved along a tree: pairs |")
    assert "| Independent families: pairs | 8 | 1,000 |" in first
    assert "| mfDCA | 0.06, 0.05 | 0.98 |\n| the model | 0.23, 0.18 | 0.99 |\n" in first
    assert second.endswith("| mfDCA | 0.07 |\n| the model | 0.22 |\n")


def test_direct_couplings_have_seconds_by_machine() -> None:
    one = replace(FIRST, benchmark="dca", case="weights, 9 columns", quantity="first call", unit="s", peers={})
    records = [replace(one, value=0.5, how="2.5 TFLOP/s"), replace(one, value=7.0, machine=replace(GPU, adapter="cpu"))]
    text = results.TABLES["dca"](records)
    assert text.index("| weights, 9 columns | 0.5 | 2.5 |") < text.index("| weights, 9 columns | 7 |")


def test_the_epochs_that_fit_follow_from_two() -> None:
    probe = mnist_logic.Outcome(0.9, 0.9, seconds=10.0, each=2.0)  # six seconds to begin
    assert [mnist_logic.epochs_within(s, probe) for s in (80.0, 9.0, 1.0)] == [37, 1, 1]
    outcomes = [probe, mnist_logic.Outcome(0.92, 0.93, 12.0, 2.0)]
    hard, soft, seconds = mnist_logic.measured("mnist-logic", outcomes, range(2))
    assert (hard.value, soft.value, seconds.value) == (0.91, 0.915, 11.0)
    assert hard.how == "seed 0: 0.9000, seed 1: 0.9200"
