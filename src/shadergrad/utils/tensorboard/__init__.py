"""TensorBoard's files, by PyTorch's name of the place. `tensorboard --logdir runs` shows them."""

from __future__ import annotations

import os
import socket
import time
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from . import summaries
from .event_file import EventFile, SummaryWarning

_warned: set[str] = set()


class SummaryWriter:
    """Writes what a training reports into a folder, for TensorBoard. Needs no other package.

    log_dir: the folder; by default runs/ with the time and the machine's name, and `comment` at its end.
    purge_step: a run that goes on from there: readers drop what an earlier one wrote from that step on.
    max_queue, flush_secs: how many events, and how long, may wait in memory. filename_suffix: of the file.
    Tensors may be on any device; reading them waits for it. What there is no summary of, and a disk that refuses, is a
    SummaryWarning: a training does not end for it. Raises ShapeError for values that the summary cannot show.

    >>> with tempfile.TemporaryDirectory() as folder, sg.utils.tensorboard.SummaryWriter(folder) as writer:
    ...     writer.add_scalar("loss", sg.tensor(0.5), 1)
    ...     print(len(list(Path(folder).glob("events.out.tfevents.*"))))
    1
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            log_dir = Path("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self._options = (filename_suffix, max_queue, flush_secs, purge_step)
        self._files: dict[str, EventFile] = {}
        self._finish = weakref.finalize(self, _close_all, self._files)  # also at the end of the program
        self._file()

    def _file(self, folder: str | None = None) -> EventFile:
        folder = self.log_dir if folder is None else folder
        if folder not in self._files:
            self._files[folder] = EventFile(Path(folder), *self._options)
        return self._files[folder]

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number of a step. new_style and double_precision change nothing: it is written as a float32."""
        self._file().add([summaries.scalar(tag, scalar_value)], global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers in one diagram: each has a folder of its own below log_dir."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            self._file(folder).add([summaries.scalar(main_tag, value)], global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The distribution of values; those that are not finite are left out. bins: as numpy.histogram takes them."""
        self._file().add([summaries.histogram(tag, values, bins, max_bins)], global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that was counted elsewhere. bucket_limits: the upper end of each bucket."""
        value = summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._file().add([value], global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image: floats from 0 to 1, or integers from 0 to 255. dataformats: the order of its axes."""
        self._file().add([summaries.image(tag, img_tensor, dataformats)], global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several images, shown as one."""
        self._file().add([summaries.image(tag, img_tensor, dataformats)], global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:
        """An image with rectangles [n, 4]: left, top, right, bottom. rescale other than 1 is not there: it warns."""
        if rescale != 1:
            _refuse("add_image_with_boxes(rescale=)", "the image keeps its size")
        value = summaries.image(
            tag, img_tensor, dataformats, box_tensor, [labels] if isinstance(labels, str) else labels
        )
        self._file().add([value], global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A matplotlib figure, or a list of them, as an image. close: closes it."""
        self._file().add([summaries.figure(tag, figure, close)], global_step, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Frames [n, time, channels, height, width] as a moving GIF."""
        self._file().add([summaries.video(tag, vid_tensor, fps)], global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Samples from -1 to 1 as a sound of one channel."""
        self._file().add([summaries.audio(tag, snd_tensor, sample_rate)], global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text in Markdown."""
        self._file().add([summaries.text(tag, text_string)], global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall: labels of 0 and 1, predictions from 0 to 1."""
        self._file().add([summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)], global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters of a run and the measures that it reached, in the folder run_name below log_dir (by default the
        time). hparam_domain_discrete changes nothing."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        file = self._file(os.path.join(self.log_dir, run_name or str(time.time())))
        for value in summaries.hyperparameters(hparam_dict, metric_dict):
            file.add([value], None, None)
        for tag, value in metric_dict.items():
            file.add([summaries.scalar(tag, value)], global_step, None)
        file.flush()

    def add_graph(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns: a plan is no graph of TensorFlow. `sg.compile`d steps explain themselves."""
        _refuse("add_graph", "step.explain() shows what a compiled step runs")

    def add_onnx_graph(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns."""
        _refuse("add_onnx_graph", "nothing here reads ONNX")

    def add_embedding(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns."""
        _refuse("add_embedding", "save the vectors with numpy.savetxt, and load them into the projector by hand")

    def add_mesh(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns."""
        _refuse("add_mesh", "draw the mesh, and give add_figure the picture")

    def add_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns."""
        _refuse("add_tensor", "sg.save keeps tensors; add_histogram shows how their values lie")

    def add_custom_scalars(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns: scalars are shown by their tags."""
        _refuse("add_custom_scalars", "add_scalars shows several numbers in one diagram")

    add_custom_scalars_multilinechart = add_custom_scalars
    add_custom_scalars_marginchart = add_custom_scalars

    def flush(self) -> None:
        """Write what waits to the disk."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Write pending events, and close the files. Later events begin new files."""
        _close_all(self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_all(files: dict[str, EventFile]) -> None:
    while files:
        files.popitem()[1].close()


def _refuse(what: str, hint: str) -> None:
    """A warning, once in a process."""
    if what not in _warned:
        _warned.add(what)
        warnings.warn(f"[SummaryWriter] {what} writes nothing here. Hint: {hint}.", SummaryWarning, stacklevel=3)


__all__ = ["SummaryWarning", "SummaryWriter"]
