"""Known data sets: their file formats, and downloads that break off, go on, and are never taken for whole when they are not."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shadergrad import config
from shadergrad.data import (
    CIFAR10,
    MNIST,
    CharDataset,
    DataError,
    DataLoader,
    DownloadError,
    FashionMNIST,
    ImageFolder,
    Vocabulary,
    load_digits,
)
from shadergrad.data.dataset_formats import read_idx
from shadergrad.data.download import fetch
from shadergrad.data.known_files import KnownFile, data_folder
from shadergrad.system.optional_packages import MissingPackageError

ENDLESS = 1 << 28  # bytes: more than any buffer between a server and its client holds
CONTENT = np.random.default_rng(0).bytes(200_000)


def md5(data: bytes) -> KnownFile:
    return KnownFile("md5:" + hashlib.md5(data).hexdigest(), len(data))


def sha256(data: bytes) -> KnownFile:
    return KnownFile("sha256:" + hashlib.sha256(data).hexdigest(), len(data))


# --- a server that can misbehave


@dataclass
class Server:
    """Files by path. The knobs: whether it knows Range; after how many bytes answers break off; its status."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    wrong_range: bool = False
    length: str | None = None  # said in place of the true one; "" for none
    endless: bool = False
    sent: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            content = state.files.get(self.path)
            if content is None:
                return self.send_error(404)
            if state.statuses:
                return self.send_error(state.statuses.pop(0))
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if start and start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if start:
                begin = 0 if state.wrong_range else start
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            length = str(len(content) - start) if state.length is None else state.length
            if length:
                self.send_header("Content-Length", length)
            self.end_headers()
            while state.endless and state.sent < ENDLESS:
                try:
                    state.sent += self.wfile.write(bytes(1 << 16))
                except OSError:  # the client has left
                    return None
            self.wfile.write(content[start : start + state.breaks.pop(0)] if state.breaks else content[start:])
            return None

        def log_message(self, format: str, *_: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.address = f"http://127.0.0.1:{http.server_port}"
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


def assert_only(folder: Path, *names: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


# --- downloads


@pytest.mark.parametrize("checksum", [md5(CONTENT), sha256(CONTENT)], ids=["md5", "sha256"])
def test_a_file_is_fetched_whole(server: Server, tmp_path: Path, checksum: KnownFile) -> None:
    server.files["/a"] = CONTENT
    path = fetch(f"{server.address}/a", tmp_path / "new" / "a", checksum)
    assert path.read_bytes() == CONTENT
    assert_only(tmp_path / "new", "a")
    assert server.asked == [("/a", None)]


def test_a_download_that_breaks_off_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.breaks = [50_000, 100_000]
    assert fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT)).read_bytes() == CONTENT
    assert server.asked == [("/a", None), ("/a", "bytes=50000-"), ("/a", "bytes=150000-")]
    assert_only(tmp_path, "a")


