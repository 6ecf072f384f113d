"""Runs that were tampered with, by accident or so that the checksums fit, and the truth beside them."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from scipy import stats

from anisocert import Average, Fixed, Gaussian, Memory, Plan, Uniform, certify
from anisocert.data import digits
from anisocert.engine import Network, Numerics
from anisocert.errors import ArgumentError
from anisocert.models import build, save
from anisocert.runs.files import write_description
from anisocert.runs.loading import examples_hash
from anisocert.runs.stored import read_run
from anisocert.train import Cohen, Sgd, train
from anisocert.verify.recounting import other_versions, pick, recount
from anisocert.verify.verifying import verify
from anisocert.work.memory import add_to_memory

THETA = np.random.default_rng(0).uniform(0.1, 0.4, (1, 8, 8))
RUNS = {
    "fixed": (Gaussian(0.25), Fixed(), Plan(n0=20, n=400)),
    "anisotropic": (Gaussian(0.25), Average(THETA), Plan(n0=20, n=300, bound="two-class")),
    "l1": (Uniform(0.5), Fixed(), Plan(n0=20, n=300)),
    "checkpoints": (Gaussian(0.25), Fixed(), Plan(n0=20, n=1000, bound="two-class", stop="checkpoints")),
    "betting": (Gaussian(0.25), Fixed(), Plan(n0=20, n=1000, stop="betting")),
    "target": (Gaussian(0.25), Fixed(), Plan(n0=20, n=1000, target_radius=0.2)),
    "gives-up": (Gaussian(0.25), Fixed(), Plan(n0=20, n=1000, early_abstain=True)),
}


@pytest.fixture(scope="module")
def made(write_run, tmp_path_factory) -> Path:
    """Runs of a real network on real digits, some of which it does not know."""
    folder, data = tmp_path_factory.mktemp("made"), digits("train")
    torch.manual_seed(0)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    train(model, data, Cohen(), Gaussian(0.25), sgd=Sgd.suited(len(data), 3), seed=0)
    known = {"architecture": "small-cnn", "num_classes": 10, "mean": data.mean, "std": data.std}
    save(model, folder / "net.safetensors", known)
    for name, (smoothing, method, plan) in RUNS.items():
        tests = digits("test").subset(most=10)
        network = Network(model.eval(), 10, numerics=Numerics(precision="float32", compile=False, rows=96))
        found = certify(network, tests.x, ids=tests.ids.tolist(), smoothing=smoothing, method=method, plan=plan, seed=3)
        described = {
            "model": "../net.safetensors", "method": method.name,
            "sigma": float(smoothing.theta), "n0": plan.n0, "n": plan.n, "alpha": plan.alpha, "bound": plan.bound,
            "stop": None if name == "target" else plan.stop, "target_radius": plan.target_radius, "seed": 3,
            "num_classes": 10, "device": "cpu", "numerics": network.numerics, "max": len(tests),
            "inputs": len(tests), "data_hash": examples_hash(tests),
            "average_of": "a run" if name == "anisotropic" else None,
        }  # fmt: skip
        write_run(folder / name, found, tests.y, **described)
    return folder


@pytest.fixture
def run(made, tmp_path, request) -> Path:
    """A copy of a run, which may be tampered with."""
    name = getattr(request, "param", "fixed")
    shutil.copy(made / "net.safetensors", tmp_path)
    return Path(shutil.copytree(made / name, tmp_path / name))


def said(folder: Path) -> str:
    return "\n".join(map(str, verify(folder).findings))


def certified(rows) -> dict:
    return next(row for row in rows if row["prediction"] >= 0)


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_an_honest_run_has_nothing_wrong(run):
    found = verify(run)
    assert found.ok, said(run)
    rows = read_run(run).table.to_pylist()
    assert (found.files, found.rows, found.notes) == (2, len(rows), ())
    assert any(row["prediction"] >= 0 for row in rows)


@pytest.mark.parametrize("run", ["fixed", "l1"], indirect=True)
def test_what_is_recomputed_is_the_textbook_formula(run, forge):
    """Clopper-Pearson by scipy.stats, the quantile by its normal distribution: verify agrees with these radii alone."""

    def by_the_book(rows):
        for row in rows:
            k, n = row["bound_k"], row["bound_n"]
            p = 0.0 if k == 0 else stats.beta.ppf(0.001, k, n - k + 1)
            gap = max(stats.norm.ppf(p) if row["norm"] == "l2" else 2 * p - 1, 0.0)
            assert row["radius"] <= gap * row["sigma"]
            row["radius"] = row["proxy_radius"] = gap * row["sigma"] * (1 - 2e-10)
            row["gap"], row["p_a"], row["p_b"] = gap * (1 - 1e-10), p * (1 - 1e-10), (1 - p) * (1 + 1e-10)

    forge(run, by_the_book)
    assert said(run) == ""
    forge(run, lambda rows: [row.update(radius=row["radius"] * (1 + 1e-6)) for row in rows])
    wrong = verify(run).findings
    assert len(wrong) == sum(row["prediction"] >= 0 for row in read_run(run).table.to_pylist())
    assert all("claims too much" in finding.what for finding in wrong)


@pytest.mark.parametrize("name", ["certificates.parquet", "theta/theta.safetensors", "run.json"])
def test_any_flipped_bit_is_found(run, name):
    honest = (run / name).read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(honest), 60, replace=False):
        flipped = bytearray(honest)
        flipped[place] ^= 1 << int(rng.integers(8))
        (run / name).write_bytes(flipped)
        findings = verify(run).findings
        assert any(finding.where == name for finding in findings), (place, findings)
    (run / name).write_bytes(honest)
    assert verify(run).ok


@pytest.mark.parametrize("column", ["top_votes", "votes", "radius", "gap"])
def test_a_bit_flipped_in_a_value_is_found_with_and_without_checksums(run, column, forge):
    kind = np.float64 if column in ("radius", "gap") else np.int64
    number = certified(read_run(run).table.to_pylist())["idx"]
    for bit in (0, 3, 20, 44):
        copy = shutil.copytree(run, run.parent / f"{column}-{bit}")

        def flip(rows, bit=bit):
            row = next(row for row in rows if row["idx"] == number)
            raw = np.array([row[column]], kind).view(np.uint64) ^ np.uint64(1 << bit)
            row[column] = raw.view(kind)[0].item()

        before = json.loads((copy / "run.json").read_text())
        forge(copy, flip)
        change = (
            certified(read_run(copy).table.to_pylist())[column] / certified(read_run(run).table.to_pylist())[column]
        )
        # A gap that grew in its last digits may be another machine's; a claim that fell by 1e-9 is no claim too many.
        if change < 1 - 1e-9 or change > (1 + 1e-13 if column == "gap" else 1):
            assert f"example {number}: " in said(copy), (bit, change)
        else:
            assert column in ("gap", "radius")
            assert bit < 44
        write_description(copy, before)
        assert "certificates.parquet: is not the file" in said(copy)


@pytest.mark.parametrize("factor", [2.0, 1.01, 1 + 1e-10, np.nextafter(1.0, 2)])
def test_an_inflated_radius_is_found_when_checksums_fit(run, factor, forge):
    forge(run, lambda rows: certified(rows).update(radius=certified(rows)["radius"] * factor))
    (finding,) = verify(run).findings
    assert finding.what.startswith("radius is ")
    assert finding.what.endswith("it claims too much")


@pytest.mark.parametrize("run", ["fixed", "anisotropic", "checkpoints", "betting"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda row: {"radius": row["radius"] * (1 - 1e-6)}, "radius is"),
        (lambda row: {"proxy_radius": row["proxy_radius"] * 1.000001}, "proxy_radius is"),
        (lambda row: {"gap": row["gap"] * 1.01, "radius": row["radius"] * 1.01}, "gap is"),
        (lambda row: {"gap": row["gap"] * 1.01, "radius": row["radius"] * 1.01}, "radius is"),
        (lambda row: {"p_a": row["p_a"] * 1.0001}, "p_a is"),
        (lambda row: {"p_b": row["p_b"] * 0.9999}, "p_b is"),
        (lambda row: {"p_a": float("nan")}, "lacks p_a"),
        (lambda row: {"top_votes": row["votes"] + 1}, "votes for its class"),
        (lambda row: {"bound_k": row["bound_k"] - 1}, ""),
        (lambda row: {"votes": 10**6, "bound_n": 10**6}, "of at most"),
        (lambda row: {"runner_up_votes": row["bound_n"]}, "do not make"),
        (lambda row: {"alpha": 0.01}, "alpha is 0.01"),
        (lambda row: {"num_classes": 11}, "num_classes is 11"),
        (lambda row: {"bound": "none"}, "bound is 'none'"),
        (lambda row: {"stop": "sometimes"}, "stop is 'sometimes'"),
        (lambda row: {"norm": "l1"}, "norm is 'l1'"),
        (lambda row: {"method": "other"}, "method is 'other'"),
        (lambda row: {"seed": 4}, "seed is 4"),
        (lambda row: {"correct": not row["correct"]}, "correct is"),
        (lambda row: {"prediction": 10, "correct": False}, "prediction is 10"),
        (lambda row: {"prediction": -1, "correct": False}, "prediction is -1, but votes give a gap"),
        (lambda row: {"theta_min": row["theta_min"] * 1.0001}, "theta_min is"),
        (lambda row: {"theta_max": row["theta_max"] * 0.9999}, "theta_max is"),
        (lambda row: {"theta_geomean": row["theta_geomean"] * 1.0001}, "theta_geomean is"),
        (lambda row: {"idx": 999_999}, "has no theta"),
        (lambda row: {"label": None}, "lacks label"),
    ],
)
def test_a_row_that_contradicts_itself_is_found_when_checksums_fit(run, changes, words, forge):
    forge(run, lambda rows: certified(rows).update(changes(certified(rows))))
    assert words in said(run)
    assert not verify(run).ok


@pytest.mark.parametrize("run", ["fixed", "checkpoints"], indirect=True)
def test_no_column_of_a_claim_can_be_changed_and_no_value_confuses(run, forge):
    """Every value of a certified row but what it cost, one at a time, becomes something else; checksums fit."""
    honest = pq.read_table(run / "certificates.parquet")
    own = certified(honest.to_pylist())
    free = {"seconds", "reason"}
    free |= {"runner_up_votes"} if own["bound"] == "one-vs-rest" else set()
    free |= {"top_votes"} if own["votes"] > own["bound_n"] else set()
    for name, old in own.items():
        if isinstance(old, bool):
            values = [None, not old]
        elif isinstance(old, int):
            values = [None, 0, old + 1, 2**40] + [-5] * (name != "seed")
        elif isinstance(old, float):
            values = [None, np.nan, -1.0, old * 1.001, old * 0.999, 1e300]
        elif old is None and not pa.types.is_string(honest.schema.field(name).type):
            values = [None, 1, 0]
        else:
            values = [None, "l1"]
        for value in values:
            forge(run, lambda rows, name=name, value=value: certified(rows).update({name: value}))
            found = verify(run)
            assert name in free or found.ok == (value == old), (name, old, value)
            pq.write_table(honest, run / "certificates.parquet")
            forge(run)
    assert verify(run).ok


def test_an_abstention_cannot_become_a_certificate(run, forge):
    def answer(rows):
        row = next(row for row in rows if row["prediction"] == -1)
        row.update(prediction=row["label"], correct=True, gap=1.0, radius=0.25, proxy_radius=0.25, p_a=0.9, p_b=0.1)

    rows = read_run(run).table.to_pylist()
    assert any(row["prediction"] == -1 for row in rows), "the fixture has an abstention"
    forge(run, answer)
    assert all(
        word in said(run) for word in ("p_a is 0.9", "gap is 1.0", "radius is 0.25", "but votes give a gap of 0")
    )


def test_stopping_where_the_plan_does_not_look_certifies_nothing(run, forge):
    """Peeking: votes counted until they look good are worth less than a fixed number of them."""

    def peek(rows):
        row = certified(rows)
        row.update(votes=390, bound_n=390, top_votes=390, bound_k=390, runner_up_votes=0)
        p = 0.001 ** (1 / 390)
        gap = float(stats.norm.ppf(p)) * (1 - 1e-10)
        row.update(p_a=p * (1 - 1e-10), p_b=1 - p, gap=gap, radius=gap * 0.25, proxy_radius=gap * 0.25)

    forge(run, peek)
    assert "p_a is 0.98" in said(run)
    assert "votes give 0.0: it claims too much" in said(run)


@pytest.mark.parametrize("run", ["anisotropic"], indirect=True)
def test_a_runner_up_too_small_for_the_votes_is_found(run, forge):
    """The two-class bound rests on it."""
    forge(run, lambda rows: [row.update(runner_up_votes=0) for row in rows if row["bound_k"] < row["bound_n"]])
    assert "do not make 300" in said(run)


def test_theta(run, forge_theta):
    number = str(certified(read_run(run).table.to_pylist())["idx"])

    def put(value):
        forge_theta(run, lambda thetas: thetas.update({number: value}))
        return said(run)

    assert "radius is" in put(np.array([0.2], np.float32))
    assert "theta_min is" in put(np.array([0.2501], np.float32))
    assert "theta is not positive" in put(np.array([-0.25], np.float32))
    assert "theta is not positive" in put(np.array([np.nan], np.float32))
    assert "in float32" in put(np.array([0.25], np.float64))
    assert put(np.array([0.25], np.float32)) == ""
    forge_theta(run, lambda thetas: thetas.update({"77": thetas[number]}))
    assert said(run) == "example 77: has a theta but no row"
    forge_theta(run, lambda thetas: [thetas.pop("77"), thetas.pop(number)])
    assert said(run) == f"example {number}: has no theta"
    forge_theta(run, lambda thetas: thetas.clear())
    assert said(run) == "theta: is missing, so no radius can be recomputed: verify the run itself"


@pytest.mark.parametrize("run", ["anisotropic"], indirect=True)
def test_theta_of_another_shape_than_the_inputs(run, forge, forge_theta):
    """What is left of it would have another volume."""
    forge(run, input_shape=[1, 8, 8])
    assert said(run) == ""
    forge_theta(run, lambda thetas: thetas.update({name: value.ravel() for name, value in thetas.items()}))
    assert "theta has shape (64,), the run's inputs have [1, 8, 8]" in said(run)


def test_a_theta_file_that_nobody_vouches_for(run):
    save_file({"0": np.array([5.0], np.float32)}, run / "theta" / "z.safetensors")
    assert said(run).startswith("theta/z.safetensors: is not among the run's files")


def test_missing_and_unreadable_files(run, forge):
    (run / "theta" / "theta.safetensors").unlink()
    assert said(run) == "theta/theta.safetensors: is missing"
    (run / "certificates.parquet").write_bytes(b"PAR1 nothing PAR1")
    (run / "theta" / "theta.safetensors").write_bytes(b"nothing")
    forge(run)
    assert said(run).startswith("certificates.parquet: cannot be read")


def test_a_run_json_that_says_something_else(run):
    honest = (run / "run.json").read_text()
    for text, words in {
        honest.replace('"n": 400', '"n": 401'): "its own checksum",
        honest.replace('"n": 400', '"n":  400'): "its own checksum or its layout",
        honest + " ": "its own checksum or its layout",
        honest[:-20]: "is not JSON",
        "[]": "does not say which files",
        "{}": "does not say which files",
    }.items():
        (run / "run.json").write_text(text)
        assert "run.json: " in said(run)
        assert words in said(run)
    for changes, words in {
        "n": (500, "p_a is"),
        "alpha": (0.002, "alpha is 0.001, the run's is 0.002"),
        "bound": ("both", "does not say which plan"),
        "files": ({}, "has no checksum of certificates.parquet"),
    }.items():
        write_description(run, json.loads(honest) | {changes: words[0]})
        assert words[1] in said(run)
    outside = json.loads(honest)
    write_description(run, outside | {"files": outside["files"] | {"../net.safetensors": "0"}})
    assert "outside the run" in said(run)
    with pytest.raises(ArgumentError, match="finished run"):
        verify(run.parent)


@pytest.mark.parametrize(
    "said_plan",
    [
        {"simultaneous": True, "inputs": 0}, {"simultaneous": True, "inputs": -3},
        {"simultaneous": True, "inputs": "x"},
        {"simultaneous": True, "inputs": 10**400}, {"lifetime_from": "x"}, {"lifetime_from": 10**30}, {"n": []},
        {"lifetime": True}, {"bound": []}, {"alpha": {}}, {"stop": {}}, {"target_radius": "far"},
    ],
)  # fmt: skip
def test_a_plan_that_is_none_is_a_finding(run, said_plan, forge):
    """Whoever writes a run may write anything."""
    forge(run, **said_plan)
    assert "run.json: does not say which plan the votes followed" in said(run)


def test_alpha_shared_among_more_inputs_than_anybody_has_is_a_finding(run, forge):
    forge(run, simultaneous=True, inputs=10**15)
    assert "certificates.parquet: has 10 rows, the run's inputs are 1000000000000000" in said(run)


def test_columns(run, forge):
    table = pq.read_table(run / "certificates.parquet")
    pq.write_table(table.drop_columns(["gap"]), run / "certificates.parquet")
    forge(run)
    assert said(run) == "certificates.parquet: lacks gap"
    assert verify(run).run is None  # so that nobody goes on to draw its votes again
    stored = read_run(run)
    number = int(stored.column("idx")[0])
    with pytest.raises(ArgumentError, match=rf"of a certificate of example {number}, got none of \['gap'\]"):
        stored.certificate(number, stored.inputs()(number))
    pq.write_table(table.set_column(6, "gap", pa.array(["much"] * 10)), run / "certificates.parquet")
    forge(run)
    assert "whose type is not" in said(run)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), run / "certificates.parquet")
    forge(run)
    assert "certificates.parquet: has 11 rows, the run's inputs are 10" in said(run)
    assert f"example {table['idx'][0]}: has 2 rows" in said(run)


@pytest.fixture
def remembered(run, tmp_path) -> Path:
    tests = digits("test").subset(most=10)
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        add_to_memory(run, memory, dict(zip(tests.ids.tolist(), tests.x, strict=True)))
    return run


def test_memory_columns(remembered, forge):
    assert verify(remembered).ok, said(remembered)
    honest = pq.read_table(remembered / "certificates.parquet").to_pylist()

    def changed(**values):
        forge(remembered, lambda rows: [old.update(new) for old, new in zip(rows, honest, strict=True)])
        forge(remembered, lambda rows: certified(rows).update(values))
        return said(remembered)

    own = certified(honest)
    assert own["memory_note"] == "kept"
    assert "it claims too much" in changed(memory_radius=own["radius"] * (1 + 1e-10), memory_proxy_radius=9.0)
    assert "memory kept a radius of" in changed(memory_radius=own["radius"] / 2)
    assert "memory shrunk it, but holds a region" in changed(memory_note="shrunk", memory_radius=own["radius"] / 2)
    assert "it claims too much" in changed(memory_note="inherited", memory_radius=9.0, memory_proxy_radius=9.0)
    assert "memory kept the answer" in changed(memory_prediction=(own["prediction"] + 1) % 10)
    assert "memory abstained, with answer" in changed(memory_note="abstained")
    assert "inherited an abstention" in changed(memory_note="inherited", memory_prediction=-1)
    assert "memory_note is 'forgotten'" in changed(memory_note="forgotten")
    assert "memory answers with radius" in changed(memory_radius=-1.0)
    assert "lacks the memory's answer" in changed(memory_note=None)
    assert changed() == ""
    table = pq.read_table(remembered / "certificates.parquet")
    at = table.column_names.index("memory_radius")
    pq.write_table(table.set_column(at, "memory_radius", pa.array(["far"] * 10)), remembered / "certificates.parquet")
    forge(remembered)
    assert said(remembered) == "certificates.parquet: has memory_radius as string, a run's is double"
    pq.write_table(table, remembered / "certificates.parquet")
    forge(remembered, memory={"policy": "worst-case"})
    assert "policy worst-case does not give" in changed(memory_note="shrunk")
    forge(remembered, memory=None)
    assert "not its policy" in said(remembered)


@pytest.mark.parametrize("memory", [7, "a file", ["a file"], {"policy": ["inherit"]}, {"policy": "inherit", "file": 7}])
def test_a_memory_that_is_none(remembered, memory, tmp_path, forge):
    forge(remembered, memory=memory)
    found = verify(remembered, tmp_path / "memory.sqlite")
    assert ("not its policy" in said(remembered)) == (memory != {"policy": "inherit", "file": 7})
    assert found.ok == (memory == {"policy": "inherit", "file": 7})


def test_a_memory_s_run_without_the_name_of_its_network(remembered, forge):
    forge(remembered, model_hash=None)
    assert "model" in "".join(verify(remembered).undone)


def test_an_interrupted_addition_is_no_damage(remembered):
    described = json.loads((remembered / "run.json").read_text())
    old, new = "0" * 64, described["files"]["certificates.parquet"]
    files = described["files"] | {"certificates.parquet": old}
    write_description(remembered, described | {"files": files, "next": {"certificates.parquet": new}})
    found = verify(remembered)
    assert found.ok
    assert "interrupted" in found.notes[0]


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_votes_drawn_again_are_the_same(run):
    stored = read_run(run)
    ids = pick(stored, 3)
    assert len(set(ids)) == 3
    assert set(ids) <= set(stored.column("idx").tolist())
    done = []
    assert list(recount(stored, ids, on_votes=lambda _, votes: done.append(int(votes.sum())))) == []
    assert done == [row["votes"] for row in stored.table.to_pylist() if row["idx"] in ids]
    assert pick(stored, 99) == sorted(stored.column("idx").tolist())


def test_votes_that_nobody_cast_are_found_by_drawing_them_again(run, forge):
    """The whole row made to fit: only the network can tell."""

    def more(rows):
        row = certified([row for row in rows if row["bound_k"] < row["bound_n"]])
        k, n = row["bound_k"] + 1, row["bound_n"]
        row.update(bound_k=k, top_votes=k, runner_up_votes=min(row["runner_up_votes"], n - k))
        p = stats.beta.ppf(0.001, k, n - k + 1) * (1 - 1e-10)
        gap = float(stats.norm.ppf(p)) * (1 - 1e-10)
        row.update(p_a=p, p_b=1 - p, gap=gap, radius=gap * 0.25 * (1 - 1e-10), proxy_radius=gap * 0.25 * (1 - 1e-10))

    forge(run, more)
    assert verify(run).ok
    wrong = list(recount(read_run(run), pick(read_run(run), 10)))
    assert len({finding.where for finding in wrong}) == 1
    assert wrong[0].what.startswith("bound_k is ")


@pytest.mark.parametrize("run", RUNS, indirect=True)
def test_fresh_votes_do_not_contradict_what_is_right(run):
    stored, drawn = read_run(run), list[int]()
    ids = stored.column("idx").tolist()
    assert list(recount(stored, ids, on_votes=lambda _, votes: drawn.append(votes.sum()), fresh=(500, 11))) == []
    assert drawn == [500 if row["votes"] else 0 for row in stored.table.to_pylist()]


def test_fresh_votes_contradict_a_bound_that_luck_has_made(run, forge):
    """As by a theta that was chosen by its own votes, of which a recount says that they are the network's."""
    lucky = []

    def all_of_them(rows):
        row = next(row for row in rows if row["prediction"] >= 0 and 0.6 < row["bound_k"] / row["bound_n"] < 0.96)
        lucky.append(row["idx"])
        row["p_a"] = float(stats.beta.ppf(0.001, row["bound_n"], 1))
        row["p_b"] = 1 - row["p_a"]

    forge(run, all_of_them)
    stored = read_run(run)
    found = list(recount(stored, stored.column("idx").tolist(), fresh=(4000, 11)))
    assert {one.where for one in found} == {f"example {lucky[0]}"}
    assert re.match(r"p_a is 0.98\d*, fresh votes \(\d+ of 4000 for class \d\) allow 0.\d+ at most", found[0].what)


