"""SummaryWriter: what it writes is what TensorBoard reads, and a training does not end for what it cannot write."""

from __future__ import annotations

import io
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shadergrad as sg
from event_files import crc32c, events_in, message
from shadergrad.utils import tensorboard
from shadergrad.utils.tensorboard import SummaryWarning, SummaryWriter
from shadergrad.utils.tensorboard.event_file import masked_checksum


def test_checksums_are_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    crc = crc32c(b"shadergrad")
    assert masked_checksum(b"shadergrad") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_have_their_steps_times_and_folders(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        for step, loss in enumerate([1.0, sg.tensor(0.5), np.float64(0.25), sg.ones(1, 1), np.array(2)]):
            writer.add_scalar("loss", loss, step)
        writer.add_scalar("late", True, -1, walltime=5.0)
        writer.add_scalar("none", 2**40)
        writer.add_scalars("run/both", {"sin": 0.5, "cos": sg.tensor(1)}, 7)
        assert writer.get_logdir() == writer.log_dir == str(tmp_path / "a")
    events = events_in(tmp_path / "a")
    assert [(e["values"][0]["scalar"], e["step"]) for e in events[:5]] == [(1, 0), (0.5, 1), (0.25, 2), (1, 3), (2, 4)]
    assert (events[5]["time"], events[5]["step"]) == (5.0, (1 << 64) - 1)
    assert (events[6]["step"], events[6]["values"][0]["scalar"]) == (0, 2**40)
    for name, wanted in (("sin", 0.5), ("cos", 1)):
        (event,) = events_in(tmp_path / "a" / f"run_both_{name}")
        assert (event["step"], event["values"]) == (7, [{"tag": "run/both", "scalar": wanted}])
    with pytest.raises(sg.ShapeError, match="'two' has 2 values"):
        SummaryWriter(tmp_path).add_scalar("two", [1, 2])


@pytest.mark.parametrize(("bins", "most"), [("tensorflow", None), ("auto", None), (20, 6), ([-3, 0, 1, 5], None)])
def test_a_histogram_counts_each_value_once(tmp_path: Path, bins: object, most: int | None) -> None:
    values = np.random.default_rng(0).normal(size=1000)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", np.append(np.clip(values, -2.9, 4), [np.nan, np.inf]), 3, bins, max_bins=most)
    ((found,),) = ([e["values"][0]] for e in events_in(tmp_path))
    kept = np.clip(values, -2.9, 4)
    np.testing.assert_allclose(
        found["histogram"], [kept.min(), kept.max(), 1000, kept.sum(), np.square(kept).sum()], rtol=1e-12
    )
    limits = found["limits"]
    assert sum(found["counts"]) == 1000
    assert limits == sorted(limits)
    assert found["counts"][0] == 0
    limits[-1] += 1e-9  # the last bucket has both ends
    for low, high, count in zip(limits[:-1], limits[1:], found["counts"][1:], strict=True):
        assert count == ((kept >= low) & (kept < high)).sum()


def test_pictures_are_png_of_the_right_pixels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one, several = rng.random((3, 5, 7)), rng.random((5, 4, 4))
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("chw", sg.tensor(one), 1)
        writer.add_image("hw", (one[0] * 255).astype(np.uint8), dataformats="HW")
        writer.add_images("n", several[:, None], 1)
        writer.add_image_with_boxes("box", np.zeros((3, 20, 20)), [[2, 3, 10, 12]], labels=["x"])
    found = {v["tag"]: v["image"] for e in events_in(tmp_path) for v in e["values"]}
    pixels = {tag: np.asarray(Image.open(io.BytesIO(image[3]))) for tag, image in found.items()}
    assert [found[tag][:3] for tag in ("chw", "hw", "n", "box")] == [(5, 7, 3), (5, 7, 1), (8, 12, 1), (20, 20, 3)]
    np.testing.assert_array_equal(pixels["chw"], (one.transpose(1, 2, 0) * 255).astype(np.uint8))
    np.testing.assert_array_equal(pixels["hw"], (one[0] * 255).astype(np.uint8))
    np.testing.assert_array_equal(pixels["n"][4:, 4:8], (several[4] * 255).astype(np.uint8))
    assert pixels["box"][3, 2].tolist() == [255, 0, 0]
    with pytest.raises(sg.ShapeError, match="dataformats is 'CHW'"):
        SummaryWriter(tmp_path).add_image("x", one[0])


def test_figures_videos_sounds_texts_and_curves(tmp_path: Path) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, _ = plt.subplots(figsize=(2, 1), dpi=50)
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("figure", figure, 1)
        writer.add_video("video", np.random.default_rng(0).random((1, 4, 3, 8, 8)), fps=8)
        writer.add_audio("sound", np.array([0, 0.5, -2]), sample_rate=8000)
        writer.add_text("text", "**bold** ä", 2)
        writer.add_pr_curve("curve", [0, 1, 1, 0], sg.tensor([0.1, 0.9, 0.4, 0.6]), num_thresholds=3)
    assert not plt.fignum_exists(figure.number)
    found = {v["tag"]: v for e in events_in(tmp_path) for v in e["values"]}
    assert found["figure"]["image"][:3] == (50, 100, 3)
    assert Image.open(io.BytesIO(found["video"]["image"][3])).n_frames == 4  # type: ignore[attr-defined]
    with wave.open(io.BytesIO(found["sound"]["audio"][4][0])) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 3)
        assert np.frombuffer(sound.readframes(3), "<i2").tolist() == [0, 16383, -32767]
    assert found["text/text_summary"]["tensor"][8] == ["**bold** ä".encode()]
    assert found["text/text_summary"]["plugin"][0] == "text"
    curve = np.frombuffer(found["curve"]["tensor"][4][0], "<f4").reshape(6, 3)
    assert curve[:4].tolist() == [[2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2]]


