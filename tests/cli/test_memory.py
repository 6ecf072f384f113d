import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from anisocert.bounds import Plan
from anisocert.certificate import Certificate
from anisocert.cli.app import app
from anisocert.data import digits
from anisocert.errors import ArgumentError
from anisocert.memory import BrokenMemoryError, Memory
from anisocert.runs.files import read_description
from anisocert.smoothing import Gaussian, Uniform


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, ["memory", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def certificates(count, norm=2, size=2.0, flip=()):
    """Certificates of test digits, from 90 of 100 votes; those of `flip` claim the next class.

    size: of the regions, whose noise is scaled to it.
    """
    data, rng = digits("test").subset(most=count), np.random.default_rng(0)
    noise = Gaussian if norm == 2 else Uniform
    p_a, p_b = Plan().estimate(90, 10, 100, 10, 0.001)
    gap = float(noise(1.0).gap(p_a, p_b))
    found = []
    for i, (x, y, number) in enumerate(zip(data.x, data.y, data.ids.tolist(), strict=True)):
        theta = np.float32(0.25) if i % 2 else rng.uniform(0.2, 0.6, x.shape)
        theta = np.float32(theta * size / gap)
        abstains = i % 10 == 9
        found.append(
            Certificate(
                id=number, prediction=-1 if abstains else int(y + (i in flip)) % 10, gap=0.0 if abstains else gap,
                region=None if abstains else noise(theta).region(x, theta, gap), theta=np.asarray(theta), p_a=p_a,
                p_b=p_b, top_votes=90, runner_up_votes=10, votes=100, bound_k=90, bound_n=100, alpha=0.001,
                num_classes=10, bound="one-vs-rest", stop=None, method="anisotropic", norm=norm, seed=0,
                noise="gaussian" if norm == 2 else "uniform",
                model_hash="toy", seconds=0.1, reason="too few votes" if abstains else "",
            )
        )  # fmt: skip
    return found, data


@pytest.fixture
def run(write_run, tmp_path):
    found, data = certificates(40)
    # Rows in another order than their ids: the memory takes them by id.
    write_run(tmp_path / "run", found[::-1], data.y[::-1])
    return tmp_path / "run"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "memory.sqlite"


def test_answers_take_the_place_of_another_memorys_only_by_force(run, file, tmp_path):
    for _ in range(2):
        invoke("add", run, "--memory", file)
    invoke("add", run, "--memory", tmp_path / "b.sqlite", "--out", tmp_path / "copy")
    other = tmp_path / "c.sqlite"
    with pytest.raises(ArgumentError, match=rf"--out DIR or --force, as {run} has the answers of {file}: a copy keeps"):
        invoke("add", run, "--memory", other)
    assert not other.exists()
    invoke("add", run, "--memory", other, "--force")
    assert read_description(run)["memory"]["file"] == str(other)


def test_a_run_names_its_memory_so_that_it_is_found_from_any_folder(run, file, monkeypatch):
    monkeypatch.chdir(file.parent)
    invoke("add", run, "--memory", file.name)
    assert read_description(run)["memory"]["file"] == str(file)
    invoke("add", run, "--memory", file)  # its own answers are in nobody's place


def test_add_writes_the_columns(run, file):
    found, _ = certificates(40)
    before = pq.read_table(run / "certificates.parquet")
    assert "36 kept, 0 shrunk, 0 inherited, 4 abstained; 36 entries" in invoke("add", run, "--memory", file)
    table = pq.read_table(run / "certificates.parquet")
    assert table.column_names[-4:] == ["memory_prediction", "memory_radius", "memory_proxy_radius", "memory_note"]
    assert table.drop_columns(table.column_names[-4:]).equals(before.sort_by("idx"))
    rows = {row["idx"]: row for row in table.to_pylist()}
    memory = Memory()
    for proposed in found:
        row = rows[proposed.id]
        if proposed.region is not None:
            answer = memory.admit(proposed)
            assert row["memory_prediction"] == answer.prediction
            assert row["memory_radius"] == answer.radius
            assert row["memory_proxy_radius"] == answer.proxy_radius
            assert row["memory_note"] == answer.note
        else:
            assert (row["memory_prediction"], row["memory_radius"], row["memory_note"]) == (-1, 0.0, "abstained")
    with Memory.open(file) as stored:
        assert [c.id for c in stored.entries()] == [c.id for c in found if c.region is not None]
    # The checksums in run.json are those of the files, and the memory is named.
    described = json.loads((run / "run.json").read_text())
    for name, checksum in described["files"].items():
        assert hashlib.sha256((run / name).read_bytes()).hexdigest() == checksum
    assert described["memory"].pop("generation")
    assert described["memory"] == {
        "file": str(file),
        "policy": "inherit",
        "prefer": "volume",
        "order": "idx",
        "entries": 36,
    }
    assert "next" not in described
    assert not list(run.glob("*.part"))
    # Once more changes nothing.
    assert "36 kept" in invoke("add", run, "--memory", file)
    assert pq.read_table(run / "certificates.parquet").equals(table)


@pytest.mark.parametrize(("policy", "note"), [("inherit", "inherited"), ("abstain", "abstained")])
def test_conflicts(write_run, tmp_path, file, policy, note):
    found, data = certificates(40, size=4.0, flip={7})
    write_run(tmp_path / "run", found, data.y)
    told = invoke("add", tmp_path / "run", "--memory", file, "--memory-policy", policy)
    assert f"policy {policy}" in told
    notes = [row["memory_note"] for row in pq.read_table(tmp_path / "run" / "certificates.parquet").to_pylist()]
    assert "shrunk" in notes
    assert f"{notes.count(note)} {note}" in told
    assert "proven disjoint" in invoke("check", file)


def test_an_interrupted_add_is_repeated(run, file, monkeypatch):
    from anisocert.runs import folder as room
    from anisocert.work import add_to_memory

    calls = []

    def write(folder, described, real=room.write_description):
        calls.append(described)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(folder, described)

    monkeypatch.setattr(room, "write_description", write)
    data = digits("test")
    inputs = dict(zip(data.ids.tolist(), data.x, strict=True))
    with Memory.open(file) as memory, pytest.raises(KeyboardInterrupt):
        add_to_memory(run, memory, inputs)
    monkeypatch.undo()
    assert "36 kept" in invoke("add", run, "--memory", file)
    assert "next" not in json.loads((run / "run.json").read_text())


def test_add_refuses(run, file, tmp_path):
    with pytest.raises(ArgumentError, match="worst-case"):
        invoke("add", run, "--memory", file, "--memory-policy", "best")
    with pytest.raises(ArgumentError, match=r"run\.json"):
        invoke("add", tmp_path, "--memory", file)
    np.savez(tmp_path / "few.npz", x=digits("test").x[:2], ids=digits("test").ids[:2])
    with pytest.raises(ArgumentError, match="expected the input of example 10"):
        invoke("add", run, "--memory", file, "--inputs", tmp_path / "few.npz")
    np.savez(tmp_path / "bytes.npz", x=np.zeros((2, 1, 8, 8), np.uint8))
    with pytest.raises(ArgumentError, match="as floats"):
        invoke("add", run, "--memory", file, "--inputs", tmp_path / "bytes.npz")
    np.savez(tmp_path / "other.npz", y=np.zeros(2))
    with pytest.raises(ArgumentError, match="array x"):
        invoke("add", run, "--memory", file, "--inputs", tmp_path / "other.npz")
    table = run / "certificates.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(ArgumentError, match="checksum"):
        invoke("add", run, "--memory", file)


def test_inputs_from_a_file(write_run, tmp_path, file, forge):
    found, data = certificates(20, norm=1)
    write_run(tmp_path / "run", found, data.y)
    forge(tmp_path / "run", data=None)  # as of imported results
    with pytest.raises(ArgumentError, match="--inputs"):
        invoke("add", tmp_path / "run", "--memory", file)
    np.savez(tmp_path / "inputs.npz", x=data.x, ids=data.ids)
    assert "18 kept" in invoke("add", tmp_path / "run", "--memory", file, "--inputs", tmp_path / "inputs.npz")
    assert "18 of 20 inputs" in invoke("lookup", file, "--inputs", tmp_path / "inputs.npz")


def test_lookup(run, file):
    invoke("add", run, "--memory", file)
    told = invoke("lookup", file, "--data", "digits", "--ids", "0,5,45")
    # 45 abstained, and lies in nobody's region.
    assert told.startswith("id class radius proxy radius promised to input 0 0 ")
    assert told.endswith("2 of 3 inputs lie in a promised region; radii are promised from admission on")
    assert "0 of 2 inputs" in invoke("lookup", file, "--data", "digits", "--ids", "1600,1700")
    with pytest.raises(ArgumentError, match="--data or --inputs"):
        invoke("lookup", file)


def test_check_names_the_pairs(run, file, refit_memory):
    import sqlite3

    invoke("add", run, "--memory", file)
    told = invoke("check", file)
    assert "36 entries: all regions of different classes are proven disjoint" in told
    assert "each follows from its votes" in told
    with sqlite3.connect(file) as db:
        db.execute("UPDATE entries SET axes = ? WHERE id = 5", (np.array([5.0]).tobytes(),))
    db.close()
    with pytest.raises(BrokenMemoryError, match="row 2 of its entries"):
        invoke("check", file)
    refit_memory(file)
    told = invoke("check", file, code=1)
    assert "inputs 0 (class 0) and 5 (class " in told
    assert "damaged: entry 2: its column radius is not what" in told


def test_reading_commands_make_no_memory_of_an_empty_file(file, tmp_path):
    file.touch()
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 2), np.float32))
    for command in (
        ("check", file), ("stats", file), ("lookup", file, "--inputs", tmp_path / "x.npz"),
        ("export", file, "--out", tmp_path / "out.npz"), ("reset", file, "--yes"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="expected a certificate memory, got an empty file"):
            invoke(*command)
    assert file.stat().st_size == 0


def test_a_memory_that_keeps_nothing_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=r"the path of a file for the memory, got ':memory:'"):
        invoke("add", run, "--memory", ":memory:")
    assert "memory_note" not in pq.read_table(run / "certificates.parquet").column_names


