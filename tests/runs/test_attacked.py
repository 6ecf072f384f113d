"""What an attack measured, kept beside a run: read back as written, and refused where it is not the run's."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from anisocert.errors import ArgumentError
from anisocert.runs import AttackedFirst, read_run, write_attacked
from anisocert.runs.attacked_file import rows_hash
from anisocert.runs.files import ATTACKED, rendered
from anisocert.verify import verify
from anisocert.work import add_to_memory


def measured(run, **changes):
    """A measurement of four inputs of a run at three radii."""
    labels, promised = run.column("label")[:4], run.column("prediction")[:4]
    answers = np.stack([labels, np.where([0, 1, 0, 0], 1 - labels, labels), np.where([0, 1, 1, 0], -1, labels)], 1)
    answers[1, 2] = answers[1, 1]
    made = AttackedFirst(
        radii=np.array([0.0, 0.1, 0.25]), ids=run.column("idx")[:4], labels=labels, answers=answers, promised=promised,
        inside=np.where([0, 0, 0, 1], 1 - promised, promised), n=100, alpha=0.001,
        questions=12, attempts=0, expected=None, seed=0, starts=2, steps=3,
        samples=4, model_hash=run.model_hash, rows_hash=rows_hash(run.description),
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def run(systems, tmp_path):
    return shutil.copytree(systems / "own", tmp_path / "run")


def test_it_is_read_back_as_it_was_written(run):
    assert read_run(run).attacked is None
    made = measured(read_run(run))
    write_attacked(run, made)
    found = read_run(run).attacked
    for name, value in vars(made).items():
        np.testing.assert_array_equal(getattr(found, name), value, name)
    assert verify(run).ok


def test_what_is_counted(run):
    found = measured(read_run(run))
    assert (read_run(run).column("prediction")[:4] != -1).all()
    everyone, nobody = np.ones(4, bool), np.zeros(4, bool)
    assert found.withstood.sum(0).tolist() == [4, 3, 2]
    assert [found.otherwise(i, everyone) for i in range(3)] == [0, 1, 1]
    assert [found.abstained(i, everyone) for i in range(3)] == [0, 0, 1]
    assert found.otherwise(2, nobody) == found.otherwise(2, np.array([1, 0, 1, 1], bool)) == 0
    assert (found.otherwise_inside(), found.abstained_inside()) == (1, 0)
    without = replace(found, promised=np.full(4, -1), inside=np.full(4, -1))
    assert not without.has_region.any()
    assert (without.otherwise_inside(), without.abstained_inside()) == (0, 0)


WRONG = {
    "radii": [
        np.array(radii)
        for radii in ([0.1, 0.2, 0.3], [0.0, 0.2, 0.2], [0.0, 0.1, np.inf], [0.0, 0.1, np.nan], [0.0, 0.1, 2e6])
    ],
    "ids": [np.array([0, 2, 1, 3]), np.array([-1, 0, 1, 2]), np.array([0, 1, 2])],
    "labels": [np.array([-1, 0, 1, 1]), np.array([0, 1, 0, 100_000])],
    "answers": [np.zeros((4, 2), np.int64), np.full((4, 3), -2), np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1] * 3])],
    "promised": [np.full(4, -1), np.full(3, 1)],
    "alpha": [0.0, 1.0, np.nan],
    "n": [0],
    "steps": [-1],
    "seed": [-1],
    "questions": [0],
    "attempts": [-1, 3],
    "expected": [0.1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_no_measurement_says_this(run, name, value):
    with pytest.raises(ArgumentError, match="expected"):
        measured(read_run(run), **{name: value})


HOSTILE = [
    ("radii", [0.0, float("nan"), 1.0]),
    ("radii", [0, 1, 2]),
    ("radii", "0, 0.1, 0.25"),
    ("radii", []),
    ("ids", [0, 1, 2, 2**70]),
    ("ids", [0, 1, 2, True]),
    ("ids", []),
    ("labels", {"0": 1}),
    ("answers", [[0, 0, 0], [0, 0]]),
    ("answers", 5),
    ("answers", [[0.0, 0.0, 0.0]] * 4),
    ("alpha", "0.001"),
    ("alpha", float("nan")),
    ("n", 1e9),
    ("n", None),
    ("model_hash", 3),
    ("rows_hash", ["\ud800"]),
    ("expected", 0),
    ("expected", "0.1"),
    ("attempts", 1.0),
    ("seed", -5),
    ("questions", True),
    ("more", 1),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE, ids=ascii)
def test_a_hostile_file_ends_in_a_sentence(run, name, value):
    write_attacked(run, measured(read_run(run)))
    said = json.loads((run / ATTACKED).read_text())
    (run / ATTACKED).write_text(rendered(said | {name: value}))
    with pytest.raises(ArgumentError, match="repeat that, or remove the file"):
        _ = read_run(run).attacked
    assert [one.where for one in verify(run).findings] == [ATTACKED]


def test_rows_without_a_memorys_answers_are_found_beside_an_attack(systems, forge, tmp_path):
    run = shutil.copytree(systems / "inherit", tmp_path / "run")
    write_attacked(run, measured(read_run(run)))
    forge(run, lambda rows: [row.update(memory_radius=None) for row in rows])
    assert {one.what for one in verify(run).findings} == {"lacks the memory's answer, or its own"}


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"radii": 1' + "0" * 5000 + "}", "\x00", "{}"])
def test_what_is_no_measurement_at_all(run, text):
    (run / ATTACKED).write_text(text)
    with pytest.raises(ArgumentError, match="is not what anisocert attack --first writes"):
        _ = read_run(run).attacked


def test_a_changed_byte_is_seen(run):
    write_attacked(run, measured(read_run(run)))
    text = (run / ATTACKED).read_text()
    (run / ATTACKED).write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ArgumentError, match="its own checksum"):
        _ = read_run(run).attacked


def test_links_and_huge_files_are_not_opened(run, tmp_path):
    write_attacked(run, measured(read_run(run)))
    (run / ATTACKED).rename(tmp_path / "elsewhere.json")
    (run / ATTACKED).symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ArgumentError, match="is a link"):
        _ = read_run(run).attacked
    (run / ATTACKED).unlink()
    with (run / ATTACKED).open("wb") as file:
        os.truncate(file.fileno(), 10**9)
    with pytest.raises(ArgumentError, match="expected 32,000,000 at most"):
        _ = read_run(run).attacked


@pytest.mark.parametrize(
    "changes", [{"model_hash": "another"}, {"rows_hash": "another"}, {"ids": np.array([0, 1, 2, 999])}]
)
def test_another_runs_is_refused(run, changes):
    write_attacked(run, measured(read_run(run), **changes))
    with pytest.raises(ArgumentError, match="is of other rows, or of another network: repeat"):
        _ = read_run(run).attacked
    assert not verify(run).ok


def test_labels_and_promises_are_the_rows_own(run):
    one = measured(read_run(run))
    labels = 1 - one.labels
    for changes in (
        {"labels": labels, "answers": np.repeat(labels[:, None], 3, 1)}, {"promised": 1 - one.promised},
        {"promised": np.full(4, -1), "inside": np.full(4, -1)},
    ):  # fmt: skip
        write_attacked(run, replace(one, **changes))
        with pytest.raises(ArgumentError, match="is of other rows"):
            _ = read_run(run).attacked


def test_classes_are_the_runs_own(run):
    one = measured(read_run(run))
    for changes in ({"inside": np.array([0, 1, 2, 0])}, {"answers": np.where(one.answers < 0, 7, one.answers)}):
        write_attacked(run, replace(one, **changes))
        with pytest.raises(ArgumentError, match="has answers beyond the run's 2 classes: repeat"):
            _ = read_run(run).attacked


def test_errors_are_told_exactly_where_one_classifier_answers(run, systems, tmp_path):
    write_attacked(run, replace(measured(read_run(run)), attempts=5, expected=0.005))
    with pytest.raises(ArgumentError, match="tells of errors"):
        _ = read_run(run).attacked
    fixed = shutil.copytree(systems / "fixed", tmp_path / "fixed")
    write_attacked(fixed, measured(read_run(fixed)))
    with pytest.raises(ArgumentError, match="does not tell which errors"):
        _ = read_run(fixed).attacked


@pytest.mark.parametrize(("expected", "ok"), [(0.005, False), (0.5, True)])
def test_verify_reports_what_errors_do_not_explain(systems, tmp_path, expected, ok):
    fixed = shutil.copytree(systems / "fixed", tmp_path / "fixed")
    stored = read_run(fixed)
    one = measured(stored, attempts=10, expected=expected)
    write_attacked(fixed, replace(one, inside=np.where(one.has_region, 1 - one.promised, -1)))
    lost = read_run(fixed).attacked.otherwise_inside()
    assert lost >= 2
    found = verify(fixed)
    assert read_run(fixed).attacked.failed != ok
    said = f"contradicts the run: {lost} of {lost} regions were answered with another class inside, where errors lead"
    assert [str(one)[: len(ATTACKED) + 2 + len(said)] for one in found.findings] == [f"{ATTACKED}: {said}"] * (not ok)
    assert any("the attack was not repeated" in note for note in found.notes)
    assert not found.undone


def test_a_memory_that_answers_later_makes_it_stale(run, systems, tmp_path):
    import anisocert as ac

    write_attacked(run, measured(read_run(run)))
    x = np.load(systems / "stripes.npz")["x"]
    with ac.Memory.open(tmp_path / "memory.sqlite") as memory:
        add_to_memory(run, memory, dict(enumerate(x)))
    with pytest.raises(ArgumentError, match="is of other rows"):
        _ = read_run(run).attacked


def test_a_new_run_in_the_folder_begins_without_it(run):
    from anisocert.runs.folder import clear

    write_attacked(run, measured(read_run(run)))
    clear(run)
    assert not (run / ATTACKED).exists()