def test_what_an_interrupted_download_got_is_kept_for_the_next(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.breaks = [70_000, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"ended after 70000 of 200000 bytes\. 70000 bytes are kept in .*a\.part"):
        fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert_only(tmp_path, "a.part")
    server.asked.clear()
    fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert server.asked == [("/a", "bytes=70000-")]
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert_only(tmp_path, "a")


def test_a_server_that_knows_no_ranges_is_asked_for_the_whole_again(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.ranges = False
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert server.asked == [("/a", "bytes=1000-")]


def test_a_server_that_sends_another_range_is_asked_from_the_start(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.wrong_range = True
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more", b"of another file"], ids=["whole", "too long", "foreign"])
def test_a_part_is_believed_only_by_its_checksum(server: Server, tmp_path: Path, part: bytes) -> None:
    server.files["/a"] = CONTENT
    (tmp_path / "a.part").write_bytes(part)
    fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert_only(tmp_path, "a")
    assert len(server.asked) == (1 if part == CONTENT else 2)


def test_a_corrupted_file_is_refused_and_not_kept(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT[:-1] + b"?"
    with pytest.raises(DownloadError, match=f"its checksum is md5:.*, not {md5(CONTENT).checksum}. Nothing is kept"):
        fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert_only(tmp_path)
    assert len(server.asked) == 1


def test_a_server_in_trouble_is_asked_again_and_one_without_the_file_is_not(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.statuses = [503, 500]
    fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert len(server.asked) == 3
    with pytest.raises(DownloadError, match=r"the server says 404.*Hint: is SHADERGRAD_DATA_MIRROR"):
        fetch(f"{server.address}/b", tmp_path / "b", md5(CONTENT))
    assert len(server.asked) == 4


def test_no_server_and_no_folder_are_errors_in_one_line(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"cannot fetch http://127\.0\.0\.1:1/a: .*refused.* Nothing is kept"):
        fetch("http://127.0.0.1:1/a", tmp_path / "a", md5(CONTENT))
    (tmp_path / "file").touch()
    server.files["/a"] = CONTENT
    with pytest.raises(DownloadError, match=r"to .*file/a: "):
        fetch(f"{server.address}/a", tmp_path / "file" / "a", md5(CONTENT))
    with pytest.raises(DataError, match="no checksum"):
        fetch(f"{server.address}/a", tmp_path / "a", KnownFile("d41d8", 3))


@pytest.mark.parametrize("length", ["many", "-5", "1e5", "", "²", "9" * 5000], ids=lambda text: text[:4] or "none")
def test_a_length_that_is_no_number_is_an_answer(server: Server, tmp_path: Path, length: str) -> None:
    server.files["/a"] = CONTENT
    server.length = length
    if not length:  # the end of the connection is the end of the file, then
        assert fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT)).read_bytes() == CONTENT
        return
    with pytest.raises(DownloadError, match=r"cannot fetch http.*/a: .*(length is '|\d+ bytes).*Nothing is kept"):
        fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert_only(tmp_path)


def test_a_file_without_a_length_that_breaks_off_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.length = ""
    server.breaks = [50_000]
    assert fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT)).read_bytes() == CONTENT
    assert server.asked == [("/a", None), ("/a", "bytes=50000-")]


def test_an_endless_body_is_left_where_the_file_should_end(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = CONTENT
    server.length = ""
    server.endless = True
    with pytest.raises(
        DownloadError, match=r"the server sends more than the 200000 bytes of the file\. Nothing is kept"
    ):
        fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert_only(tmp_path)
    assert len(server.asked) == 1
    assert server.sent < ENDLESS


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (None, "the server has 200001 bytes, and the file has 200000"),
        ("", "sends more than the 200000 bytes of the file"),
    ],
    ids=["announced", "not announced"],
)
def test_a_body_longer_than_stated_is_refused(server: Server, tmp_path: Path, length: str | None, words: str) -> None:
    server.files["/a"] = CONTENT + b"?"
    server.length = length
    with pytest.raises(DownloadError, match=f"{words}. Nothing is kept"):
        fetch(f"{server.address}/a", tmp_path / "a", md5(CONTENT))
    assert_only(tmp_path)
    assert len(server.asked) == 1


@pytest.mark.parametrize("address", ["http://a..b", "http://[", "http://127.0.0.1:port", "http://a b"])
def test_an_address_that_is_none_is_an_error_in_one_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(DownloadError, match=r"cannot fetch http://"):
        fetch(f"{address}/a", tmp_path / "a", md5(CONTENT))


# --- MNIST


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, kind, array.ndim]) + sizes + array.tobytes()


def gz(data: bytes) -> bytes:
    """Compressed, and the same bytes at any time of day: a gzip header carries the second in which it was made."""
    return gzip.compress(data, mtime=0)


RNG = np.random.default_rng(1)
IMAGES = RNG.integers(0, 256, (7, 28, 28), np.uint8)
LABELS = RNG.integers(0, 10, 7).astype(np.uint8)


