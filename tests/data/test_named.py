"""MNIST and CIFAR-10 in every layout they are found in, with made-up pixels and their checksums."""

import gzip
import hashlib
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anisocert.data import cifar10, fetch, load, mnist, splits
from anisocert.data.dataset import FIRST_TRAIN_ID
from anisocert.errors import ArgumentError

RNG = np.random.default_rng(0)
ROWS = {name: RNG.integers(0, 256, (4, 3073), np.uint8) for name in cifar10.SHA256}
for rows in ROWS.values():
    rows[:, 0] %= 10


@pytest.fixture
def _small_cifar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "BATCH", 4)
    digests = {name: hashlib.sha256(rows.tobytes()).hexdigest() for name, rows in ROWS.items()}
    monkeypatch.setattr(cifar10, "SHA256", digests)
    digests = {name: hashlib.sha256(python_batch(rows)).hexdigest() for name, rows in ROWS.items()}
    monkeypatch.setattr(cifar10, "PYTHON_SHA256", digests)


def as_binary(root: Path) -> Path:
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    for name, rows in ROWS.items():
        rows.tofile(root / "cifar-10-batches-bin" / f"{name}.bin")
    return root / "cifar-10-batches-bin"


def as_torchvision(root: Path) -> Path:
    """The layout of the published pickles, byte by byte: labels in one list, the pixels as one string."""
    (root / "cifar-10-batches-py").mkdir(parents=True)
    for name, rows in ROWS.items():
        (root / "cifar-10-batches-py" / name).write_bytes(python_batch(rows))
    return root / "cifar-10-batches-py"


def python_batch(rows: np.ndarray) -> bytes:
    pixels = rows[:, 1:].tobytes()
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x14testing batch 1 of 1q\x03U\x06labelsq\x04]q\x05("
        + b"".join(b"K" + bytes([label]) for label in rows[:2, 0]) + b"e("
        + b"".join(b"K" + bytes([label]) for label in rows[2:, 0]) + b"eU\x04dataq\x06"
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t(K\x01"
        b"K" + bytes([len(rows)]) + b"M\x00\x0c\x86cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + len(pixels).to_bytes(4, "little") + pixels + b"tb"
        b"U\tfilenamesq\x0c]q\r(U\x16domestic_cat_s_000.pngq\x0eeu."
    )  # fmt: skip


def as_npz(root: Path) -> Path:
    root.mkdir(parents=True)
    train = np.concatenate([rows for name, rows in ROWS.items() if name != "test_batch"])
    x = {
        s: r[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) for s, r in (("tr", train), ("te", ROWS["test_batch"]))
    }
    labels = {"y_train": train[:, 0], "y_test": ROWS["test_batch"][:, 0]}
    np.savez(root / "cifar10.npz", x_train=x["tr"], x_test=x["te"], **labels)
    return root


LAYOUTS = [as_binary, as_torchvision, as_npz]


@pytest.mark.usefixtures("_small_cifar")
@pytest.mark.parametrize("write", LAYOUTS)
def test_cifar10_in_every_layout(root: Path, write: Callable[[Path], Path]) -> None:
    with pytest.raises(ArgumentError, match=r"run `anisocert data fetch cifar10`, or put cifar10.npz .* into"):
        load("cifar10")
    folder = write(root)
    for name in ("cifar10", folder):
        test, train = load(name, "test"), load(name, "train")
        assert splits(name) == ("train", "test")
        np.testing.assert_array_equal(test.pixels, ROWS["test_batch"][:, 1:].reshape(-1, 3, 32, 32))
        np.testing.assert_array_equal(train.y[4:8], ROWS["data_batch_2"][:, 0])
        assert (test.ids.tolist(), int(train.ids[-1])) == ([0, 1, 2, 3], FIRST_TRAIN_ID + 19)
        assert (test.crop, test.flip, test.num_classes, test.class_names[3]) == (4, True, 10, "cat")
    assert fetch("cifar10") is False  # it is here: no source is asked


@pytest.mark.usefixtures("_small_cifar")
@pytest.mark.parametrize("write", LAYOUTS)
def test_changed_pixels_are_found(root: Path, write: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "data_batch_3", ROWS["data_batch_3"] ^ np.uint8(8))
    write(root)
    load("cifar10", "test")
    with pytest.raises(ArgumentError, match=r"expected SHA-256 .* of CIFAR-10's data_batch_3"):
        load("cifar10", "train")
    with pytest.raises(ArgumentError, match="data_batch_3"):
        fetch("cifar10")


@pytest.mark.usefixtures("_small_cifar")
@pytest.mark.parametrize("write", LAYOUTS)
def test_truncated_batches(root: Path, write: Callable[[Path], Path]) -> None:
    write(root)
    for path in root.rglob("*"):
        if path.name.startswith(("test_batch", "cifar10.npz")):
            path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArgumentError, match="expected"):
        load("cifar10", "test")


