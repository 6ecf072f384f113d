"""A finished run is read as it was written, or not at all; what somebody sent executes nothing and reaches nothing."""

import json
import os
import shutil
import sys

import numpy as np
import pytest

from anisocert.engine.probe import as_json
from anisocert.errors import AnisocertError, ArgumentError, ModelError
from anisocert.models import load, save
from anisocert.runs import NotTheRunsError, _sources, read_run
from anisocert.runs.files import checksum, look, write_description
from anisocert.runs.folder import copy_run
from anisocert.work import add_to_memory

PAYLOAD = """
from pathlib import Path
Path("executed").write_text("by a run")
raise SystemExit(0)
"""


@pytest.fixture
def run(whole, tmp_path):
    """A copy that may be tampered with."""
    return shutil.copytree(whole, tmp_path / "run")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to be in, with a module `stranger` that leaves a file behind when it is imported."""
    place = tmp_path / "here"
    place.mkdir()
    (place / "stranger.py").write_text(PAYLOAD)
    monkeypatch.chdir(place)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return place


def described(run):
    return json.loads((run / "run.json").read_text())


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("digits", "digets"), lambda text: text[:-9], lambda _: "[]"]
)
def test_an_edited_description_is_refused(run, change):
    read_run(run)
    file = run / "run.json"
    file.write_text(change(file.read_text()))
    with pytest.raises(ArgumentError, match="not what the run wrote"):
        read_run(run)


@pytest.mark.parametrize("option", ["model", "denoise"])
def test_a_run_never_names_code(run, here, option, forge):
    forge(run, **{option: "stranger:go"})
    stored = read_run(run)
    for asked in (stored.module, lambda: stored.module(gradients=True), stored.network):
        with pytest.raises(ArgumentError, match=rf"type --{option} stranger:go"):
            asked()
    assert not (here / "executed").exists()
    assert "stranger" not in sys.modules


def test_a_file_whose_name_is_a_function_s_is_a_file(run, here):
    """Seen from its own folder the path is `stranger:go`, which would be imported if it were passed on like that."""
    (here / "stranger:go").write_bytes(b"weights")
    for name in described(run)["files"]:
        (here / name).parent.mkdir(exist_ok=True)
        shutil.copy(run / name, here / name)
    write_description(here, described(run) | {"model": "./stranger:go"})
    with pytest.raises(AnisocertError):
        read_run(here.relative_to(here)).module()
    assert not (here / "executed").exists()


def test_a_typed_function_is_called_and_its_exit_is_an_error(run, here, forge):
    forge(run, model="stranger:go")
    with pytest.raises(ModelError, match="got an exit with code 0"):
        read_run(run).moved(model="stranger:go").network()
    assert (here / "executed").exists()


def test_a_typed_function_may_be_another_one_if_the_network_is_the_same(run, here, network_file, monkeypatch, forge):
    code = f"from anisocert.models import load\ndef go():\n    return load({str(network_file)!r})[0]\n"
    other = "def other():\n    from torch import nn\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (here / "friend.py").write_text(code + other)
    monkeypatch.delitem(sys.modules, "friend", raising=False)
    forge(run, model="elsewhere:go")
    stored = read_run(run)
    assert stored.moved(model="friend:go").network().hash == stored.description["model_hash"]
    with pytest.raises(NotTheRunsError, match="got a different network: friend:other"):
        stored.moved(model="friend:other").network()


def test_a_network_behaves_as_the_run_has_noted(run, network_file, tmp_path, forge):
    """Also where the run was made under a name of the user's, which any network could be given."""
    honest = read_run(run).network()
    noted = {"probe": as_json(honest.probe((1, 8, 8))), "input_shape": [1, 8, 8]}
    forge(run, **noted)
    read_run(run).network()
    model, metadata = load(network_file)
    model.network.head.bias.data += 1
    save(model, tmp_path / "other.safetensors", metadata)
    forge(run, **noted, model_id="mine", model_hash="mine, float32 on grid 2^-12")
    assert read_run(run).network().hash == "mine, float32 on grid 2^-12"
    with pytest.raises(NotTheRunsError, match="got a different network"):
        read_run(run).moved(model=str(tmp_path / "other.safetensors")).network()
    for shape in ([10**9, 10**9], [-1], "much", None, [1.5]):
        forge(run, **noted | {"input_shape": shape})
        with pytest.raises(ArgumentError, match="input_shape"):
            read_run(run).network()


