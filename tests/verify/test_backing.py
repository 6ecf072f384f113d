"""A memory's answers in a run are derived again from the memory: forged ones are found, and what is missing is said."""

import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from anisocert import Memory
from anisocert.cli.app import app
from anisocert.errors import ArgumentError
from anisocert.runs import read_run
from anisocert.verify.backing import backing, memory_backing
from anisocert.verify.verifying import verify

NOTES = ("kept", "shrunk", "inherited", "abstained")


@pytest.fixture(scope="module")
def made(remembering, do, tmp_path_factory):
    """Twelve inputs close together, so that the memory has something to do."""
    folder = tmp_path_factory.mktemp("backed")
    assert do(remembering(folder), folder / "run").finished
    return folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made / "run", tmp_path / "run")


def inherit(rows):
    """Every row inherited, with a large radius."""
    for row in rows:
        row.update(memory_note="inherited", memory_prediction=row["label"], memory_radius=9.0, memory_proxy_radius=9.0)


def update(number, values):
    """Change the row of one example."""
    return lambda rows: next(row for row in rows if row["idx"] == number).update(values)


def said(run, **where):
    return "\n".join(map(str, verify(run, **where).findings))


def first(run, note):
    return next(row for row in read_run(run).rows if row["memory_note"] == note)


def test_honest_answers_of_every_kind_are_backed(run):
    assert {row["memory_note"] for row in read_run(run).rows} >= {"kept", "shrunk", "abstained"}
    found = verify(run)
    assert (found.findings, found.undone) == ((), ())
    assert memory_backing(read_run(run)) is None


def test_every_row_inherited_with_a_large_radius(run, forge):
    """The attack: nothing in the rows contradicts it, no vote is touched, and all checksums fit."""
    forge(run, inherit)
    found = verify(run)
    assert len(found.findings) == 12
    told = memory_backing(read_run(run))
    assert told.startswith("The numbers after the memory are not what the memory promised: example ")
    assert "11 more" in told


@pytest.mark.parametrize("note", ["kept", "shrunk", "abstained"])
def test_no_answer_can_be_another(run, note, forge):
    number = first(run, note)["idx"]
    promised = max(row["memory_prediction"] for row in read_run(run).rows)
    changes = [
        {"memory_note": "inherited", "memory_prediction": promised, "memory_radius": 9.0, "memory_proxy_radius": 9.0},
        {"memory_note": "inherited", "memory_prediction": (promised + 1) % 10, "memory_radius": 0.0},
    ]
    if note == "shrunk":
        changes += [{"memory_radius": 1.001 * first(run, note)["memory_radius"]}]
        changes += [{"memory_note": "kept"}, {"memory_note": "inherited"}]
        changes += [{"memory_proxy_radius": 1.001 * first(run, note)["memory_proxy_radius"]}]
    if note == "kept":
        changes += [{"memory_note": "shrunk"}, {"memory_note": "inherited"}]
    for change in changes:
        copy = shutil.copytree(run, run.parent / "forged", dirs_exist_ok=True)
        forge(copy, update(number, change))
        assert f"example {number}: memory" in said(copy), change


def test_an_answer_from_other_votes_is_found(run, made, tmp_path, forge):
    """The promise is there under the same id, and rests on something else."""
    number = first(run, "kept")["idx"]
    stored = read_run(run)
    with Memory.open(made / "memory.sqlite") as memory, Memory.open(tmp_path / "new.sqlite") as new:
        for one in memory.entries():
            own = one.id == number
            new.admit(replace(one, seed=one.seed + 1) if own else one)
    forge(run, memory=stored.description["memory"] | {"generation": None})
    assert f"example {number}: memory kept it, but holds a promise to it from different votes" in said(
        run, memory=tmp_path / "new.sqlite"
    )


def test_a_second_run_of_the_same_inputs_inherits_from_the_first(made, remembering, do, tmp_path, forge):
    """Other votes about stored inputs: the earlier promise is the answer, and backs it with the whole of its region."""
    shutil.copy(made / "memory.sqlite", tmp_path / "memory.sqlite")
    assert do(replace(remembering(tmp_path), seed=7), tmp_path / "again").finished
    rows = read_run(tmp_path / "again").rows
    inherited = [row for row in rows if row["memory_note"] == "inherited"]
    assert inherited
    assert verify(tmp_path / "again").findings == ()
    inputs = read_run(tmp_path / "again").inputs()
    for row in inherited[:3]:
        copy = shutil.copytree(tmp_path / "again", tmp_path / "copy", dirs_exist_ok=True)
        with Memory.open(tmp_path / "memory.sqlite") as memory:
            backed = [*memory.covers(inputs(row["idx"])), memory.find(row["idx"])]
        most = max(one.radius for one in backed if one is not None) * (1 + 1e-12)
        more = {"memory_radius": most, "memory_proxy_radius": max(most, row["memory_proxy_radius"])}
        forge(copy, update(row["idx"], more))
        assert "it claims too much" in said(copy)
    # The first run's answers are still backed by what the memory holds now.
    assert verify(made / "run", memory=tmp_path / "memory.sqlite").findings == ()


