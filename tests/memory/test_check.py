"""A memory that was changed from outside says so."""

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from anisocert.memory import BrokenMemoryError, Conflict, Memory


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.sqlite"


def edit(path, statement, *values):
    with sqlite3.connect(path) as db:
        db.execute(statement, values)
    db.close()


def widen(path, id_, *axes):
    """Larger semi-axes than were promised, with noise that would give them: only the neighbours can tell."""
    edit(path, "UPDATE entries SET axes = ? WHERE id = ?", np.array(axes).tobytes(), id_)
    edit(path, "UPDATE entries SET theta = ? WHERE id = ?", np.full(len(axes), 9, np.float32).tobytes(), id_)


def test_broken_memory_says_so_and_stops(path, proposal, refit_memory):
    with Memory.open(path) as memory:
        for i in range(100):
            memory.admit(proposal(i, i % 2, [3.0 * i, 0], [1, 1.5]))
        assert memory.check().ok
    widen(path, 40, 2.5, 1.0)
    with pytest.raises(BrokenMemoryError, match="row 41 of its entries"):
        Memory.open(path)
    refit_memory(path)
    with Memory.open(path) as memory:
        result = memory.check()
        assert not result.ok
        assert result.conflicts == (Conflict((39, 40), (1, 0)), Conflict((40, 41), (0, 1)))
        with pytest.raises(BrokenMemoryError, match=r"input (39|40), class (0|1), and of input (39|40)"):
            memory.lookup([118.0, 0.0])
        with pytest.raises(BrokenMemoryError):
            memory.admit(proposal(1000, 0, [118.0, 0], [0.1, 0.1]))
        assert len(memory) == 100
        assert memory.lookup([0.0, 0.0]).prediction == 0


def test_check_does_not_trust_what_is_in_memory(path, proposal, refit_memory):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1.5]))
        memory.admit(proposal(1, 1, [3, 0], [1, 1.5]))
        widen(path, 1, 2.0, 2.0)
        assert "row 2 of its entries" in memory.check().damage[0]
        refit_memory(path)
        assert memory.check().conflicts == (Conflict((0, 1), (0, 1)),)


def test_touching_is_a_conflict(path, proposal, refit_memory):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1], 1))
        memory.admit(proposal(1, 1, [2, 0], [0.5, 0.7], 1))
    widen(path, 1, 1.0, 1.0)
    refit_memory(path)
    with Memory.open(path) as memory:
        assert memory.check().conflicts == (Conflict((0, 1), (0, 1)),)


def test_damaged_file(path, proposal):
    with Memory.open(path) as memory:
        for i in range(200):
            memory.admit(proposal(i, 0, np.full(200, float(i)), np.arange(1.0, 201.0)))
    data = bytearray(path.read_bytes())
    for place in range(5 * 16384, len(data), 16384):
        data[place : place + 64] = bytes(64)
    path.write_bytes(data)
    with pytest.raises(BrokenMemoryError):
        Memory.open(path)


@pytest.fixture
def whole(path, proposal):
    """Five entries, far apart, and an abstention."""
    with Memory.open(path) as memory:
        for i in range(5):
            memory.admit(proposal(i, i % 3, [50.0 * i, 0.5], [1, 1 + i]))
        memory.admit(proposal(9, 0, [1000.0, 0]))
        assert memory.check().ok
    return path