@pytest.fixture
def small_mnist(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A mirror with a small MNIST, whose checksums are the known ones."""
    packed = {
        f"{part}-{name}.gz": gz(idx(array))
        for part in ("train", "t10k")
        for name, array in (("images-idx3-ubyte", IMAGES), ("labels-idx1-ubyte", LABELS))
    }
    for folder, kind in (("mnist", MNIST), ("fashion-mnist", FashionMNIST)):
        server.files |= {f"/data/{folder}/{name}": data for name, data in packed.items()}
        monkeypatch.setattr(kind, "files", {name: md5(data) for name, data in packed.items()})
    return server


@pytest.mark.parametrize(("kind", "folder"), [(MNIST, "mnist"), (FashionMNIST, "fashion-mnist")])
@pytest.mark.parametrize("train", [True, False])
def test_mnist_comes_from_the_mirror_once(
    small_mnist: Server, tmp_path: Path, kind: Any, folder: str, train: bool
) -> None:
    mirror = f"{small_mnist.address}/data/"
    dataset = kind(tmp_path, train, download=True, mirror=mirror)
    assert len(dataset) == 7
    assert len(kind.classes) == 10
    image, label = dataset[3]
    assert (image.dtype, image.shape) == (np.float32, (1, 28, 28))
    np.testing.assert_array_equal(image[0], IMAGES[3] / np.float32(255))
    assert label == LABELS[3]
    assert [path for path, _ in small_mnist.asked] == [
        f"/data/{folder}/{'train' if train else 't10k'}-{name}-ubyte.gz" for name in ("images-idx3", "labels-idx1")
    ]
    kind(tmp_path, train, download=True, mirror=mirror)
    kind(tmp_path, train)
    assert len(small_mnist.asked) == 2


def test_unpacked_files_put_there_by_hand_are_taken(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    dataset = MNIST(tmp_path)
    np.testing.assert_array_equal(dataset.labels, LABELS)
    assert dataset.labels.dtype == np.int32
    images, labels = next(iter(DataLoader(dataset, 4)))
    np.testing.assert_array_equal(images.numpy()[2], dataset[2][0])
    assert labels.tolist() == LABELS[:4].tolist()
    changed = MNIST(tmp_path, transform=lambda image: 1 - image, target_transform=lambda label: label + 100)
    images, labels = next(iter(DataLoader(changed, 4)))
    np.testing.assert_array_equal(images.numpy()[2], 1 - dataset[2][0])
    assert labels.tolist() == [label + 100 for label in LABELS[:4].tolist()]


def test_without_files_the_error_says_what_to_set_and_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = re.escape(f"put train-images-idx3-ubyte.gz into {tmp_path / 'mnist'} by hand")
    with pytest.raises(DownloadError, match=f"download=True fetches it from a mirror, or {by_hand}"):
        MNIST(tmp_path)
    monkeypatch.setattr(MNIST, "mirrors", ())
    with pytest.raises(DownloadError, match=f"set SHADERGRAD_DATA_MIRROR.*or {by_hand}"):
        MNIST(tmp_path, download=True)
    with pytest.raises(DownloadError, match="no http:// or https:// address"):
        MNIST(tmp_path, download=True, mirror="ftp://127.0.0.1")


def test_official_mirrors_are_asked_in_turn_unless_there_is_one_of_the_users_own(
    small_mnist: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, gone = f"{small_mnist.address}/data/mnist", f"{small_mnist.address}/gone"
    monkeypatch.setattr(MNIST, "mirrors", (gone, good))
    assert len(MNIST(tmp_path / "a", download=True)) == 7
    assert [path for path, _ in small_mnist.asked][:2] == [
        f"/{where}/train-images-idx3-ubyte.gz" for where in ("gone", "data/mnist")
    ]
    asked = len(small_mnist.asked)
    MNIST(tmp_path / "b", download=True, mirror=f"{small_mnist.address}/data")
    assert all(path.startswith("/data/mnist/") for path, _ in small_mnist.asked[asked:])
    monkeypatch.setattr(MNIST, "mirrors", (gone, f"{gone}/too"))
    with pytest.raises(DownloadError, match=r"no mirror gave it.*/gone/train.*404.*/gone/too/train.*404"):
        MNIST(tmp_path / "c", download=True)


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, CIFAR10])
def test_each_known_set_has_several_mirrors_and_a_checksum_for_each_file(kind: Any) -> None:
    assert len(kind.mirrors) >= 2
    assert all(address.startswith("http") and not address.endswith("/") for address in kind.mirrors)
    known = kind.files.values() if hasattr(kind, "files") else [kind.known]
    assert all(re.fullmatch("md5:[0-9a-f]{32}", file.checksum) and file.size > 4000 for file in known)


def test_digits_are_those_of_scikit_learn_in_its_split() -> None:
    from sklearn.datasets import load_digits as reference
    from sklearn.model_selection import train_test_split

    found: Any = reference()
    images, labels = (found.data / 16).astype(np.float32), found.target.astype(np.int32)
    split: Any = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    for ours, theirs in zip(load_digits(), (split[0], split[2], split[1], split[3]), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_folder_and_mirror_come_from_the_environment(
    small_mnist: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHADERGRAD_DATA_DIR", "SHADERGRAD_DATA_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    assert (config.read_environment().data_dir, config.read_environment().data_mirror) == (None, None)
    monkeypatch.setenv("SHADERGRAD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("SHADERGRAD_DATA_MIRROR", f"{small_mnist.address}/data")
    for module in ("download", "known_files"):
        monkeypatch.setattr(f"shadergrad.data.{module}.config", config.read_environment())
    assert len(MNIST(download=True)) == 7
    assert (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").exists()
    assert data_folder("~/x", "mnist") == Path.home() / "x" / "mnist"
    monkeypatch.setenv("SHADERGRAD_DATA_MIRROR", "somewhere")
    with pytest.raises(config.ConfigError, match="SHADERGRAD_DATA_MIRROR='somewhere'"):
        config.read_environment()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (idx(IMAGES)[:-1], "is truncated: its header says 5504 bytes, there are 5503"),
        (idx(IMAGES)[:9], "is truncated"),
        (idx(IMAGES) + b"x", "has bytes after its end"),
        (b"", "no IDX file: it begins with nothing"),
        (b"\x00\x00\x07\x03", "no IDX file: it begins with 00 00 07 03"),
        (b"<html>", "no IDX file"),
        (idx(LABELS), "an array with 1 axes, not 3"),
        (gz(idx(IMAGES))[:-20], "damaged or truncated gzip file"),
        (gz(idx(IMAGES))[:-4] + b"\0\0\0\0", "damaged or truncated gzip file"),
        (gz(idx(IMAGES))[:40] + b"\xff" * 40, "damaged or truncated gzip file"),
    ],
    ids=[
        "a byte short",
        "a header cut off",
        "a byte too many",
        "empty",
        "of an unknown kind",
        "a web page",
        "labels for images",
        "gzip cut off",
        "gzip with a wrong length",
        "gzip spoiled",
    ],
)
def test_a_damaged_idx_file_says_how(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "images").write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_idx(tmp_path / "images", (7, 28, 28))
    assert str(tmp_path / "images") in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (idx(np.zeros((1, 29, 28), np.uint8)), r"shape \(1, 29, 28\); that of the data set has \(1000, 28, 28\)"),
        (idx(IMAGES[:, :0]), None),
        (gzip.compress(idx(IMAGES) + bytes(10_000_000), mtime=0), "has bytes after its end"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "that of the data set has"),
    ],
)
def test_no_more_is_unpacked_than_the_data_set_has(tmp_path: Path, data: bytes, words: str | None) -> None:
    (tmp_path / "images").write_bytes(data)
    if words is None:
        assert read_idx(tmp_path / "images", (1000, 28, 28)).shape == (7, 0, 28)
        return
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=words):
            read_idx(tmp_path / "images", (1000, 28, 28))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (idx(IMAGES), idx(LABELS + 10), r"a label 1\d; labels go from 0 to 9"),
        (idx(IMAGES.astype(">f4"), kind=0x0D), idx(LABELS), "float32 images and uint8 labels"),
    ],
)
def test_a_mnist_of_other_numbers_is_refused(tmp_path: Path, images: bytes, labels: bytes, words: str) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(images)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(DataError, match=words):
        MNIST(tmp_path)


def test_idx_files_hold_other_numbers_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(idx(np.array([[1.5, -2]], ">f4"), kind=0x0D))
    array = read_idx(tmp_path / "a", (1, 2))
    assert array.dtype == np.float32
    assert array.tolist() == [[1.5, -2]]


def test_images_and_labels_of_different_sets_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:6]))
    with pytest.raises(DataError, match="7 images and 6 labels"):
        MNIST(tmp_path)


# --- CIFAR-10


def records(images: np.ndarray, labels: np.ndarray) -> bytes:
    return b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True))


def archive(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gz(target.getvalue())


PHOTOS = RNG.integers(0, 256, (12, 3, 32, 32), np.uint8)
KINDS = RNG.integers(0, 10, 12).astype(np.uint8)
PARTS = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
BATCHES = {name: records(PHOTOS[2 * k : 2 * k + 2], KINDS[2 * k : 2 * k + 2]) for k, name in enumerate(PARTS)}


@pytest.mark.parametrize("unpacked", [False, True])
def test_cifar_comes_from_its_archive_or_its_files(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: bool
) -> None:
    if unpacked:
        (tmp_path / "cifar-10" / "cifar-10-batches-bin").mkdir(parents=True)
        for name, data in BATCHES.items():
            (tmp_path / "cifar-10" / "cifar-10-batches-bin" / name).write_bytes(data)
    else:
        server.files["/cifar-10/cifar-10-binary.tar.gz"] = packed = archive(BATCHES)
        monkeypatch.setattr(CIFAR10, "known", sha256(packed))
    train = CIFAR10(tmp_path, download=True, mirror=server.address)
    test = CIFAR10(tmp_path, train=False)
    assert len(server.asked) == (0 if unpacked else 1)
    assert (len(train), len(test)) == (10, 2)
    np.testing.assert_array_equal(np.concatenate([train.images, test.images]), PHOTOS)
    np.testing.assert_array_equal(np.concatenate([train.labels, test.labels]), KINDS)
    assert test[1][0].shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (archive(BATCHES)[:-100], "damaged or truncated gzip file"),
        (b"no archive", "damaged or truncated archive"),
        (archive({"data_batch_1.bin": b""}), "lacks cifar-10-batches-bin/test_batch.bin"),
        (archive({"test_batch.bin": BATCHES["test_batch.bin"][:-1]}), "test_batch.bin is truncated.*6145 bytes"),
        (archive({"test_batch.bin": b""}), "truncated, or no CIFAR-10 batch: 0 bytes"),
        (archive({"test_batch.bin": b"\x0b" * 3073}), "has a label 11"),
    ],
    ids=["cut off", "no archive", "without its test batch", "a byte short", "an empty batch", "a label too high"],
)
def test_a_damaged_cifar_archive_says_how(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "cifar-10").mkdir()
    (tmp_path / "cifar-10" / CIFAR10.archive).write_bytes(data)
    with pytest.raises(DataError, match=words):
        CIFAR10(tmp_path, train=False)


def test_a_cifar_archive_is_not_unpacked_beyond_what_the_data_set_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the data set's bounds made small: the six files of 6,146 bytes each, and 1 MiB for the rest."""
    monkeypatch.setattr(CIFAR10, "batch_bytes", 2 * 3073)
    (tmp_path / "cifar-10").mkdir()
    path = tmp_path / "cifar-10" / CIFAR10.archive
    path.write_bytes(archive(BATCHES))
    assert len(CIFAR10(tmp_path)) == 10
    path.write_bytes(archive({"test_batch.bin": bytes(2 * 3073 + 1)}))
    with pytest.raises(DataError, match="has 6147 bytes; that of the data set has 6146"):
        CIFAR10(tmp_path, train=False)
    path.write_bytes(archive({"bomb": bytes(20_000_000), **BATCHES}))
    with pytest.raises(DataError, match="holds more than 1085452 bytes"):
        CIFAR10(tmp_path, train=False)
    # 32 records of 10,240 bytes, which end where a buffer does: gzip's checksum comes after that
    path.write_bytes(archive(BATCHES | {"rest": bytes(280_000)})[:-4] + b"????")
    with pytest.raises(DataError, match="damaged or truncated"):
        CIFAR10(tmp_path, train=False)
    (tmp_path / "cifar-10" / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10" / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(bytes(3 * 3073))
    with pytest.raises(DataError, match=r"test_batch\.bin holds more than 6146 bytes"):
        CIFAR10(tmp_path, train=False)


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST])
def test_the_stated_sizes_are_those_of_the_known_files(kind: type[MNIST]) -> None:
    assert set(kind.files) == {
        f"{part}-{name}.gz" for part in ("train", "t10k") for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    }
    assert all(known.checksum.startswith("md5:") and known.size > 4000 for known in kind.files.values())


