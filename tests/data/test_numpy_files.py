import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from anisocert import inputs
from anisocert.data import load, splits
from anisocert.data.numpy_files import npz_names, read_npy, read_npz
from anisocert.errors import ArgumentError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_numpy_wrote_them(tmp_path: Path, save: object) -> None:
    wanted = {
        "x": RNG.integers(0, 256, (300, 80, 60), np.uint8),  # more than is read at once
        "columns": np.asfortranarray(RNG.random((4, 5))),
        "swapped": RNG.random(3).astype(">f4"),
        "empty": np.zeros((0, 3)),
        "one": np.array(7),
    }
    save(tmp_path / "a.npz", **wanted, unread=np.array([{}]))  # type: ignore[operator]
    assert set(npz_names(tmp_path / "a.npz")) == {*wanted, "unread"}
    found = read_npz(tmp_path / "a.npz", [*wanted, "absent"])
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
    np.save(tmp_path / "a.npy", wanted["columns"])
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), wanted["columns"])


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + header.encode() + content


DECLARED = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(DECLARED % ("|u1", (10**12, 3))), "0 bytes for uint8 of shape"),
        (npy(DECLARED % ("|u1", (4, 3)), bytes(11)), "11 bytes for uint8 of shape"),
        (npy(DECLARED % ("|u1", (-4, -3)), bytes(12)), "12 bytes for uint8 of shape"),
        (npy(DECLARED % ("|V0", (10**12,))), "which are not plain numbers"),
        (npy(DECLARED % ("|O", (4,)), bytes(32)), "which are not plain numbers"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)), "not plain numbers"),
        (npy(DECLARED % ("|u1", (4,)), bytes(4), b"\x02\x00"), "format 2.0"),
        (npy("[" * 9000), "whole numpy file"),
        (npy(DECLARED % ("nonsense", (4,)), bytes(4)), "whole numpy file"),
        (b"", "whole numpy file"),
    ],
)
def test_headers_that_declare_what_is_not_there(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    np.save(tmp_path / "x_labels.npy", np.zeros(4, int))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
        archive.write(tmp_path / "x_labels.npy", "y.npy")
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ArgumentError, match=message):
            load(tmp_path / name)


def test_a_small_file_of_a_huge_array_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "UNPACKED", 1 << 19)
    huge, labels = np.zeros((1 << 20, 1), np.uint8), np.zeros(1 << 20, np.uint8)
    np.savez_compressed(tmp_path / "x.npz", x=huge, y=labels)
    assert (tmp_path / "x.npz").stat().st_size < 10_000
    with pytest.raises(ArgumentError, match=r"to unpack to at most 524,288, got 2,097,408: .*\(numpy.savez\)"):
        load(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", x=huge, y=labels)
    assert len(load(tmp_path / "x.npz")) == 1 << 20


def test_files_that_never_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npz")
    (tmp_path / "y.npz").symlink_to("/dev/zero")
    for name in ("x.npz", "y.npz"):
        for ask in (load, splits):
            with pytest.raises(ArgumentError, match="expected"):
                ask(tmp_path / name)
    np.save(tmp_path / "z.npy", np.zeros((2, 3)))
    os.mkfifo(tmp_path / "z_labels.npy")
    with pytest.raises(ArgumentError, match=r"expected a regular file at .*z_labels.npy, got a FIFO"):
        load(tmp_path / "z.npy")


def test_labels_beyond_any_network(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3)), y=np.array([0, 10**12]))
    with pytest.raises(ArgumentError, match="expected at most 100,000 classes, numbered from 0, in x, got 1,000,0"):
        load(tmp_path / "x.npz")
