import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.data import digits
from anisocert.evaluate._tsv import read_tsv
from anisocert.memory import Memory
from anisocert.smoothing import Gaussian
from anisocert.work.memory import add_to_memory

COHEN = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.978\t1\t0:02:31.238689\n40\t8\t-1\t0.0\t0\t0:00:29\n"


KNOWN = ("--norm", "l2", "--method", "fixed")


@pytest.fixture
def data(write_run, tmp_path):
    """A run of three digits whose regions, said to be of different classes, meet."""
    data = digits("test").subset(most=3)
    p_a, p_b = Plan().estimate(90, 10, 100, 10, 0.001)
    gap = float(Gaussian(1.0).gap(p_a, p_b))
    theta = np.full(data.shape, 2.25 / gap, np.float32)
    theta[0, 0, 0] *= 2
    found = [
        Certificate(
            id=number, prediction=place, gap=gap, region=Gaussian(theta).region(x, theta, gap), theta=theta, p_a=p_a,
            p_b=p_b, top_votes=90, runner_up_votes=10, votes=100, bound_k=90, bound_n=100, alpha=0.001,
            num_classes=10, bound="one-vs-rest", stop=None, method="anisotropic", norm=2, seed=0, model_hash="toy",
            noise="gaussian",
            seconds=0.1,
        )
        for place, (x, number) in enumerate(zip(data.x, data.ids.tolist(), strict=True))
    ]  # fmt: skip
    write_run(tmp_path / "run", found, data.y, n=100)
    return data


def test_import_report_export(cli, tmp_path):
    (tmp_path / "sigma_0.25").write_text(COHEN + "60\t1")
    told = cli("import", tmp_path / "sigma_0.25", *KNOWN, "--sigma", 0.25, "--out", tmp_path / "run").out
    assert told.startswith("2 results of ")
    assert "layout cohen" in told
    assert "the last line was truncated" in told
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (described["sigma"], described["method"], described["imported"]["cut"]) == (0.25, "fixed", True)
    told = cli("verify", tmp_path / "run", code=3).out
    assert told.startswith("not recomputed: rows: imported")
    assert "0 rows recomputed" in told
    assert "imported" in cli("verify", tmp_path / "run", "--recount", 3, code=2).err
    told = cli("export", tmp_path / "run", "--out", tmp_path / "out.tsv").out
    assert "2 results before the memory" in told
    assert told.strip().endswith(": certified for everyone")
    assert read_tsv(tmp_path / "out.tsv").lines == read_tsv(tmp_path / "sigma_0.25").lines
    assert "without a run" in cli("import", tmp_path / "out.tsv", "--out", tmp_path / "run", code=2).err


def test_export_before_and_after_a_memory(cli, data, tmp_path):
    assert "memory" in cli("export", tmp_path / "run", "--after-memory", "--out", tmp_path / "x", code=2).err
    with Memory.open(tmp_path / "m.sqlite", "worst-case") as memory:
        add_to_memory(tmp_path / "run", memory, dict(zip(data.ids.tolist(), data.x, strict=True)))
    table = pq.read_table(tmp_path / "run" / "certificates.parquet").to_pylist()
    cli("export", tmp_path / "run", "--format", "ancer", "--out", tmp_path / "before.tsv")
    cli("export", tmp_path / "run", "--format", "ancer", "--after-memory", "--out", tmp_path / "after.tsv")
    before, after = read_tsv(tmp_path / "before.tsv").lines, read_tsv(tmp_path / "after.tsv").lines
    assert [(line.predict, line.radius) for line in before] == [(row["prediction"], row["radius"]) for row in table]
    assert [(line.predict, line.radius, line.radius_proxy) for line in after] == [
        (row["memory_prediction"], row["memory_radius"], row["memory_proxy_radius"]) for row in table
    ]
    assert [line.predict for line in after] == [0, -1, -1]
    assert [line.correct for line in after] == [data.y[0] == 0, False, False]
    said = cli("import", tmp_path / "after.tsv", "--out", tmp_path / "answers", code=2).err
    assert "expected results before a memory, got the answers of one in" in said
    assert not (tmp_path / "answers").exists()
    cli("import", tmp_path / "before.tsv", "--out", tmp_path / "again")
    cli("export", tmp_path / "run", "--digits", 2, "--out", tmp_path / "short.tsv")
    for short, line in zip(read_tsv(tmp_path / "short.tsv").lines, before, strict=True):
        assert line.radius * 0.9 < short.radius <= line.radius
        assert len(str(short.radius).replace(".", "").lstrip("0")) <= 2


def test_bad_paths(cli, tmp_path):
    assert "does not exist" in cli("import", tmp_path / "no.tsv", "--out", tmp_path / "run", code=2).err
    assert "does not exist" in cli("export", tmp_path / "no", "--out", tmp_path / "x.tsv", code=2).err
    assert "finished run" in cli("export", tmp_path, "--out", tmp_path / "x.tsv", code=2).err
    (tmp_path / "a.tsv").write_text(COHEN)
    (tmp_path / "file").touch()
    said = cli("import", tmp_path / "a.tsv", *KNOWN, "--out", tmp_path / "file" / "run", code=1)
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) == 1
    for wrong in (("--method", "best"), ("--sigma", -1), ("--alpha", 2), ("--n", 0), ("--norm", "l3")):
        assert str(wrong[1]) in cli("import", tmp_path / "a.tsv", *KNOWN, *wrong, "--out", tmp_path / "run", code=2).err
    cli("import", tmp_path / "a.tsv", *KNOWN, "--out", tmp_path / "run")
    said = cli("export", tmp_path / "run", "--out", tmp_path / "nowhere" / "x.tsv", code=1)
    assert said.err == f"error: {tmp_path}/nowhere/x.tsv: No such file or directory\n"
    assert "'latex'" in cli("export", tmp_path / "run", "--format", "latex", "--out", tmp_path / "x", code=2).err
