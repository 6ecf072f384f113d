from types import SimpleNamespace

import numpy as np
import pytest

import codes
import one_system
from anisocert.errors import ArgumentError
from anisocert.evaluate import compare
from anisocert.geometry import Region
from codes import Steps, box_radius, budgets, lines


def test_a_box_fits_up_to_its_corners():
    rng = np.random.default_rng(0)
    for _ in range(50):
        axes, a = rng.uniform(0.1, 3, 4), rng.uniform(0.1, 3, 4)
        r, region = box_radius(axes, a), Region(np.zeros(4), axes, 2)
        corners = r * a * rng.choice([-1, 1], (20, 4))
        assert (region.gauges(corners) <= 1).all()
        assert not region.contains(corners[0] * 1.0001)


def test_budgets_are_one_in_the_middle():
    a = budgets((2, 8, 8), 4.0)
    assert a.shape == (2, 8, 8)
    assert a[0, 2:6, 2:6].tolist() == np.ones((4, 4)).tolist()
    assert (a == 1).sum() == 32
    assert set(a.ravel()) == {1.0, 4.0}


def test_wrong_answers_are_not_certified_at_zero():
    assert lines({"one": np.array([-1.0, 0.0, 0.5, 1.0])}, (0.0, 0.5))[1].split() == ["one", "75.0", "50.0"]


ASKED = {"data": "digits", "skip": 1, "max": 3, "n": 100, "seed": 0}
USUAL = {"n0": 100, "bound": "one-vs-rest", "alpha": 0.001}


@pytest.fixture
def runs(run, columns, monkeypatch):
    """Finished runs of fixed noise, by their folder: of both levels, of other images, and by other plans."""
    made = {}
    others = {"c": {"skip": 2}, "d": {"alpha": 0.3}, "e": {"bound": "two-class"}, "f": {"stop": "checkpoints"}}
    for folder, sigma in (("a", 0.5), ("b", 0.25), *((name, 0.25) for name in others)):
        said = ASKED | USUAL | others.get(folder, {})
        made[folder] = run(columns("fixed", [0.5]), folder, model=f"{folder}.safetensors", **said)
        made[folder].description.update(method="fixed", sigma=sigma)
    monkeypatch.setattr(codes, "read_run", lambda folder: made[folder.name])
    return made


def test_runs_that_are_there_are_taken_with_their_networks(runs, tmp_path, monkeypatch):
    asked = SimpleNamespace(out=tmp_path, scalars="0.25,0.5", runs=("a", "b"), networks=None, budgets=None, mean=None,
                            sigma=0.5, selector=None, fixed=None, **ASKED)  # fmt: skip
    monkeypatch.setattr(codes, "described", lambda path: {"sigma": {"a": 0.5, "b": 0.25}[path.stem]})
    loaded = []
    monkeypatch.setattr(codes, "load_network", loaded.append)
    monkeypatch.setattr(codes.Codebook, "save", lambda *_: None)
    monkeypatch.setattr(Steps, "certify", lambda self, name, *_: name)
    assert Steps(asked).certified() == {"cascade": "cascade", "fixed 0.5": runs["a"], "fixed 0.25": runs["b"]}
    assert [path.name for path in loaded] == ["a.safetensors", "b.safetensors"]
    for wrong in (("b", "a"), *(("a", other) for other in "cdef")):  # another order, other images, other plans
        with pytest.raises(SystemExit, match="leave --runs out, and it is certified"):
            Steps(SimpleNamespace(**vars(asked) | {"runs": wrong}))


def asked_for(**changes):
    wanted = {"out": "out", "scalars": "0.25,0.5", "runs": (), "networks": None, "budgets": None} | changes
    return SimpleNamespace(**wanted, **ASKED)


@pytest.mark.parametrize(("changes", "got"), [
    ({"runs": ("a", "b"), "budgets": 4.0}, "--runs and --budgets"),
    ({"networks": "a,b", "budgets": 4.0}, "--networks and --budgets"),
    ({"networks": "a,b", "runs": ("a", "b")}, "--networks and --runs"),
])  # fmt: skip
def test_the_networks_are_said_once(runs, changes, got):
    with pytest.raises(SystemExit, match=f"expected at most one of --networks, --runs and --budgets, got {got}"):
        Steps(asked_for(**changes))


@pytest.mark.parametrize("names", ["a", "a,b,c", "b,a"])
def test_networks_and_runs_that_are_not_one_for_each_level(runs, monkeypatch, names):
    monkeypatch.setattr(codes, "described", lambda path: {"sigma": {"a": 0.5, "b": 0.25, "c": 0.1}[path.stem]})
    with pytest.raises(SystemExit, match=r"expected networks of noise \[0.5, 0.25\], in this order, got [ab]: 0.\d"):
        Steps(asked_for(networks=names)).networks()
    with pytest.raises(SystemExit, match=r"expected runs of noise|leave --runs out"):
        Steps(asked_for(runs=tuple(names.split(","))))


def test_a_table_of_systems_has_the_published_radii_whatever_ours_reach(run, columns):
    levels = ("cascade", 0.5), ("fixed", 0.25)
    runs = [run(columns(method, [0.1], sigma), method, n=100, alpha=0.001) for method, sigma in levels]
    (comparison,) = compare(runs)
    table = one_system.one_system_table(comparison)
    assert [column.name for column in table.columns] == ["system", "0", "0.25", "0.5", "0.75", "1", "median"]
    assert [cell.value for _, cell in table.pairs(table.rows[-1])][1:] == [
        *(round(share / 100, 4) for share in codes.DUAL),
        None,
    ]


def test_a_table_of_systems_finds_the_runs_that_were_taken(run, columns, tmp_path, monkeypatch):
    made = {"one-system/cascade": ("cascade", 0.5)}
    made |= {f"strong-{sigma}/fixed": ("fixed", sigma) for sigma in (0.5, 0.25)}
    read = {tmp_path / place: run(columns(method, [0.5], sigma), place) for place, (method, sigma) in made.items()}
    monkeypatch.setattr(one_system, "read_run", read.__getitem__)
    for folder in read:
        assert one_system.read_systems(tmp_path) is None
        folder.mkdir(parents=True)
        (folder / "run.json").touch()
    assert [entry.before.sigma for entry in one_system.read_systems(tmp_path).entries] == [0.25, 0.5, 0.5]
    read[folder] = run(columns("fixed", [0.5], 0.25), "another", n=77)
    with pytest.raises(ArgumentError, match="as many votes in all runs of one table"):
        one_system.read_systems(tmp_path)
