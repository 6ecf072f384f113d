import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from anisocert.runs.files import WrongFileError
from anisocert.runs.thetas import MOST_VALUES, Thetas, packed, unpacked

SHAPE = (3, 224, 224)


@pytest.mark.parametrize(
    ("theta", "stored"),
    [
        (np.full(SHAPE, 0.3, np.float32), (1, 1, 1)),
        (np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 2, 2), (3, 2, 2)),
        (np.full(4, 0.3, np.float32), (4,)),  # (1,) is a scalar
        (np.float32(0.3), (1,)),
    ],
)
def test_what_is_stored_comes_back(theta, stored):
    found = packed(theta)
    assert found.shape == stored
    again = unpacked(found, list(np.shape(theta)))
    assert again.shape == np.shape(theta)
    assert np.array_equal(again, theta)
    assert again.dtype == np.float32


def test_one_pixel_that_differs_is_kept():
    theta = np.full(SHAPE, 0.3, np.float32)
    theta[2, 100, 7] = np.nextafter(np.float32(0.3), np.float32(1))
    assert np.array_equal(unpacked(packed(theta), list(SHAPE)), theta)


@pytest.mark.parametrize(
    "said",
    [None, 3, "abc", [], [3, 2], [3, -1, 2], [3, 2.0, 2], [3, True, 2], [0, 1, 1], [MOST_VALUES, 2, 1], [10**400] * 3],
)
def test_a_shape_that_is_none_leaves_the_number(said):
    tracemalloc.start()
    found = unpacked(np.full((1, 1, 1), 0.3, np.float32), said)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()
    assert found.shape == ()
    assert found == np.float32(0.3)


def test_what_comes_back_takes_no_memory():
    tracemalloc.start()
    unpacked(np.full((1, 1, 1), 0.3, np.float32), list(SHAPE))
    assert tracemalloc.get_traced_memory()[1] < 10_000
    tracemalloc.stop()


def of(folder: Path, *contents: bytes) -> Thetas:
    """The thetas in files of these bytes."""
    names = [f"theta/theta-{i:04d}.safetensors" for i, _ in enumerate(contents, 1)]
    (folder / "theta").mkdir()
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    return Thetas(folder, names, [2, 2])


def test_each_is_found_in_its_file(tmp_path):
    rng = np.random.default_rng(0)
    known = {i: rng.uniform(1, 2, (2, 2)).astype(np.float32) for i in (3, 12, 100, 7)} | {8: np.float32([0.5])}
    first, second = ({str(i): known[i] for i in ids} for ids in ((3, 12, 8), (100, 7)))
    found = of(tmp_path, save(first, {"a": "word"}), save(second))
    assert len(found) == 5
    assert set(found) == set(known)
    assert (3 in found, 4 in found, found.get(4)) == (True, False, None)
    assert all((theta == known[number]).all() for number, theta in found.items())
    assert (found[8].shape, found[8].dtype, found[3].dtype) == ((), np.float32, np.float32)


def test_only_what_is_asked_for_is_in_memory(tmp_path):
    found = of(tmp_path, save({str(i): np.full(500_000, i, np.float32) for i in range(1, 20)}))
    tracemalloc.start()
    assert all((theta == number).all() for number, theta in found.items())
    assert tracemalloc.get_traced_memory()[1] < 6_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["03", "-1", "1_0", "x", "", "٣", "1 ", "1" * 5000])
def test_a_theta_belongs_to_one_example(tmp_path, name):
    with pytest.raises(WrongFileError, match="by the id of an example"):
        of(tmp_path, save({"3": np.ones(1, np.float32), name: np.ones(1, np.float32)}))


def test_an_example_has_one_theta(tmp_path):
    with pytest.raises(WrongFileError, match="expected one theta of example 3, got two"):
        of(tmp_path, *(save({"3": np.full(1, value, np.float32)}) for value in (1, 2)))


@pytest.mark.parametrize(
    "header",
    [
        {"1": {"dtype": "F32", "shape": [10**10], "data_offsets": [0, 4 * 10**10]}},
        {"1": {"dtype": "F32", "shape": [10**10], "data_offsets": [0, 4]}},
        {"1": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}},
        {"1": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {"1": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}},
        {"1": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}},
        {"1": {"dtype": "F32", "shape": [1] * 33, "data_offsets": [0, 4]}},
        {"1": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}},
        {"1": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
        {"1": {"dtype": "F64", "shape": [1], "data_offsets": [0, 4]}},
        {"1": {"dtype": "F32", "shape": [1]}},
        {"1": [1]},
        {"1": None},
        [1],
        1,
    ],
)
def test_a_header_that_claims_what_is_not_there(tmp_path, header):
    said = json.dumps(header).encode()
    tracemalloc.start()
    with pytest.raises(WrongFileError, match="cannot be read"):
        of(tmp_path, len(said).to_bytes(8, "little") + said + b"\0" * 4)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b"", b"\1", b"\xff" * 8, b"\4" + b"\0" * 7 + b'{"1"', b"\2" + b"\0" * 7 + b"\xff}"]
)
def test_what_has_no_header_is_refused(tmp_path, content):
    with pytest.raises(WrongFileError, match="cannot be read"):
        of(tmp_path, content)


def test_damage_is_refused_or_leaves_whole_thetas(tmp_path):
    honest = save({str(i): np.full((2, 2), i, np.float32) for i in range(1, 5)})
    rng, refused = np.random.default_rng(0), 0
    for number in range(300):
        damaged = bytearray(honest)
        damaged[int(rng.integers(len(honest) - 64))] ^= 1 << int(rng.integers(8))
        (folder := tmp_path / str(number)).mkdir()
        try:
            assert all(theta.shape in ((2, 2), (4,), (1, 4), (4, 1)) for theta in of(folder, bytes(damaged)).values())
        except WrongFileError:
            refused += 1
    assert refused > 100


def test_a_link_is_not_followed(tmp_path):
    found = of(tmp_path, save({"3": np.ones(1, np.float32)}))
    file = tmp_path / "theta/theta-0001.safetensors"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WrongFileError, match="is a link"):
        found[3]


def test_a_file_that_becomes_shorter_is_told(tmp_path):
    found = of(tmp_path, save({"3": np.ones((2, 2), np.float32)}))
    with (tmp_path / "theta/theta-0001.safetensors").open("r+b") as file:
        file.truncate(80)
    with pytest.raises(WrongFileError, match="has become shorter"):
        found[3]
