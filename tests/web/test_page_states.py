"""What a page says and shows agree, in each state: untrained, finished, diverged, paused, failed, and opened where it cannot run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.cli import run
from shadergrad.system.safe_tensors import save

from .steps import automaton, digits
from .test_pages import FIGURE, MODULE, automaton_page, figure, opened, wait_for_steps, wait_until_idle

NOT_FOUND = "Failed to load resource"
DRAWN = """window.texts = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) { texts.push(text); return fillText.call(this, text, ...place); };"""
ADDED = """window.added = [];
import(new URL('ui.js', location.href).href).then(({Chart}) => {
  const {add} = Chart.prototype;
  Chart.prototype.add = function (...all) { added.push(all); return add.apply(this, all); };
});"""
# the page waits for its first look for 300 ms, which a busy machine may exceed
PATIENT = """const later = window.setTimeout;
window.setTimeout = (call, wait, ...rest) => later(call, wait === 300 ? 60_000 : wait, ...rest);"""
NOTES = """window.notes = [];
new MutationObserver(() => window.notes.push(document.querySelector('.note span')?.textContent))
  .observe(document, {childList: true, subtree: true, characterData: true});"""
VERDICTS = """window.verdicts = [];
new MutationObserver(() => window.verdicts.push(document.querySelector('.answer')?.textContent))
  .observe(document, {childList: true, subtree: true, characterData: true});"""
PLOTS = """onmessage = ({data}) => {
  if (data.load) postMessage({ready: {jspi: true, version: ''}});
  if (data.run === 'one curve') postMessage({plot: {loss: 1}});
  else for (let k = 0; data.run && k < 3; k++) postMessage({plot: {loss: 12345.6 / (k + 1), rate: 0.5, gone: null}});
  if (data.run) postMessage({done: data.run === 'fails' ? 'Error' : ''});
};"""


def line(lr: float = 0.1) -> Any:
    """A step that fits a line."""
    w = sg.zeros(3, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=lr)

    @sg.compile
    def step(x: sg.Tensor) -> dict[str, sg.Tensor]:
        loss = ((x * w).sum(1) - x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    return step


def line_site(folder: Path, lr: float = 0.1, **options: Any) -> Path:
    return sg.web.export(line(lr), folder, sg.ones(4, 3), **options)


def said(page: Any, pattern: str) -> str:
    """What the page's line of messages says, once it matches."""
    page.wait_for_function(
        "(pattern) => new RegExp(pattern).test(document.querySelector('#status').textContent)", arg=pattern
    )
    return page.inner_text("#status")


def test_a_curve_of_one_point_is_seen_and_curves_and_ends_of_the_axis_are_told_apart(
    visit: Any, tmp_path: Path
) -> None:
    line_site(tmp_path)
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,"><link rel="stylesheet" href="style.css">')
    page = visit(tmp_path, path="blank.html", script=DRAWN)
    inked = page.evaluate(
        f"""async () => {{
          {MODULE % ("Chart", "ui.js")}
          const chart = new Chart("accuracy");
          document.body.append(chart.element);
          chart.add("test accuracy", 0, 50, "%");
          chart.paint();
          const {{data}} = chart.canvas.getContext("2d").getImageData(0, 0, chart.canvas.width, chart.canvas.height);
          let green = 0;
          for (let k = 0; k < data.length; k += 4) green += data[k + 3] > 200 && data[k + 1] > data[k] + 60 && data[k + 1] > data[k + 2] + 40;
          const many = new Chart("many");
          for (const name of ["a", "b", "c"]) many.add(name, 1, 0.5);
          return [green, new Set([...many.curves.values()].map((curve) => curve.colour)).size];
        }}"""
    )
    assert inked[0] > 20
    assert inked[1] == 3
    assert {"step 0", "step 10"} <= set(page.evaluate("texts"))


def test_the_mean_of_a_crowd_of_points_stands_out(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path)
    (tmp_path / "blank.html").write_text('<link rel="icon" href="data:,"><link rel="stylesheet" href="style.css">')
    page = visit(tmp_path, path="blank.html", viewport={"width": 390, "height": 844}, color_scheme="light")
    rows = page.evaluate(
        f"""async () => {{
          {MODULE % ("Chart", "ui.js")}
          const chart = new Chart("noise");
          document.body.append(chart.element);
          for (let k = 0; k < 3000; k++) chart.add("noise", k, k % 2);
          chart.paint();
          const {{canvas}} = chart;
          const column = chart.canvas.getContext("2d").getImageData(canvas.width / 2, 0, 1, canvas.height).data;
          return Array.from({{length: canvas.height}}, (_, y) => y).filter((y) => column[4 * y + 3] === 255 && column[4 * y + 2] > 150 && column[4 * y] < 60);
        }}"""
    )
    assert rows
    assert max(rows) - min(rows) < 4  # in the middle, where neither the zeros nor the ones lie
    assert 80 < np.mean(rows) < 110