EDITS = {
    "class": "UPDATE entries SET prediction = 2, certificate = replace(certificate, '\"prediction\": 0', "
    "'\"prediction\": 2') WHERE id = 0",
    "one column": "UPDATE entries SET votes = 2000 WHERE id = 0",
    "row deleted": "DELETE FROM entries WHERE id = 4",
    "another row deleted": "DELETE FROM entries WHERE id = 2",
    "all deleted": "DELETE FROM entries",
    "numbers exchanged": "UPDATE entries SET number = 1 - number WHERE number > 3",
    "norm": "UPDATE head SET norm = 1",
    "shape": "UPDATE head SET shape = '[1, 2]'",
    "model": "UPDATE head SET model_hash = 'other'",
    "no head": "DELETE FROM head",
    "policy": "UPDATE head SET policy = 'abstain'",
    "submissions": "DELETE FROM submissions WHERE number = 6",
    "alphas": "UPDATE head SET alphas = 0.0",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    "view": "CREATE VIEW v AS SELECT * FROM entries",
    "table": "CREATE TABLE t (x)",
    "index": "CREATE INDEX i ON entries (prediction)",
    "column": "ALTER TABLE entries ADD COLUMN more",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_edits_are_found(whole, statement):
    edit(whole, statement)
    try:
        with Memory.open(whole, read_only=True) as memory:
            assert not memory.check().ok
    except BrokenMemoryError:
        pass


REFITTED = {
    "axes": ("axes", lambda row: (np.frombuffer(row["axes"]) * 0.9).tobytes(), "column radius"),
    "theta smaller": (
        "theta", lambda row: (np.frombuffer(row["theta"], "<f4") * np.float32(0.5)).tobytes(), "2 times",
    ),
    "theta negative": ("theta", lambda row: (-np.frombuffer(row["theta"], "<f4")).tobytes(), "theta positive"),
    "p_a": ("certificate", lambda row: row["certificate"].replace('"p_a": 0.92', '"p_a": 0.95'), "its votes give"),
    "gap": ("certificate", lambda row: row["certificate"].replace('"gap": 1.', '"gap": 2.'), "p_a and p_b give"),
    "alpha": ("certificate", lambda row: row["certificate"].replace('"alpha": 0.001', '"alpha": 0.1'), "column alpha"),
    "votes": ("certificate", lambda row: row["certificate"].replace('_k": 950', '_k": 990'), "votes that one counting"),
    "NaN": ("certificate", lambda row: row["certificate"].replace('"seconds": 0.25', '"seconds": NaN'), "finite"),
    "class": ("prediction", lambda row: 2, "column prediction"),
    "class of none": ("certificate", lambda row: row["certificate"].replace('n": 0', 'n": 7'), "column prediction"),
    "norm": ("certificate", lambda row: row["certificate"].replace('"norm": 2', '"norm": 1'), "a different model"),
    "model": ("model_hash", lambda row: "other", "column model_hash"),
    "note": ("note", lambda row: "inherited", "column note"),
    "radius": ("radius", lambda row: 3.0, "column radius"),
    "proxy radius": ("proxy_radius", lambda row: 3.0, "column proxy_radius"),
    "input": ("center", lambda row: np.float32([0.25, 0.5]).tobytes(), "never submitted"),
}  # fmt: skip


@pytest.mark.parametrize(("column", "change", "what"), REFITTED.values(), ids=REFITTED)
def test_edits_with_fitting_checksums_must_follow_from_the_evidence(whole, refit_memory, column, change, what):
    with sqlite3.connect(whole) as db:
        db.row_factory = sqlite3.Row
        row = db.execute("SELECT * FROM entries WHERE id = 0").fetchone()
        assert change(row) != row[column]
        db.execute(f"UPDATE entries SET {column} = ? WHERE id = 0", (change(row),))
    db.close()
    refit_memory(whole)
    with Memory.open(whole) as memory:
        damage = memory.check().damage
    assert damage
    assert "entry 1" in damage[0] or "an entry" in damage[0]
    assert what in " ".join(damage)


def test_larger_axes_with_all_that_follows_from_them(whole, refit_memory):
    with sqlite3.connect(whole) as db:
        axes = np.frombuffer(db.execute("SELECT axes FROM entries WHERE id = 3").fetchone()[0]) * 1.9
        db.execute(
            "UPDATE entries SET axes = ?, radius = radius * 1.9, proxy_radius = proxy_radius * 1.9 WHERE id = 3",
            (axes.tobytes(),),
        )
    db.close()
    refit_memory(whole)
    with Memory.open(whole) as memory:
        found = memory.check()
    assert found.conflicts == ()
    assert found.damage == ("entry 4, input 3: expected semi-axes of at most gap x theta, got 1.9 times that",)


def test_what_does_not_follow_from_its_evidence_is_not_admitted(proposal):
    from anisocert.errors import ArgumentError

    good = proposal(0, 0, [0, 0], [1, 2])
    with Memory() as memory:
        for bad, what in (
            (replace(good, region=good.region.scaled(1.001)), "at most gap x theta"),
            (replace(good, gap=2 * good.gap), "the gap that p_a and p_b give"),
            (replace(good, p_a=0.99), "p_a = 0.9"),
            (replace(good, bound_k=999, top_votes=999), "votes that one counting gives"),
            (replace(good, prediction=3), "one of 3 classes"),
            (replace(good, alpha=1.5), r"alpha in \(0, 1\)"),
            (replace(good, gap=float("nan")), "finite"),
            (replace(good, theta=good.theta.astype(float)), "float32"),
            (replace(good, bound="none"), "bound"),
            (replace(good, norm=1), "norm 1"),
            (replace(good, id=-1), "id in"),
        ):
            with pytest.raises(ArgumentError, match=what):
                memory.admit(bad)
        assert (len(memory), memory.submissions) == (0, 0)


@pytest.mark.parametrize("bound", ["one-vs-rest", "two-class"])
@pytest.mark.parametrize("stop", [None, "checkpoints", "betting"])
@pytest.mark.parametrize("name", ["gaussian", "mixture", "uniform"])
def test_what_certify_gives_is_admitted(known_shares, bound, stop, name):
    import anisocert as ac

    smoothing = {
        "gaussian": ac.Gaussian(1.0), "uniform": ac.Uniform(1.0), "mixture": ac.GaussianMixture([0.3, 0.7], [1.0, 1.0]),
    }[name]  # fmt: skip
    model = known_shares([0.95, 0.03, 0.02], "uniform" if name == "uniform" else "normal")
    plan = ac.Plan(n0=20, n=1000, bound=bound, stop=stop)
    found = ac.certify(model, np.zeros((2, 3), np.float32), smoothing=smoothing, plan=plan, num_classes=3)
    with Memory() as memory:
        assert [c.note for c in memory.admit_all(found)] == ["kept", "kept"]
        assert memory.check().ok


def everything(path):
    """All that a memory answers, from a copy; None if it says that it is broken."""
    try:
        with Memory.open(path, read_only=True) as memory:
            if not memory.check().ok:
                return None
            promises = [(repr(c), c.region.axes.tobytes(), c.region.center.tobytes()) for c in memory.entries()]
            points = [[50.0 * i, 0.5] for i in range(5)] + [[1000.0, 0.0]]
            answers = [None if (c := memory.lookup(x)) is None else (c.id, c.prediction, c.radius) for x in points]
            found = memory.stats()
            return promises, answers, [memory.attempts(x) for x in points], replace(found, file_bytes=0, index_bytes=0)
    except BrokenMemoryError:
        return None


def test_no_flipped_byte_changes_an_answer(whole, tmp_path):
    """Anywhere in the file: it is found, or it lies where nothing is kept."""
    from anisocert.errors import AnisocertError

    honest, copy = everything(whole), tmp_path / "copy.sqlite"
    assert honest is not None
    data, rng, found = whole.read_bytes(), np.random.default_rng(0), 0
    used = np.flatnonzero(np.frombuffer(data, np.uint8))  # most of a small file is zero
    places = np.concatenate([rng.choice(used, 250, replace=False), rng.integers(0, len(data), 50)])
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.integers(8)
        copy.write_bytes(damaged)
        for log in tmp_path.glob("copy.sqlite-*"):
            log.unlink()
        try:
            answers = everything(copy)
        except AnisocertError:  # no memory, or of another format
            answers = None
        assert answers in (None, honest), f"byte {place}"
        found += answers is None
    assert found > 200
