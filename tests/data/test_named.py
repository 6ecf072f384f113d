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


def as_binary(root: Path) -> Path:
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    for name, rows in ROWS.items():
        rows.tofile(root / "cifar-10-batches-bin" / f"{name}.bin")
    return root / "cifar-10-batches-bin"


def as_torchvision(root: Path) -> Path:
    (root / "cifar-10-batches-py").mkdir(parents=True)
    for name, rows in ROWS.items():
        batch = {b"data": rows[:, 1:], b"labels": rows[:, 0].tolist(), b"filenames": [b"a.png"]}
        (root / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(batch, protocol=2))
    return root / "cifar-10-batches-py"


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


@pytest.mark.usefixtures("_small_cifar")
def test_a_batch_that_would_run_code_is_refused(root: Path) -> None:
    folder = as_torchvision(root)

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (exec, ("raise SystemExit('ran')",))

    (folder / "test_batch").write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(ArgumentError, match=r"builtins.exec is not part of a CIFAR-10 batch"):
        load("cifar10")


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


def test_absent_sets_say_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"run `anisocert data fetch mnist`, or put train-images-idx3-ubyte"):
        load("mnist")
    with pytest.raises(ArgumentError, match="expected a data set of digits"):
        fetch("svhn")
    with pytest.raises(ArgumentError, match="put the validation images into"):
        fetch("imagenet")
    assert fetch("digits") is False
