import errno
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from anisocert.errors import ArgumentError
from anisocert.inputs import FileError, check_archive, exact_float32, opened_regular, regular_file


@pytest.mark.parametrize(
    "x",
    [
        np.array([0.1, 2.0], np.float32),
        np.array([0.1, 2.0], ">f4"),
        np.array([0.5, 2.0]),
        np.array([0.1, 2.0], np.float16),
        torch.tensor([0.1, 2.0]),
        torch.tensor([0.1, 2.0], requires_grad=True),
        torch.tensor([0.5, 2.0], dtype=torch.float64),
        torch.tensor([0.1, 2.0], dtype=torch.bfloat16),
        [0.5, 2.0],
    ],
)
def test_what_float32_holds_is_taken_as_it_is(x: object) -> None:
    found = exact_float32("x", x)
    given = x.detach().double().numpy() if isinstance(x, torch.Tensor) else np.asarray(x, np.float64)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.astype(np.float64), given)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([0.1]), r"x that float32 holds exactly.*got float64 .*numpy.asarray\(x, 'float32'\)"),
        (torch.tensor([0.1], dtype=torch.float64), "x that float32 holds exactly"),
        (np.arange(3, dtype=np.uint8), r"got uint8: integers have no unit.*astype\('float32'\) / 255"),
        (torch.arange(3), r"got int64: integers have no unit.*pass x\.float\(\) / 255, else x\.float\(\)"),
        (np.array([True]), r"got bool: pass x\.astype\('float32'\)"),
        (np.array([1e300]), "beyond float32"),
        (np.array([np.nan], np.float32), "expected finite x"),
        (np.array([1j]), "array of floats, got complex128"),
        (np.array(["0.5"]), "array of floats, got <U3"),
        ([[0.5], [0.5, 0.25]], "array of numbers, got list"),
        (torch.ones(3).to_sparse(), "array of numbers, got Tensor"),
        (torch.ones(3, device="meta"), "array of numbers, got Tensor"),
    ],
)
def test_what_would_change_or_has_no_unit_is_refused(x: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        exact_float32("x", x)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bits", [np.uint16(0x7C01), np.uint32(0x7F800001), np.uint64(0x7FF0000000000001)])
def test_a_nan_that_signals_is_refused_without_a_warning(bits: np.generic) -> None:
    """Bytes that a stranger sends put nothing into a log."""
    with pytest.raises(ArgumentError, match="expected finite x"):
        exact_float32("x", np.array([bits]).view(f"f{bits.itemsize}"))


def test_a_table_with_texts_names_its_columns() -> None:
    class Table:
        columns = ("age", "name")

        def to_numpy(self) -> np.ndarray:
            return np.array([[1.0, "a"]], object)

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            return self.to_numpy()

    with pytest.raises(ArgumentError, match="got a Table with columns that are no numbers: leave them out, or encode"):
        exact_float32("x", Table())


def test_only_regular_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert regular_file(tmp_path / "file") == tmp_path / "file"
    assert regular_file(str(tmp_path / "link")) == tmp_path / "link"
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, message in (
        ("fifo", "expected a regular file at .*fifo, got a FIFO"),
        (".", "got a folder"),
        ("/dev/zero", "expected a regular file at /dev/zero, got a device"),
        ("dangling", "expected a file at .*dangling, got none"),
        ("absent", r"expected a file at .*absent, got none \(No such file"),
        ("a\0b", "got none"),
        ("x" * 300, "got none"),
    ):
        with pytest.raises(ArgumentError, match=message):
            regular_file(tmp_path / name)
        with pytest.raises(FileError, match=message), opened_regular(tmp_path / name):
            pass


def test_a_file_of_somebody_else(tmp_path: Path, monkeypatch) -> None:
    def refused(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refused)  # as root may read everything
    with pytest.raises(FileError, match=r"expected a file at .*, got one that cannot be read \(Permission denied"):
        regular_file(tmp_path / "theirs")


def test_no_larger_than_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with opened_regular(tmp_path / "file", 7) as file:
        assert file.read() == b"content"
    with (
        pytest.raises(FileError, match=r"expected at most 6 bytes in .*file, got 7 bytes"),
        opened_regular(tmp_path / "file", 6),
    ):
        pass


@pytest.mark.parametrize("steps", [True, False])
def test_no_link_is_followed_below_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: bool) -> None:
    """Also where the system cannot open a file relative to an open folder."""
    if not steps:
        monkeypatch.setattr(os, "supports_dir_fd", set())
    real, shown = tmp_path / "real", tmp_path / "shown"
    (real / "inner").mkdir(parents=True)
    (real / "inner" / "file").write_bytes(b"content")
    (real / "link").symlink_to("inner")
    (real / "inner" / "link").symlink_to("file")
    os.mkfifo(real / "inner" / "fifo")
    shown.symlink_to("real")
    with opened_regular(shown / "inner" / "file", below=shown) as file:
        assert file.read() == b"content"
    for name, what in (
        ("link/file", "is a link, or not a regular file"),
        ("inner/link", "is a link, or not a regular file"),
        ("inner/fifo", "is a link, or not a regular file"),
        ("inner", "is a link, or not a regular file"),
        ("inner/absent", "is missing"),
    ):
        with pytest.raises(FileError) as told, opened_regular(shown / name, below=shown):
            pass
        assert told.value.what == what


def test_archives_that_declare_more_than_they_can_hold(tmp_path: Path) -> None:
    def archive(compression: int) -> Path:
        with zipfile.ZipFile(tmp_path / "a.zip", "w", compression) as file:
            file.writestr("x.npy", bytes(1 << 20))
        return tmp_path / "a.zip"

    check_archive(archive(zipfile.ZIP_STORED))
    check_archive(archive(zipfile.ZIP_DEFLATED))  # 1,000 times its size, but small
    with pytest.raises(ArgumentError, match=r"stored or deflated members in .*, got compression 14 in 'x.npy'"):
        check_archive(archive(zipfile.ZIP_LZMA))
    path = archive(zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    at = content.index(b"PK\x01\x02") + 24  # in the directory: bytes once unpacked
    path.write_bytes(content[:at] + (3 << 30).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(ArgumentError, match=r"to unpack to at most 1,073,741,824, got 3,221,225,472: .*uncompressed"):
        check_archive(path)