@pytest.mark.parametrize("lifetime", [None, 0.0024691284])
def test_stats_show_no_probability_smaller_than_it_is(file, lifetime):
    """Half of a lifetime's alpha is the first number's."""
    found, data = certificates(10)
    with Memory.open(file, lifetime=lifetime) as memory:
        if lifetime is None:
            memory.admit(replace(found[9], alpha=0.0012345642, x=data.x[9]))
        else:
            memory.reserve([1], 0, [data.x[0]])
    told = invoke("stats", file)
    assert ("add up to 0.00123457" if lifetime is None else "of which 0.00123457 is spent") in told


def test_stats_export_reset(run, file, tmp_path):
    invoke("add", run, "--memory", file)
    told = invoke("stats", file)
    assert "entries 36" in told
    assert "1 x 8 x 8" in told
    assert "toy" in told
    assert "policy inherit: radii are promised from admission on" in told
    assert "submissions 40, abstentions included; their alphas add up to 0.04" in told
    assert "36 entries without" in invoke("export", file, "--out", tmp_path / "out.npz", "--no-inputs")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["axes"].shape == (36, 1, 8, 8)
        assert "center" not in arrays
    assert (tmp_path / "out.npz").stat().st_mode & 0o077 == 0
    with pytest.raises(ArgumentError, match="--force"):
        invoke("export", file, "--out", run / "run.json")
    invoke("export", file, "--out", tmp_path / "out.npz")
    invoke("export", file, "--out", run / "run.json", "--force")
    invoke("reset", file, code=1)  # nobody says yes
    assert "entries 36" in invoke("stats", file)
    assert "36 entries dropped" in invoke("reset", file, "--yes")
    assert "entries 0" in invoke("stats", file)
    invoke("stats", tmp_path / "nothing", code=2)