@pytest.mark.parametrize("value", [["stranger:go"], {"a": 1}, 7])
def test_what_is_no_text_is_no_network(run, value, forge):
    forge(run, model=value)
    with pytest.raises(ArgumentError):
        read_run(run).module()


def test_what_is_elsewhere_is_asked_for(run, tmp_path, forge):
    forge(run, model="/nowhere/net.safetensors", data="/nowhere/data.npz")
    with pytest.raises(ArgumentError, match="say where it is with --model"):
        read_run(run).module()
    with pytest.raises(ArgumentError, match="say where they are with --data"):
        read_run(run).examples()
    assert len(read_run(run).moved(data="digits").examples()) == 40
    np.savez(tmp_path / "other.npz", x=np.zeros((50, 1, 8, 8), np.float32), y=np.zeros(50, int))
    with pytest.raises(NotTheRunsError, match="got others in"):
        read_run(run).moved(data=str(tmp_path / "other.npz")).examples()


@pytest.mark.parametrize("option", ["model", "data"])
def test_a_pipe_is_neither_a_network_nor_data(run, tmp_path, option, forge):
    os.mkfifo(tmp_path / "pipe.npz")
    forge(run, **{option: str(tmp_path / "pipe.npz")})
    stored = read_run(run)
    with pytest.raises(ArgumentError):
        stored.module() if option == "model" else stored.examples()


@pytest.mark.parametrize(
    "name",
    ["../victim", "{tmp}/victim", "theta/../../victim", "/dev/zero", "/dev/stdin", "theta/../certificates.parquet", ".",
     "run.json", "memory.jsonl", "theta/x.safetensors", "theta/theta.safetensors/", "theta/theta-1.safetensors\n", ""],
)  # fmt: skip
def test_only_names_that_runs_use(run, tmp_path, name, forge):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    forge(run, files=described(run)["files"] | {name.format(tmp=tmp_path): checksum(victim)})
    (finding,) = look(run).findings
    assert finding.where == "run.json"
    for reading in (read_run, lambda folder: copy_run(folder, tmp_path / "copy")):
        with pytest.raises(ArgumentError, match="among its files"):
            reading(run)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["certificates.parquet", "theta/theta.safetensors", "run.json", "theta"])
@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_only_regular_files(run, tmp_path, name, kind):
    """Links to the very same content too; neither a pipe nor an endless device is ever waited for."""
    place = run / name
    kept = place.rename(tmp_path / "kept")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(kept if kind == "link" else "/dev/zero")
    assert any("is a link, or not a regular file" in finding.what for finding in look(run).findings)
    with pytest.raises(ArgumentError, match="a link, or not a regular file"):
        read_run(run)


@pytest.mark.parametrize("name", ["certificates.parquet", "theta/theta.safetensors", "run.json"])
def test_files_larger_than_any_run_s_are_not_read(run, name):
    os.truncate(run / name, 3_000_000_000)  # takes no room on the disk
    assert "has 3,000,000,000 bytes, expected" in look(run).findings[0].what


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000 + "1" + "}" * 200_000, "[" * 900 + "]" * 900])
def test_deep_json(run, text):
    (run / "run.json").write_text(text)
    assert look(run).findings[0].where == "run.json"
    with pytest.raises(ArgumentError, match=r"run\.json"):
        read_run(run)


def test_a_journal_that_is_a_link_is_not_followed(run, tmp_path):
    from anisocert import Memory

    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / "memory.jsonl").symlink_to(victim)
    inputs = {number: read_run(run).inputs()(number) for number in read_run(run).column("idx").tolist()}
    with Memory.open(tmp_path / "memory.sqlite") as memory, pytest.raises(ArgumentError, match="is a link"):
        add_to_memory(run, memory, inputs)
    assert victim.read_text() == "precious"


