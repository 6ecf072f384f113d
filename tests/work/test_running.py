from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from anisocert.certification import certify
from anisocert.data import digits
from anisocert.durable import BusyError
from anisocert.engine import Network, Numerics
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import load
from anisocert.optimize import Anisotropic
from anisocert.runs import Configuration, read_run, row
from anisocert.runs import folder as folder_room
from anisocert.runs.rows import SCHEMA
from anisocert.smoothing import Gaussian
from anisocert.work import _scheduling as scheduling
from anisocert.work import load_job
from anisocert.work._certifier import Certifier
from anisocert.work.forecast import forecast
from anisocert.work.unfinished import Unfinished


def test_a_run_holds_what_certify_gives(quick, whole):
    model, _ = load(quick.model)
    data = digits("test").subset(most=40)
    network = Network(model, 10, "cpu", quick.numerics)
    wanted = certify(network, data.x, ids=data.ids.tolist(), smoothing=Gaussian(0.25), plan=quick.plan())
    run = read_run(whole)
    rows = [row(c, y, 0.25) for c, y in zip(wanted, data.y.tolist(), strict=True)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert run.table.drop_columns("seconds").equals(table.drop_columns("seconds"))
    assert len(Counter(run.column("prediction").tolist())) == 3, "no mixture of answers and abstentions to compare"
    assert all(run.thetas[number] == np.float32(0.25) for number in data.ids.tolist())
    assert run.description["model_hash"] == network.hash
    assert (run.description["device"], run.description["numerics"]["rows"]) == ("cpu", 160)
    assert not (whole / "unfinished").exists()


def test_doing_a_finished_run_again_does_nothing(quick, whole, do):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    assert do(quick, whole).finished
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


@pytest.mark.parametrize(("count", "inputs"), [(3, 40), (9, 6)])
def test_shards_equal_the_whole(quick, do, same, tmp_path, count, inputs):
    """Also where some of them have no input."""
    asked, order = replace(quick, max=inputs), np.random.default_rng(count).permutation(count) + 1
    outcomes = [do(asked, tmp_path / "shards", shard=(int(i), count)) for i in order]
    assert [outcome.finished for outcome in outcomes[:-1]].count(True) <= max(0, count - inputs)
    assert outcomes[-1].finished
    do(asked, tmp_path / "whole")
    assert same(tmp_path / "shards", tmp_path / "whole")


def test_other_shards_can_take_over(quick, whole, do, same, tmp_path):
    outcome = do(quick, tmp_path, shard=(2, 3))
    assert (outcome.finished, outcome.done, outcome.of, outcome.left) == (False, 13, 40, 0)
    begins = []
    assert do(quick, tmp_path, on_begin=lambda *counts: begins.append(counts)).finished
    assert begins == [(13, 40)]
    assert same(tmp_path, whole)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", ["theta", "unfinished"])
def test_a_link_to_other_files_is_refused_before_any_vote(quick, do, tmp_path, name, begun):
    """Also on resuming, when files in the run's folder are taken for its own."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    if begun:
        assert not do(replace(quick, max=2), run, shard=(1, 2)).finished
    if (run / name).exists():
        (run / name).rename(victim)
    victim.mkdir(exist_ok=True)
    (victim / "best.safetensors").write_text("precious")
    (run / name).symlink_to(victim)
    with pytest.raises(ArgumentError, match=f"{name}, got a link: remove the link"):
        do(replace(quick, max=2), run, on_begin=lambda *_: pytest.fail("it has begun"), force=True)
    assert (victim / "best.safetensors").read_text() == "precious"


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_shards_that_are_none(shard, quick, do, tmp_path):
    with pytest.raises(ArgumentError, match="shard"):
        do(quick, tmp_path, shard=shard)


def shorten(monkeypatch, iterations):
    """Few steps of the search for theta."""
    short = partial(Anisotropic, ascent=replace(Anisotropic().ascent, iterations=iterations))
    monkeypatch.setattr("anisocert.optimize.methods.Anisotropic", short)


@pytest.fixture
def short_search(monkeypatch):
    """Few steps and few pilot votes of the search for theta."""
    monkeypatch.setattr("anisocert.optimize._pilot.BLOCKS", 2)
    shorten(monkeypatch, 2)


@pytest.mark.parametrize("change", [{"norm": "l1", "sigma": 0.5}, {"stop": "betting", "n": 1000}])
def test_chunks_do_not_matter(quick, do, same, tmp_path, monkeypatch, short_search, change):
    """Four inputs climb together where the chunk holds so many."""
    numerics = replace(quick.numerics, rows=800)
    asked = replace(quick, method="anisotropic", max=5, numerics=numerics, **change)
    monkeypatch.setattr("anisocert.optimize.Anisotropic.group", lambda *_: 1)
    sizes = []
    for folder, seconds in (("single", 1e-12), ("all", 1e9)):
        monkeypatch.setattr(scheduling, "CHUNK_SECONDS", seconds)
        counts = []
        assert do(asked, tmp_path / folder, on_rows=lambda rows, counts=counts: counts.append(len(rows))).finished
        sizes.append(max(counts))
    assert sizes == [1, 4]
    assert same(tmp_path / "single", tmp_path / "all")


def test_a_changed_configuration_is_refused_and_shown(quick, whole, do, tmp_path):
    other = tmp_path / "other.npz"
    np.savez(other, x=digits("test").x[:40], y=digits("test").y[:40])
    changes = {
        "sigma: 0.25 -> 0.5": {"sigma": 0.5},
        "n: 200 -> 201; seed: 0 -> 7": {"n": 201, "seed": 7},
        "max: 40 -> none": {"max": None},
        "stop: none -> betting; target_radius: none -> 0.1": {"target_radius": 0.1},
        "numerics.rows: 160 -> 320": {"numerics": Numerics("float32", False, 320)},
        "data: digits": {"data": str(other)},
        "norm: l2 -> l1": {"norm": "l1"},
        "memory: none -> m": {"memory": "m"},
    }
    do(quick, tmp_path / "begun", shard=(1, 2))
    for folder in (whole, tmp_path / "begun"):
        for said, change in changes.items():
            with pytest.raises(ArgumentError, match="began with, got a different one") as refused:
                do(replace(quick, **change), folder)
            assert said in str(refused.value)
    with pytest.raises(ArgumentError, match="device: cpu -> cuda"):
        do(replace(quick, device="cuda"), tmp_path / "begun")


def test_a_changed_network_is_refused_and_a_moved_one_is_not(quick, do, same, whole, tmp_path, network_file):
    from anisocert.models import save

    do(quick, tmp_path / "run", shard=(1, 2))
    model, metadata = load(network_file)
    model.network.head.bias.data[0] += 1e-3
    save(model, tmp_path / "changed.safetensors", metadata)
    with pytest.raises(ArgumentError, match=r"model: .*tiny\.safetensors .* -> .*changed\.safetensors"):
        do(replace(quick, model=str(tmp_path / "changed.safetensors")), tmp_path / "run")
    (tmp_path / "moved.safetensors").write_bytes(network_file.read_bytes())
    assert do(replace(quick, model=str(tmp_path / "moved.safetensors")), tmp_path / "run").finished
    assert same(tmp_path / "run", whole)


def test_what_is_left_open_is_settled_once(quick, do, same, whole, tmp_path):
    """The first process decides how the network runs; one that leaves it open follows."""
    do(quick, tmp_path, shard=(1, 2))
    assert do(replace(quick, numerics=Numerics()), tmp_path).finished
    assert same(tmp_path, whole)


def test_a_resumed_run_looks_once_at_what_it_was_begun_with(quick, do, tmp_path, monkeypatch):
    """Its process makes the network, and so its hash, once to compare, and its worker once to compute with it."""
    do(quick, tmp_path, shard=(1, 2))
    calls = Counter()

    def counted(where, name):
        real = getattr(where, name)

        def call(*arguments, **options):
            calls[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(where, name, call)

    counted(Unfinished, "configuration")
    counted(Network, "__init__")
    assert do(quick, tmp_path).finished
    assert calls == {"configuration": 1, "__init__": 2}


def test_time_that_does_not_suffice(quick, do, same, whole, tmp_path, monkeypatch):
    assert do(quick, tmp_path, seconds=0.0).left == 40
    now = iter(range(10**9))
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: float(next(now)))  # every look at the clock: a second
    lefts = []
    while not (outcome := do(quick, tmp_path, seconds=30.0)).finished:
        lefts.append(outcome.left)
        assert outcome.done + outcome.left == 40
    assert lefts == sorted(lefts, reverse=True)
    assert 0 < len(lefts) < 40
    assert same(tmp_path, whole)


def test_one_process_a_shard(quick, do, tmp_path):
    with Unfinished(tmp_path).working((1, 1)), pytest.raises(BusyError, match="a process at work on it"):
        do(quick, tmp_path)
    assert do(replace(quick, max=2), tmp_path).finished


def test_whose_parts_are_not_this_users_is_told(quick, do, same, whole, tmp_path, monkeypatch):
    """Whoever sends a folder with an unfinished run decides what the run will say: nothing of it is drawn again."""
    run = tmp_path / "run"
    with monkeypatch.context() as stranger:
        stranger.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))
        do(quick, run, shard=(1, 4))
    for mine in ((2, 4), (1, 2)):  # whether or not they are of one's own shard
        with pytest.warns(
            AnisocertWarning, match=r"10 inputs in .*unfinished were done by another user .*verify .*run"
        ):
            do(quick, run, shard=mine)
    with monkeypatch.context() as nobody:
        nobody.setenv("XDG_STATE_HOME", "/dev/null")
        with pytest.warns(AnisocertWarning, match=r"30 inputs .* by somebody \(expected a place for a secret"):
            do(quick, run, shard=(1, 2))
    for part in Unfinished(run).parts():  # changed, under their names
        part.write_bytes(part.read_bytes().replace(b"parquet-cpp-arrow", b"Parquet-cpp-arrow"))
    with pytest.warns(AnisocertWarning, match="30 inputs"):
        assert do(quick, run).finished
    assert same(run, whole)


def test_parts_that_another_shard_merges_meanwhile_are_no_error(quick, do, tmp_path, monkeypatch):
    do(quick, tmp_path, shard=(1, 4))
    unfinished = Unfinished(tmp_path)
    for part in unfinished.parts()[1:]:
        part.unlink()

    def merged(_, __):
        unfinished.remove()
        return "of somebody else"

    monkeypatch.setattr(Unfinished, "_seal", merged)
    unfinished.warn_of_others()
    assert unfinished.parts() == []


def test_an_input_in_two_parts_counts_once(quick, do, same, whole, tmp_path):
    do(quick, tmp_path, shard=(1, 2))
    parts = Unfinished(tmp_path).parts()
    for i, part in enumerate(parts):
        (part.parent / f"part-{i}-again.parquet").write_bytes(part.read_bytes())
    with pytest.warns(AnisocertWarning, match="20 inputs in .*unfinished were done by another user"):
        assert do(quick, tmp_path).finished
    assert same(tmp_path, whole)


def test_thetas_in_several_files(quick, whole, do, same, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_room, "THETA_FILE_BYTES", 60)  # fifteen numbers
    do(quick, tmp_path)
    files = [f"theta/theta-000{i}.safetensors" for i in (1, 2, 3)]
    assert sorted(read_run(tmp_path).description["files"]) == ["certificates.parquet", *files]
    assert same(tmp_path, whole)


def test_average_of_a_run(quick, do, tmp_path, short_search):
    do(replace(quick, method="anisotropic", max=4), tmp_path / "a")
    do(replace(quick, method="average", average_of=str(tmp_path / "a"), max=3), tmp_path / "b")
    mean = np.mean([theta.astype(np.float64) for theta in read_run(tmp_path / "a").thetas.values()], axis=0)
    for theta in read_run(tmp_path / "b").thetas.values():
        assert np.array_equal(theta, mean.astype(np.float32))
    assert set(read_run(tmp_path / "b").column("method")) == {"average"}
    with pytest.raises(ArgumentError, match="average_of"):
        replace(quick, method="average")


@pytest.mark.filterwarnings("ignore:Without any noise")  # its network was never trained
def test_the_command_in_the_description_is_the_run(whole, tmp_path, same):
    import shlex

    from typer.testing import CliRunner

    from anisocert.cli.app import app

    words = shlex.split(read_run(whole).description["command"])
    words[words.index("--out") + 1] = str(tmp_path / "again")
    result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert same(tmp_path / "again", whole)


def test_what_a_shape_is_to_prefer_is_told_to_the_search_and_to_whoever_repeats_the_run(quick, tmp_path):
    volume = replace(quick, method="anisotropic", prefer="volume")
    assert volume.chooser().prefer == "volume"
    assert "--prefer volume" in volume.command(tmp_path)
    assert replace(quick, method="anisotropic").chooser().prefer == "ball"
    assert "--prefer" not in quick.command(tmp_path)
    for other in ({"method": "fixed"}, {"method": "anisotropic", "paper": True}):
        with pytest.raises(ArgumentError, match="expected prefer 'volume' with our method anisotropic alone"):
            replace(quick, prefer="volume", **other)
    with pytest.raises(ArgumentError, match="expected prefer to be one of volume, ball, got 'both'"):
        replace(quick, method="anisotropic", prefer="both")


def test_configurations_survive_json(quick):
    full = replace(
        quick, mean=(0.5,), std=(0.25,), domain=(0.0, 1.0), ids="0,5", stop="betting", num_classes=10, model_hash="x"
    )
    assert Configuration.from_dict(full.to_dict()) == full


def test_the_forecast_counts_what_is_evaluated(quick, tmp_path, do, monkeypatch):
    """Votes that are asked for, counted on their way, against the forecast's."""
    from anisocert.engine.votes import count_votes as real

    asked = replace(quick, method="anisotropic", max=1, n=1600, numerics=replace(quick.numerics, rows=800))
    shorten(monkeypatch, 4)
    found, votes = forecast(load_job(asked), "cpu", 1), Counter()

    def count(query, scales, stage, looks, *options, **named):
        votes[stage.name] += len(query) * looks[-1]
        return real(query, scales, stage, looks, *options, **named)

    for room in ("anisocert.optimize._pilot", "anisocert.engine.votes", "anisocert.certification"):
        monkeypatch.setattr(f"{room}.count_votes", count)
    do(asked, tmp_path / "run")
    assert found.evaluations == {
        "with gradients": 2 * 2 * 16, "pilot votes": votes["PILOT"], "votes to select": votes["SELECT"],
        "votes to certify": votes["ESTIMATE"],
    }  # fmt: skip
    assert found.total == sum(found.evaluations.values())
    assert found.seconds > 0


def test_seconds_are_shared_fairly(whole):
    seconds = np.array(read_run(whole).column("seconds"))
    assert (seconds > 0).all()
    unread = pq.read_table(whole / "certificates.parquet", columns=["votes"])["votes"].to_numpy()
    assert (unread == 200).all()
    assert seconds.max() < 0.5 * seconds.sum(), "one input was charged for others"


@pytest.mark.parametrize(
    "content", ["{", "[]", "[" * 100_000, '{"model": 1}', '{"model": "m", "data": "d", "sigma": 1, "numerics": 7}']
)
def test_a_broken_beginning_is_said(quick, do, tmp_path, content):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "configuration.json").write_text(content)
    with pytest.raises(ArgumentError, match=r"remove .*unfinished to begin the run anew"):
        do(quick, tmp_path)


def test_a_network_that_changes_from_call_to_call_gives_no_rows_out_of_time_either(quick):
    class Tired(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            tired = len(x) < 32 * (self.calls - 30)  # which cannot be traced
            first = x.flatten(1)[:, :1] + torch.arange(10)
            return -first if tired else first

    asked = replace(quick, max=3, n=3200, numerics=replace(quick.numerics, rows=32))
    certifier = Certifier(load_job(asked).configuration, None, "cpu", model=Tired().eval())
    certifier.settle(asked.numerics, (1, 8, 8), 3)
    with pytest.raises(ModelError, match="in every call"):
        certifier.certify(load_job(asked).chunk([0, 5]), seconds=0.0)


def test_inputs_outside_the_domain_begin_no_run(quick, do, tmp_path):
    with pytest.raises(ArgumentError, match=r"expected inputs in their domain, 0 to 0\.5, got values from 0 to 1"):
        do(replace(quick, max=2, domain=(0.0, 0.5)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert do(replace(quick, max=2, domain=(0.0, 1.0)), tmp_path / "run").finished
    with pytest.raises(ArgumentError, match=r"or remove that folder$"):
        do(replace(quick, max=3), tmp_path / "run")