# --- pictures and text


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for name, color in (("dog/b.png", (255, 0, 0)), ("cat/1.JPG", (0, 0, 0)), ("dog/a/deep.png", (0, 255, 51))):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), color).save(path)
    (tmp_path / "dog" / "notes.txt").touch()
    (tmp_path / ".hidden").mkdir()
    return tmp_path


def test_a_folder_of_pictures_has_a_class_a_folder(pictures: Path) -> None:
    dataset = ImageFolder(pictures)
    assert dataset.classes == ["cat", "dog"]
    assert dataset.class_to_idx == {"cat": 0, "dog": 1}
    assert [(path.name, label) for path, label in dataset.samples] == [("1.JPG", 0), ("deep.png", 1), ("b.png", 1)]
    image, label = dataset[1]
    assert (image.dtype, image.shape, label) == (np.float32, (3, 4, 6), 1)
    np.testing.assert_allclose(image[:, 0, 0], [0, 1, 0.2])
    gray = ImageFolder(pictures, size=(2, 3), mode="L", transform=lambda image: image + 1)
    assert gray[0][0].shape == (1, 2, 3)
    assert gray[0][0].max() == 1
    (batch, labels) = next(iter(DataLoader(ImageFolder(pictures, size=(5, 5)), 3, num_workers=2)))
    assert tuple(batch.shape) == (3, 3, 5, 5)
    assert labels.tolist() == [0, 1, 1]