@pytest.mark.parametrize("run", ["anisotropic"], indirect=True)
def test_fresh_votes_contradict_another_answer(run, forge):
    """Where two classes have bounds of their own, the other one's too."""
    forge(run, lambda rows: certified(rows).update(prediction=(certified(rows)["prediction"] + 1) % 10))
    stored = read_run(run)
    number = certified(stored.table.to_pylist())["idx"]
    assert [found.what[:4] for found in recount(stored, [number], fresh=(500, 11))] == ["p_a ", "p_b "]
    forge(run, lambda rows: next(row for row in rows if row["idx"] == number).update(prediction=10))
    (found,) = recount(read_run(run), [number], fresh=(500, 11))
    assert found.what == "prediction is 10, the network has 10 classes"


def test_recount_finds_another_answer_label_theta_and_network(run, forge, forge_theta):
    stored = read_run(run)
    ids = pick(stored, 10)
    other = next(row["idx"] for row in stored.table.to_pylist() if row["prediction"] >= 0)

    def turn(rows):
        row = next(row for row in rows if row["idx"] == other)
        row.update(prediction=(row["prediction"] + 1) % 10, label=(row["prediction"] + 1) % 10, correct=True)

    forge(run, turn)
    assert verify(run).ok
    told = " ".join(map(str, recount(read_run(run), ids)))
    assert "votes drawn again select" in told
    assert "label is" in told
    others = [number for number in stored.column("idx").tolist() if number != other]
    assert "label is" in " ".join(map(str, recount(read_run(run), others[:1]))), "labels cost nothing to compare"
    forge_theta(run, lambda thetas: thetas.update({name: np.float32(4) * value for name, value in thetas.items()}))
    assert len(list(recount(read_run(run), ids))) > 5
    forge_theta(run, lambda thetas: thetas.update({str(other): np.ones((2, 2), np.float32)}))
    assert "of its input's shape" in " ".join(map(str, recount(read_run(run), [other])))
    torch.manual_seed(1)
    data = digits("train")
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    known = {"architecture": "small-cnn", "num_classes": 10, "mean": data.mean, "std": data.std}
    save(model, run.parent / "other.safetensors", known)
    (finding,) = recount(read_run(run).moved(model=str(run.parent / "other.safetensors")), ids)
    assert "a different network" in finding.what


