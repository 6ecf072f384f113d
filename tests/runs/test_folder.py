import hashlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from anisocert import Certificate, Region
from anisocert.runs import read_run, row

COLUMNS = [
    "idx", "label", "prediction", "correct", "radius", "proxy_radius", "gap", "p_a", "p_b", "top_votes",
    "runner_up_votes", "votes", "bound_k", "bound_n", "alpha", "num_classes", "bound", "stop", "method", "norm",
    "noise", "sigma", "theta_min", "theta_max", "theta_geomean", "reason", "seconds", "seed",
    "codes", "selector_top", "selector_votes", "selector_alpha", "selector_sigma", "cap",
]  # fmt: skip


def certificate(number: int = 3, **changes) -> Certificate:
    theta = np.array([0.5, 2.0], np.float32)
    fields = {
        "id": number, "prediction": 1, "gap": 0.5, "region": Region(np.zeros(2), theta * 0.5, 2), "theta": theta,
        "p_a": 0.7, "p_b": 0.3, "top_votes": 80, "runner_up_votes": 10, "votes": 100, "bound_k": 80, "bound_n": 100,
        "alpha": 0.001, "num_classes": 10, "bound": "one-vs-rest", "stop": None, "method": "fixed", "norm": 2,
        "noise": "gaussian", "seed": 2**64 - 1, "model_hash": "abc", "seconds": 0.1,
    }  # fmt: skip
    return Certificate(**(fields | changes))


def abstention(number: int) -> Certificate:
    return certificate(number, prediction=-1, gap=0.0, region=None, reason="too close", theta=np.float32(0.25))


def test_row_has_the_columns_others_rely_on():
    line = row(certificate(), 1, 0.25)
    assert list(line) == COLUMNS
    assert (line["radius"], line["proxy_radius"]) == (0.25, pytest.approx(0.5))
    assert (line["theta_min"], line["theta_max"], line["theta_geomean"]) == (0.5, 2.0, pytest.approx(1.0))
    assert (line["norm"], line["noise"]) == ("l2", "gaussian")


@pytest.mark.parametrize(("label", "correct"), [(1, True), (2, False)])
def test_correct_is_the_label(label, correct):
    assert row(certificate(), label, 0.25)["correct"] is correct


def test_an_abstention_is_never_correct():
    assert row(abstention(1), -1, 0.25)["correct"] is False


def test_run_on_disk(write_run, tmp_path):
    folder = tmp_path / "deep" / "run"
    write_run(folder, [certificate(3), abstention(8)], [1, 1], n=100)
    table = pq.read_table(folder / "certificates.parquet")
    assert table.column_names == COLUMNS
    assert table["idx"].to_pylist() == [3, 8]
    assert table["radius"].to_pylist() == [0.25, 0.0]
    assert table["seed"].to_pylist() == [2**64 - 1] * 2
    assert table["reason"].to_pylist() == ["", "too close"]
    thetas = load_file(folder / "theta" / "theta.safetensors")
    assert np.array_equal(thetas["3"], np.array([0.5, 2.0], np.float32))
    assert thetas["8"].shape == (1,)
    described = json.loads((folder / "run.json").read_text())
    assert (described["data"], described["n"], described["model_hash"]) == ("digits", 100, "abc")
    assert {"anisocert", "python", "torch", "numpy"} <= set(described["versions"])
    assert set(described["files"]) == {"certificates.parquet", "theta/theta.safetensors"}
    for name, digest in described["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert not list(folder.glob("*.part"))


def test_a_ball_is_stored_as_one_number(write_run, tmp_path):
    """A search that found no better shape leaves the same number for every value: 0.6 MB of it at ImageNet's size."""
    shape = (3, 224, 224)
    theta = np.full(shape, 0.5, np.float32)
    ball = certificate(3, theta=theta, region=Region(np.zeros(shape), theta * 0.5, 2))
    write_run(tmp_path, [ball, abstention(8)], [1, 1], input_shape=list(shape))
    assert (tmp_path / "theta" / "theta.safetensors").stat().st_size < 500
    found = read_run(tmp_path)
    assert np.array_equal(found.thetas[3], theta)
    assert (found.thetas[3].shape, found.thetas[8].shape) == (shape, ())
    assert found.certificate(3, np.zeros(shape, np.float32)).region.axes.shape == shape


def test_columns_have_the_same_types_whatever_is_in_them(write_run, tmp_path):
    write_run(tmp_path / "a", [abstention(1)], [1])
    write_run(tmp_path / "b", [certificate(1, stop="betting", seed=0)], [1])
    a, b = (pq.read_schema(tmp_path / name / "certificates.parquet") for name in "ab")
    assert a.equals(b)
    assert str(a.field("stop").type) == "string"


def test_an_old_run_does_not_vouch_for_a_half_written_one(write_run, tmp_path, monkeypatch):
    write_run(tmp_path, [certificate(1)], [1])
    monkeypatch.setattr("anisocert.runs.folder.save", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_run(tmp_path, [certificate(2)], [1])
    assert not (tmp_path / "run.json").exists()