def test_the_accuracy_begins_with_the_first_step(visit: Any, tmp_path: Path) -> None:
    assert run(["export", "digits", str(tmp_path)]) == 0
    page = opened(visit, tmp_path, path="index.html#on=CPU", script=ADDED + PATIENT)
    page.wait_for_function("() => added.filter(([name]) => name === 'test accuracy').length > 2")
    (_, step, percent, _), *_, last = page.evaluate("added.filter(([name]) => name === 'test accuracy')")
    assert step == 0
    assert percent < 40  # of weights that nobody has trained
    assert last[2] > 80


def test_a_finished_page_tells_of_the_last_step_and_not_of_one_before(visit: Any, tmp_path: Path) -> None:
    """The whole training takes less time than there is between two looks at the accuracy."""
    assert run(["export", "digits", str(tmp_path)]) == 0
    described = json.loads((tmp_path / "page.json").read_text())
    described["settings"]["steps"] = 150
    (tmp_path / "page.json").write_text(json.dumps(described))
    page = opened(visit, tmp_path, path="index.html#on=CPU")
    found = re.search(r"^Finished after 150 steps: ([\d.]+) % of the test images are right", said(page, "^Finished"))
    assert found is not None
    assert float(found[1]) > 80
    assert figure(page, "test accuracy") == f"{found[1]} %"


def test_a_diverged_training_is_told_with_its_remedy(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path, lr=1e6, settings={"steps": 200})
    page = opened(visit, tmp_path, path="index.html#on=CPU")
    wait_for_steps(page, 200)
    wait_until_idle(page)
    text = said(page, "diverged")
    assert re.search(r"The loss is (Infinity|NaN) at step \d+: .* Reset, and set a smaller learning rate.", text)
    assert page.locator("#status.error").count() == 1
    page.click("text=Reset")
    said(page, "^$")