def test_the_layout_is_that_of_pickles() -> None:
    rows = ROWS["test_batch"]
    batch = pickle.loads(python_batch(rows), encoding="bytes")
    np.testing.assert_array_equal(batch[b"data"], rows[:, 1:])
    assert batch[b"labels"] == rows[:, 0].tolist()


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise SystemExit('ran')",))


class _Pointer:
    """An array whose one element is an object at a chosen address, behind a type that says it holds none."""

    target = "not a pixel"

    def __reduce__(self) -> tuple[object, ...]:
        hidden = _Made(np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0))
        state = (1, (1,), hidden, False, id(self.target).to_bytes(8, "little"))
        return (np.zeros(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state)


class _Made:
    def __init__(self, *how: object) -> None:
        self.how = how

    def __reduce__(self) -> tuple[object, ...]:
        return self.how


@pytest.mark.usefixtures("_small_cifar")
@pytest.mark.parametrize("content", [_Runs(), _Pointer()], ids=["code", "pointer"])
def test_a_crafted_batch_is_refused_before_it_is_read(root: Path, content: object) -> None:
    folder = as_torchvision(root)
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": content, b"labels": [0]}, protocol=2))
    with pytest.raises(ArgumentError, match=r"expected SHA-256 .* of CIFAR-10's test_batch"):
        load("cifar10")


def test_no_batch_is_read_that_is_larger_than_the_published_ones(root: Path) -> None:
    for folder in (as_binary(root), as_torchvision(root)):
        path = next(folder.glob("test_batch*"))
        with path.open("wb") as file:
            file.truncate(1 << 40)  # takes no room on the disk
        with pytest.raises(ArgumentError, match="expected at most 40,960,000 bytes in "):
            cifar10.read(folder, "test")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def idx_files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Four IDX files with the contents of a tiny Fashion-MNIST."""
    files = {}
    for (images, labels), n in ((mnist.TRAIN, 5), (mnist.TEST, 3)):
        files[images] = idx(RNG.integers(0, 256, (n, 28, 28), np.uint8))
        files[labels] = idx(np.arange(n, dtype=np.uint8))
    for name, content in files.items():
        monkeypatch.setitem(mnist.FASHION.files, name, hashlib.sha256(content).hexdigest())
    return files


@pytest.mark.parametrize(("inner", "packed"), [("fashion-mnist", False), ("FashionMNIST/raw", True)])
def test_idx_files(root: Path, idx_files: dict[str, bytes], inner: str, packed: bool) -> None:
    (root / inner).mkdir(parents=True)
    for name, content in idx_files.items():
        if packed:
            (root / inner / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (root / inner / name).write_bytes(content)
    for name in ("fashion-mnist", root / inner):
        test, train = load(name), load(name, "train")
        assert (test.name, test.shape, len(train), test.y.tolist()) == ("fashion-mnist", (1, 28, 28), 5, [0, 1, 2])
        assert test.pixels.tobytes() == idx_files[mnist.TEST[0]][16:]
        assert (test.crop, test.flip) == (0, False)


@pytest.mark.parametrize("kept", [10, -1])
def test_broken_idx_files(root: Path, idx_files: dict[str, bytes], kept: int) -> None:
    (root / "fashion-mnist").mkdir(parents=True)
    for name, content in idx_files.items():
        (root / "fashion-mnist" / name).write_bytes(content[:kept])
    with pytest.raises(ArgumentError, match="expected SHA-256"):
        load("fashion-mnist")
    with pytest.raises(ArgumentError, match="expected MNIST or Fashion-MNIST"):
        load(root / "fashion-mnist")


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_not_read_beyond_the_published_size(
    root: Path, idx_files: dict[str, bytes], packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist, "LARGEST", max(map(len, idx_files.values())))
    (root / "fashion-mnist").mkdir(parents=True)
    for name in idx_files:
        content = bytes(mnist.LARGEST + 1)
        path = root / "fashion-mnist" / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    for name in ("fashion-mnist", root / "fashion-mnist"):
        with pytest.raises(ArgumentError, match=r"expected an IDX file of at most 3,936 bytes at .*, got more"):
            load(name)


def test_a_damaged_gzip_file(root: Path, idx_files: dict[str, bytes]) -> None:
    (root / "fashion-mnist").mkdir(parents=True)
    for name, content in idx_files.items():
        packed = gzip.compress(content)
        (root / "fashion-mnist" / f"{name}.gz").write_bytes(packed[:15] + b"\xff" * 20 + packed[35:])
    with pytest.raises(ArgumentError, match="expected a whole IDX file at"):
        load("fashion-mnist")


def test_absent_sets_say_what_to_do(root: Path) -> None:
    with pytest.raises(ArgumentError, match=r"run `anisocert data fetch mnist`, or put train-images-idx3-ubyte"):
        load("mnist")
    with pytest.raises(ArgumentError, match="expected a data set to be one of digits"):
        fetch("svhn")
    with pytest.raises(ArgumentError, match="put the validation images into"):
        fetch("imagenet")
    assert fetch("digits") is False