@pytest.mark.parametrize("policy", ["abstain", "worst-case"])
def test_under_a_weaker_policy_an_input_has_its_own_promise_and_no_other(remembering, do, tmp_path, policy, forge):
    """Other votes about stored inputs, and an input in the region of another one."""
    asked = replace(remembering(tmp_path), memory_policy=policy)
    assert do(asked, tmp_path / "run").finished
    assert do(replace(asked, seed=7), tmp_path / "again").finished
    assert "inherited" in {row["memory_note"] for row in read_run(tmp_path / "again").rows}
    assert verify(tmp_path / "again").findings == ()
    inputs, (number, found) = read_run(tmp_path / "run").inputs(), (-1, None)
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        for row in read_run(tmp_path / "again").rows:
            if row["memory_note"] == "abstained" and (found := memory.lookup(inputs(row["idx"]))) is not None:
                number = row["idx"]
                break
    assert found is not None
    taken = {"memory_note": "inherited", "memory_prediction": found.prediction}
    forge(tmp_path / "again", update(number, taken | {"memory_radius": 0.0, "memory_proxy_radius": 0.0}))
    assert f"memory inherited it, which policy {policy} does not give" in said(tmp_path / "again")


def test_what_could_not_be_derived_is_said(run, made, tmp_path, forge):
    memory = read_run(run).description["memory"]
    for change, words in (
        ({"memory": memory | {"file": str(tmp_path / "gone.sqlite")}}, "is not at"),
        ({"memory": {"policy": "inherit"}}, "does not say where its memory is"),
        ({"memory": memory | {"generation": "0" * 32}}, "is not the memory that answered"),
        ({"data": str(tmp_path / "gone.npz")}, "--data"),
    ):
        copy = shutil.copytree(run, tmp_path / "copy", dirs_exist_ok=True)
        forge(copy, **change)
        found = verify(copy)
        assert found.ok
        assert found.undone[0].startswith("the memory's columns: ")
        assert words in found.undone[0]
        assert memory_backing(read_run(copy)).startswith("The numbers after the memory were not derived again: ")
        assert not (tmp_path / "gone.sqlite").exists()
    forge(run, memory=memory | {"file": str(tmp_path / "gone.sqlite")})
    assert verify(run, memory=made / "memory.sqlite").undone == ()


def test_another_model_s_memory_backs_nothing(run, forge):
    """The hash is only what the run says, but then the memory is not the one that answered."""
    forge(run, model_hash="0" * 64)
    assert "of a different model" in backing(read_run(run)).undone


def test_a_file_that_is_no_memory_is_not_touched(run, tmp_path, forge):
    victim = tmp_path / "victim"
    victim.write_text("precious " * 1000)
    forge(run, memory=read_run(run).description["memory"] | {"file": str(victim)})
    (found,) = backing(read_run(run)).findings
    assert "not a memory, or is damaged" in found.what
    assert victim.read_text() == "precious " * 1000
    assert not list(tmp_path.glob("victim-*"))


def test_another_region_than_the_votes_give(run, made, tmp_path):
    """Theta and gap give the axes: a memory with others is no backing."""
    shutil.copy(made / "memory.sqlite", tmp_path / "memory.sqlite")
    number = first(run, "kept")["idx"]
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        ((axes,),) = db.execute("SELECT axes FROM entries WHERE id = ?", (number,)).fetchall()
        smaller = (np.frombuffer(axes, "<f8") * 0.5).tobytes()
        db.execute("UPDATE entries SET axes = ? WHERE id = ?", (smaller, number))
    db.close()
    assert "memory" in said(run, memory=tmp_path / "memory.sqlite")


def test_numbers_that_no_memory_backs_say_so_wherever_they_are_printed(run, tmp_path, forge):
    forge(run, inherit)
    words = "are not what the memory promised"
    report = ["report", str(run), "--table", "markdown", "--out", str(tmp_path / "r.html")]
    export = ["export", str(run), "--after-memory", "--out", str(tmp_path / "r.tsv")]
    assert words in CliRunner().invoke(app, report, catch_exceptions=False).stdout
    with pytest.raises(ArgumentError, match="method fixed, which holds for everyone without one: export it as it was"):
        CliRunner().invoke(app, export, catch_exceptions=False)
    forge(run, method="isotropic")
    assert words in CliRunner().invoke(app, export, catch_exceptions=False).stderr
    assert words in (tmp_path / "r.html").read_text()


def test_evidence_quotes_no_other_models_memory(run, tmp_path, remembering, do, forge):
    from anisocert.report import evidence_of

    other = replace(remembering(tmp_path), model_id="another network")
    assert do(other, tmp_path / "other").finished
    row = first(run, "shrunk")
    assert evidence_of(read_run(run), row["idx"]).whole
    forge(run, memory=read_run(run).description["memory"] | {"file": other.memory, "generation": None})
    assert not evidence_of(read_run(run), row["idx"]).whole