def test_a_copy_is_made_in_its_folder_alone(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theta.safetensors").write_text("precious")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "theta").symlink_to(outside)
    with pytest.raises(ArgumentError, match="theta, got a link: remove the link"):
        copy_run(run, copy)
    assert (outside / "theta.safetensors").read_text() == "precious"
    (copy / "theta").unlink()
    (copy / "certificates.parquet").symlink_to(outside / "theta.safetensors")
    with pytest.raises(ArgumentError, match=r"certificates\.parquet"):
        copy_run(run, copy, force=True)
    assert (outside / "theta.safetensors").read_text() == "precious"
    (copy / "certificates.parquet").unlink()
    (copy / "theta").mkdir()
    (copy / "theta" / "theta.safetensors").write_text("mine")
    with pytest.raises(ArgumentError, match="--force"):
        copy_run(run, copy)
    assert not (copy / "certificates.parquet").exists()
    assert (copy / "theta" / "theta.safetensors").read_text() == "mine"
    copy_run(run, copy, force=True)
    (copy / "run.json").unlink()  # as if it had been killed
    copy_run(run, copy)
    assert read_run(copy).rows == read_run(run).rows


def test_what_is_read(whole):
    stored = read_run(whole)
    assert stored.has_votes
    assert [row["idx"] for row in stored.rows] == stored.column("idx").tolist() == stored.examples().ids.tolist()
    number = next(row["idx"] for row in stored.rows if row["prediction"] >= 0)
    x = stored.examples([number]).x[0]
    assert np.array_equal(stored.inputs()(number), x)
    assert stored.inputs()(1_000_001) is None
    found = stored.certificate(number, x)
    assert (found.radius, found.votes) == (stored.row(number)["radius"], stored.row(number)["votes"])
    assert np.array_equal(found.region.center, x)
    with pytest.raises(ArgumentError, match="which is not in it"):
        stored.row(1)
    with pytest.raises(ArgumentError, match="expected the input of example"):
        stored.certificate(number, None)


def test_data_are_loaded_once_however_often_they_are_asked_for(whole, monkeypatch):
    calls = []
    for name in ("load", "examples_hash"):
        real = getattr(_sources, name)
        monkeypatch.setattr(_sources, name, lambda *given, name=name, real=real: calls.append(name) or real(*given))
    stored = read_run(whole)
    stored.examples([0], whole=False)
    for asked in (stored.examples, stored.inputs, stored.examples):
        asked()
    assert calls == ["load", "examples_hash"]
    with pytest.raises(ArgumentError, match="expected a data set"):
        stored.moved(data="nowhere.npz").examples()


def test_a_run_of_an_earlier_version_says_probe_shape(run):
    said = described(run)
    shape = said.pop("input_shape")
    assert shape == [1, 8, 8]
    write_description(run, said | {"probe_shape": shape})
    assert read_run(run).configuration.input_shape == shape
    assert read_run(run).network().hash == said["model_hash"]


def test_what_a_run_says_of_itself(run, forge):
    stored = read_run(run)
    said, number = stored.description, int(stored.column("idx")[0])
    assert stored.plan == stored.configuration.plan()
    assert stored.alphas == stored.configuration.alphas().tolist() == stored.column("alpha").tolist()
    assert (stored.model_hash, stored.imported, stored.memory) == (said["model_hash"], False, None)
    assert stored.said("n") == said["n"]
    assert stored.said("prediction") is None  # of which inputs have several
    x = stored.inputs()(number)
    for row in stored.rows:
        region, certificate = stored.region(row["idx"], x), stored.certificate(row["idx"], x)
        assert (region is None) == (certificate.region is None)
        assert region is None or np.array_equal(region.axes, certificate.region.axes)
    forge(run, memory={"file": "a.sqlite", "policy": "inherit", "generation": "g"})
    memory = read_run(run).memory
    assert (memory.place, memory.policy, memory.prefer, memory.generation) == ("a.sqlite", "inherit", "volume", "g")


def test_a_theta_of_another_shape_than_the_input_gives_no_region(run, forge_theta):
    number = next(row["idx"] for row in read_run(run).rows if row["prediction"] >= 0)
    for shape in ((8, 8), (1, 8, 8, 1)):  # of which numpy would spread the first over the input
        forge_theta(run, lambda thetas, shape=shape: thetas.update({str(number): np.full(shape, 0.25, np.float32)}))
        stored = read_run(run)
        for gives in (stored.region, stored.certificate):
            with pytest.raises(ArgumentError, match="expected an input of shape"):
                gives(number, stored.inputs()(number))


def test_a_run_that_does_not_say_how_to_repeat_it_says_its_plan(run):
    known = {name: value for name, value in described(run).items() if name not in ("model", "data", "sigma", "inputs")}
    write_description(run, known)
    stored = read_run(run)
    with pytest.raises(ArgumentError, match="without model, data, sigma"):
        _ = stored.configuration
    assert stored.plan.n == known["n"]
    assert stored.alphas == stored.column("alpha").tolist()
    write_description(run, {name: value for name, value in known.items() if name != "n"})
    with pytest.raises(ArgumentError, match="expected 'n', got none"):
        _ = read_run(run).plan