def test_results_without_names_are_told_apart_and_the_first_is_the_loss(visit: Any, tmp_path: Path) -> None:
    """Also where another result is so large that the loss beside it would be a line at the bottom."""
    w = sg.zeros(3, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.1)

    @sg.compile
    def step(x: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        optimizer.zero_grad()
        loss = (x * w - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss, (x > 9).float().mean() + 90

    sg.web.export(step, tmp_path, sg.ones(4, 3), settings={"steps": 60}, programs={"more": (sg.compile(w.sum),)})
    page = opened(visit, tmp_path, path="index.html#on=CPU", script=DRAWN)
    assert re.search(r"^Finished after 60 steps: result 0 [\d.e-]+\. Start goes on\.$", said(page, "^Finished"))
    assert figure(page, "result 0") != "–"
    page.wait_for_function("() => document.querySelector('.legend').textContent === 'result 0result 1 (right scale)'")
    assert {"95"} & {*page.evaluate("texts")}  # the scale of the second
    boxes = [
        page.locator("section", has=page.locator("h2", has_text=name)).bounding_box()
        for name in ("Inputs", "Parameters")
    ]
    assert boxes[0]["y"] == boxes[1]["y"]  # no holes between them


def test_data_from_a_file_take_the_place_of_those_before(visit: Any, tmp_path: Path) -> None:
    step = sg.compile(lambda x, y: {"least": (x * y).min()})
    ones = np.ones((64, 2), np.float32)
    sg.web.export(step, tmp_path, sg.ones(4, 2), sg.ones(4, 2), data={"x": ones, "y": ones}, settings={"steps": 40})
    for name, rows in (("fewer", 8), ("one", 9)):
        given = {"x": ones[:rows], "y": ones[:rows]} if name == "fewer" else {"x": ones[:rows]}
        (tmp_path / f"{name}.safetensors").write_bytes(save(given))
    page = opened(visit, tmp_path, path="index.html#run=0&on=CPU")
    page.click("text=One step")  # draws an order of 64 rows
    wait_for_steps(page, 1)
    choose = page.locator("label:has-text('Data from') input")
    choose.set_input_files(tmp_path / "one.safetensors")
    assert said(page, "samples") == "The numbers of samples differ: x has 9, y has 64. Give them in one file."
    choose.set_input_files(tmp_path / "fewer.safetensors")
    said(page, "^Trains with fewer.safetensors")
    for steps in range(2, 12):
        page.click("text=One step")
        wait_for_steps(page, steps)
        assert figure(page, "least") == "1"


DATA = {
    "X": (np.zeros((4, 2), np.float32), r"no argument 'X' for data; there are x, y"),
    "x": (np.zeros((4, 2), np.float64), "data for x are float64 .* batches of float32"),
    "y": (np.zeros((5, 2), np.float32), "other numbers of samples: x has 4, y has 5"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_that_do_not_fit_the_step_are_refused(tmp_path: Path, name: str) -> None:
    given, words = DATA[name]
    step = sg.compile(lambda x, y: (x * y).sum())
    with pytest.raises(sg.web.WebError, match=words):
        sg.web.export(
            step, tmp_path, sg.ones(2, 2), sg.ones(2, 2), data={"x": np.zeros((4, 2), np.float32), name: given}
        )


def test_a_page_that_was_out_of_sight_says_why_it_is_paused(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path, settings={"steps": 1_000_000_000})
    page = opened(visit, tmp_path, path="index.html#on=CPU")
    wait_for_steps(page, 2)
    page.evaluate(
        """() => {
          Object.defineProperty(document, 'hidden', {value: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    wait_until_idle(page)
    said(page, "^Paused, because the page was out of sight. Start goes on.$")
    # the message lies on the page: its edge is seen
    assert page.evaluate("getComputedStyle(document.querySelector('#status')).boxShadow") != "none"


def test_the_results_of_a_program_name_the_step_of_their_weights(visit: Any, tmp_path: Path) -> None:
    w = sg.ones(3)
    programs = {"predict": (sg.compile(lambda x: x * w), sg.ones(2, 3))}
    sg.web.export(sg.compile(lambda x: w.add_(x.sum(0)).sum()), tmp_path, sg.ones(4, 3), programs=programs)
    page = opened(visit, tmp_path, path="index.html#run=0&on=CPU")
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=with the weights after 0 steps.")
    page.click("text=One step")
    wait_for_steps(page, 1)
    assert page.locator("text=with the weights after 0 steps.").count() == 1  # and not those of this moment
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=with the weights after 1 step.")


def test_a_page_whose_kernels_are_compiled_says_what_it_waits_for(visit: Any, tmp_path: Path) -> None:
    step, _, _ = digits()
    sg.web.export(step, tmp_path, sg.zeros(32, 64), sg.zeros(32, dtype="int32"), settings={"steps": 1_000_000_000})
    page = opened(visit, tmp_path, script=NOTES)
    page.wait_for_function("() => notes.some((note) => note?.endsWith('while the GPU\\'s first steps are timed.'))")
    compiled = re.findall(r"compile: (\d+) of (\d+)", " ".join(note or "" for note in page.evaluate("notes")))
    assert all(int(done) < int(of) for done, of in compiled)


def test_a_missing_file_is_named(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path)
    (tmp_path / "state.safetensors").unlink()
    page = opened(visit, tmp_path, refused=NOT_FOUND)
    assert said(page, "cannot") == "state.safetensors cannot be loaded: status 404."


def test_a_page_without_its_worker_says_so(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path)
    (tmp_path / "batches.js").unlink()
    page = opened(visit, tmp_path, refused=NOT_FOUND)
    assert said(page, "worker").startswith("worker.js, or a file that it imports, cannot be loaded.")
    assert page.locator("#status.error").count() == 1


@pytest.mark.parametrize("kind", ["page", "playground"])
def test_a_page_that_was_opened_as_a_file_says_how_to_serve_it(chromium: Any, tmp_path: Path, kind: str) -> None:
    line_site(tmp_path) if kind == "page" else sg.web.playground(tmp_path)
    page = chromium.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    assert "shadergrad serve" in page.inner_text("#status")
    page.close()


def test_the_compare_page_takes_steps_without_data_and_begins_anew(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path, page="compare", settings={"steps": 20})
    page = visit(tmp_path, path="index.html#run=0")
    page.wait_for_selector("body[data-ready]")
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=at most over 20 steps")
    assert page.evaluate("[...document.querySelectorAll('dd')].every((dd) => dd.textContent !== '–')")
    page.evaluate(
        """() => new MutationObserver(() => {
          if ([...document.querySelectorAll('dd, .answer')].every((shown) => shown.textContent === '–')) window.blank = true;
        }).observe(document.querySelector('main'), {childList: true, subtree: true})"""
    )
    page.click("button:text-is('Run again')")
    page.wait_for_function("() => window.blank")  # numbers of the run before do not stand beside a new one
    page.wait_for_selector("text=at most over 20 steps")


def test_the_compare_page_tells_of_a_failure_and_may_be_run_again(visit: Any, tmp_path: Path) -> None:
    line_site(tmp_path, page="compare", settings={"steps": 20})
    (tmp_path / "step.cpu.js").unlink()
    page = visit(tmp_path, script=FIGURE, refused=NOT_FOUND)
    page.wait_for_selector("#status.error")
    assert page.is_enabled("button:text-is('Run again')")


def test_the_compare_page_judges_when_both_are_done(visit: Any, tmp_path: Path) -> None:
    """A browser compiles JavaScript while it runs: after a few steps the slower one is another."""
    line_site(tmp_path, page="compare", settings={"steps": 300})
    page = visit(tmp_path, script=VERDICTS)
    page.wait_for_selector("text=at most over 300 steps")
    verdicts = {text for text in page.evaluate("verdicts") if text}
    assert len(verdicts) == 2, verdicts  # none, and the last
    (last,) = verdicts - {"–"}
    assert re.search(r"losses differ by [\d.]+(e-\d+)? at most over 300 steps\.$", last)


def test_a_board_without_cells_is_no_black_square_and_a_circuit_names_its_step(visit: Any, tmp_path: Path) -> None:
    automaton_page("checkerboard", automaton(), tmp_path)
    page = opened(visit, tmp_path, path="index.html#run=0&on=CPU")
    page.wait_for_selector("text=Harden the automaton, then draw")
    assert page.is_hidden("canvas.pad")
    page.click("button:has-text('Harden')")
    page.wait_for_selector("canvas.pad")
    page.wait_for_selector("text=/Hardened after 0 steps of training: [\\d,]+ gates of/")
    page.click("text=One step")
    wait_for_steps(page, 1)
    assert page.locator("text=Hardened after 0 steps of training").count() == 1
    page.click("button:has-text('Harden')")
    page.wait_for_selector("text=Hardened after 1 step of training")


def test_the_playgrounds_chart_has_a_scale_and_tells_numbers_apart(visit: Any, tmp_path: Path) -> None:
    """Its Python is a stub, which plots as a program does."""
    sg.web.playground(tmp_path)
    (tmp_path / "python-worker.js").write_text(PLOTS)
    page = visit(tmp_path, script=DRAWN)
    page.wait_for_selector("body[data-ready]")
    assert page.is_hidden("#chart")
    page.click("#run")
    page.wait_for_selector("text=Finished in")
    legend = page.locator("#chart .legend span").all_inner_texts()
    assert legend == [
        "loss 4,115 after 3 points",
        "rate (right scale) 0.5 after 3 points",
        "gone not finite after 3 points",
    ]
    page.wait_for_function("() => ['0', 'point 0', 'point 10'].every((text) => texts.includes(text))")
    assert page.locator("#status.error").count() == 0
    page.fill("#program", "one curve")
    page.click("#run")
    page.wait_for_function("() => document.querySelector('#chart .legend').textContent === 'loss 1 after 1 point'")
    page.fill("#program", "fails")
    page.click("#run")
    page.wait_for_selector("#status.error:has-text('The program failed')")
    page.click("#run")  # the curves of the program before are gone
    page.wait_for_selector("text=loss 4,115 after 3 points")
    odd = "x = 'ä€𝄞 \u2028 #&%+\\'\n\tpass " + "".join(np.random.default_rng(0).choice([*"abcdefgh+/="], 200_000))
    page.fill("#program", odd)
    page.click("#share")
    page.wait_for_function("() => location.hash.length > 1e4")  # as it is long, it is packed
    page.fill("#program", "another")
    page.evaluate("() => { const link = location.hash; location.hash = ''; location.hash = link; }")  # in the same tab
    page.wait_for_function("(odd) => document.querySelector('#program').value === odd", arg=odd)


def test_a_playground_without_its_list_of_files_says_so(visit: Any, tmp_path: Path) -> None:
    sg.web.playground(tmp_path)
    (tmp_path / "python.json").unlink()
    said(visit(tmp_path, refused=NOT_FOUND), "^Python could not be loaded: python.json cannot be loaded: status 404")


def test_on_a_phone_the_playground_shows_what_a_program_does(visit: Any, tmp_path: Path) -> None:
    sg.web.playground(tmp_path)
    (tmp_path / "python-worker.js").write_text(PLOTS)
    page = visit(tmp_path, viewport={"width": 390, "height": 844})
    page.wait_for_selector("body[data-ready]")
    page.evaluate("scrollTo(0, 0)")
    page.click("#run")
    page.wait_for_selector("text=Finished in")
    box = page.locator("#chart").bounding_box()
    assert box["y"] + box["height"] <= 844
    status = page.locator("#status").bounding_box()
    assert status["y"] >= 0
    assert status["y"] + status["height"] < box["y"]  # it does not lie on the chart