def test_recount_finds_examples_that_were_left_out(run, forge, forge_theta):
    """The input that abstains is the one to lose."""
    stored = read_run(run)
    lost = next(row["idx"] for row in stored.table.to_pylist() if row["prediction"] == -1)
    kept = next(row["idx"] for row in stored.table.to_pylist() if row["prediction"] >= 0)
    forge_theta(run, lambda thetas: thetas.pop(str(lost)))
    forge(run, lambda rows: rows.remove(next(row for row in rows if row["idx"] == lost)))
    assert said(run) == "certificates.parquet: has 9 rows, the run's inputs are 10"
    forge(run, inputs=9)
    assert said(run) == ""
    (finding,) = recount(read_run(run), [kept])
    assert str(finding) == f"certificates.parquet: has no rows of examples {lost}"
    forge(run, max=9)
    (finding,) = recount(read_run(run), [kept])
    assert "its data_hash is not that of digits" in str(finding)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"alpha": None}, "lacks alpha"),
        ({"bound_n": None}, "lacks bound_n"),
        ({"prediction": None}, "lacks prediction"),
        ({"bound_n": -5}, "and a bound after -5, of at most 400"),
        ({"votes": 10**15}, "has 1000000000000000 votes"),
    ],
)
@pytest.mark.parametrize("fresh", [None, (50, 11)])
def test_votes_of_a_row_that_says_no_counting_are_not_drawn_again(run, forge, values, words, fresh):
    forge(run, lambda rows: rows[0].update(values))
    stored, drawn = verify(run).run, []
    ids = stored.column("idx").tolist()[:2]
    wrong = list(recount(stored, ids, on_votes=lambda number, _: drawn.append(number), fresh=fresh))
    assert {finding.where for finding in wrong} == {f"example {ids[0]}"}
    assert words in wrong[0].what
    assert drawn == ids[1:]


def test_recount_says_what_it_needs(run, forge):
    forge(run, device="cuda", versions={"torch": "1.0", "python": None})
    stored = read_run(run)
    assert len(other_versions(stored)) == 1
    assert other_versions(stored)[0].startswith("torch 1.0 made the run, here it is ")
    with pytest.raises(ArgumentError, match="expected a cuda device, on which the run's votes were drawn, got cpu"):
        list(recount(stored, [0], device="cpu"))
    described = json.loads((run / "run.json").read_text())
    write_description(run, {name: value for name, value in described.items() if name != "model"})
    with pytest.raises(ArgumentError, match="how to repeat it"):
        list(recount(read_run(run), [0]))