def test_hyperparameters_have_kinds_and_measures(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "name": "x", "flag": True, "list": [1]}, {"accuracy": 0.9}, run_name="one")
    values = [v for e in events_in(tmp_path / "one") for v in e["values"]]
    assert [v["tag"].rpartition("/")[2] for v in values] == [
        "experiment",
        "session_start_info",
        "session_end_info",
        "accuracy",
    ]
    experiment = message(message(values[0]["plugin"][1])[2][0])
    assert [(message(i)[1][0], message(i)[4][0]) for i in experiment[4]] == [
        (b"lr", 3),
        (b"name", 1),
        (b"flag", 2),
        (b"list", 1),
    ]
    start = message(message(values[1]["plugin"][1])[3][0])
    assert [dict(message(message(e)[2][0])) for e in start[1]] == [{2: [0.1]}, {3: [b"x"]}, {4: [1]}, {3: [b"[1]"]}]


def test_what_cannot_be_written_warns_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "_warned", set())
    writer = SummaryWriter(tmp_path)
    for name in ("add_graph", "add_embedding", "add_mesh", "add_onnx_graph", "add_tensor", "add_custom_scalars"):
        with pytest.warns(SummaryWarning, match=rf"{name} writes nothing here\. Hint"):
            getattr(writer, name)(sg.ones(2))
        getattr(writer, name)(sg.ones(2))  # once in a process
    (tmp_path / "file").write_text("")
    with pytest.warns(SummaryWarning, match="nothing more is written.*Hint"):
        lost = SummaryWriter(tmp_path / "file" / "below")
    lost.add_scalar("x", 1)
    lost.close()


def test_a_program_that_forgets_to_close_loses_nothing(tmp_path: Path) -> None:
    program = "import shadergrad as sg; w = sg.utils.tensorboard.SummaryWriter(); w.add_scalar('x', 1.5, 3)"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=100)
    (folder,) = (tmp_path / "runs").iterdir()
    assert [(v["scalar"], e["step"]) for e in events_in(folder) for v in e["values"]] == [(1.5, 3)]


def test_a_run_that_goes_on_purges_what_was_later(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=5, filename_suffix=".again") as writer:
        writer.add_scalar("x", 1, 5)
    assert [(e["step"], e["session"]) for e in events_in(tmp_path)] == [(5, [bytes([8, 1])]), (5, None)]
    assert len(list(tmp_path.glob("*.again"))) == 1
    writer.add_scalar("x", 2, 6)  # a closed one opens again
    writer.close()
    assert [e["step"] for e in events_in(tmp_path)][-1] == 6