def test_a_copy_goes_through_another_memory(write_run, tmp_path, file):
    """Shrunk for the ball, radii are larger and volumes smaller than shrunk for volume; the run itself stays."""
    found, data = certificates(40, size=5.0)
    run, copy = tmp_path / "run", tmp_path / "copy"
    write_run(run, found, data.y)
    assert " 0 shrunk" not in invoke("add", run, "--memory", file)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    again = ("add", run, "--memory", tmp_path / "ball.sqlite", "--memory-prefer", "ball", "--out", copy)
    with pytest.raises(ArgumentError, match="expected 'volume' or 'ball'"):
        invoke("add", run, "--memory", tmp_path / "ball.sqlite", "--memory-prefer", "balls", "--out", copy)
    assert not copy.exists()
    invoke(*again)
    invoke(*again)  # as after a kill
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    kept, balls = (pq.read_table(place / "certificates.parquet").to_pydict() for place in (run, copy))
    assert sum(balls["memory_radius"]) > sum(kept["memory_radius"])
    assert sum(balls["memory_proxy_radius"]) < sum(kept["memory_proxy_radius"])
    assert json.loads((copy / "run.json").read_text())["memory"]["prefer"] == "ball"
    write_run(tmp_path / "other", found[:5], data.y[:5])
    with pytest.raises(ArgumentError, match="got another run"):
        invoke("add", tmp_path / "other", "--memory", tmp_path / "ball.sqlite", "--out", copy)