def test_a_folder_without_pictures_and_a_broken_picture_are_named(
    pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (pictures / "dog" / "b.png").read_bytes()
    (pictures / "dog" / "b.png").write_bytes(whole[:40])
    with pytest.raises(DataError, match=r"b\.png is no whole picture"):
        ImageFolder(pictures)[2]
    (pictures / "empty").mkdir()
    with pytest.raises(DataError, match="empty has no pictures"):
        ImageFolder(pictures)
    with pytest.raises(DataError, match="has no folders"):
        ImageFolder(pictures / "cat")
    with pytest.raises(DataError, match="mode is 'CMYK'"):
        ImageFolder(pictures, mode="CMYK")
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(MissingPackageError, match=r"pip install"):
        ImageFolder(pictures)


def test_a_vocabulary_numbers_characters_and_back() -> None:
    vocabulary = Vocabulary("hello wörld 😀")
    text = "old hero 😀"
    numbers = vocabulary.encode(text)
    assert numbers.dtype == np.int32
    assert vocabulary.decode(numbers) == text
    assert len(vocabulary) == len(set("hello wörld 😀"))
    assert vocabulary == Vocabulary(vocabulary.characters)
    assert vocabulary.encode("").shape == (0,)
    with pytest.raises(DataError, match="not in the vocabulary: 'x', 'z'"):
        vocabulary.encode("zx")
    with pytest.raises(DataError, match="empty"):
        Vocabulary("")


def test_windows_of_a_text_and_what_follows_them(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("abcabd", encoding="utf-8")
    dataset = CharDataset.from_file(tmp_path / "text", 3)
    assert len(dataset) == 3
    pairs = [tuple(map(dataset.vocabulary.decode, dataset[i])) for i in range(3)]
    assert pairs == [("abc", "bca"), ("bca", "cab"), ("cab", "abd")]
    x, y = next(iter(DataLoader(dataset, 2)))
    assert x.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert y.tolist() == [[1, 2, 0], [2, 0, 1]]
    assert CharDataset("dcba", 2, dataset.vocabulary)[0][0].tolist() == [3, 2]
    with pytest.raises(DataError, match="no window of 6"):
        CharDataset("abcabd", 6)
    with pytest.raises(DataError, match="context is 0"):
        CharDataset("abc", 0)
    with pytest.raises(DataError, match="cannot read"):
        CharDataset.from_file(tmp_path / "none", 3)
