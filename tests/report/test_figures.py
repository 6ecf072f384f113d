import numpy as np
import pytest
import torch

from anisocert import Plan
from anisocert.errors import AnisocertError
from anisocert.evaluate import compare
from anisocert.report import _landscape
from anisocert.report._inputs import Inputs
from anisocert.report._landscape import landscape
from anisocert.report.canvas import save, styled
from anisocert.report.figures import accuracy, ratio, theta_maps, write_figures
from anisocert.report.toy import RING, radial_data, toy, toy_figure


@pytest.fixture
def group(make_run, data):
    runs = [
        make_run(f"{method}{sigma}", data, method, sigma=sigma, memory=method != "fixed")
        for method in ("fixed", "isotropic", "anisotropic")
        for sigma in (0.25, 0.5)
    ]
    return compare(runs)[0]


def test_every_figure_is_written_twice(group, tmp_path):
    files = write_figures([group], tmp_path / "figures")
    kinds = ("accuracy", "gap-and-noise", "theta-ratio", "theta-maps")  # no network, no landscape
    assert {file.name for file in files} == {f"{k}-squares.npz-l2.{e}" for k in kinds for e in ("pdf", "png")}
    for file in files:
        assert file.read_bytes()[:4] in (b"%PDF", b"\x89PNG")
        assert file.stat().st_size > 3000


def test_the_same_figure_gives_the_same_files(group, tmp_path):
    with styled():
        first, second = (save(ratio(group), tmp_path / name) for name in "ab")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_the_envelope_has_no_band(group):
    """Its level is chosen on these very inputs."""
    with styled():
        axes = accuracy(group).axes
    bands = {axis.get_title(): len(axis.collections) for axis in axes[: len(axes) // 2]}
    assert list(bands.values()) == [3, 3, 0, 3]
    assert list(bands)[2].startswith("envelope")


def test_a_network_that_was_asked_for_must_be_there(make_run, data):
    group = compare([make_run("a", data, model="gone.safetensors")])[0]
    assert landscape(group) is None
    with pytest.raises(AnisocertError, match=r"nowhere\.safetensors"):
        landscape(group, "nowhere.safetensors")


def test_a_run_names_files_and_calls_nothing(make_run, data, monkeypatch):
    called = []
    monkeypatch.setattr("anisocert.models.load", lambda *a, **k: called.append(a))
    assert landscape(compare([make_run("a", data, model="os:getcwd")])[0]) is None
    assert called == []


def test_runs_without_theta_have_the_other_figures(make_run, tmp_path):
    run = make_run("a", None)
    del run.description["files"]["theta/theta.safetensors"]
    names = {file.stem.partition("-")[0] for file in write_figures([compare([run])[0]], tmp_path / "figures")}
    assert names == {"accuracy", "gap", "theta"}  # theta-ratio; no maps


def test_an_imported_run_has_no_row_of_thetas(make_run, data):
    runs = [make_run(method, data, method) for method in ("isotropic", "anisotropic")]
    del runs[0].description["files"]["theta/theta.safetensors"]
    with styled():
        figure = theta_maps(compare(runs)[0], [0, 1], Inputs({}, (1, 6, 6)))
    assert [axis.get_ylabel() for axis in figure.axes] == ["θ, anisotropic", ""]


def test_one_feature_is_no_landscape(make_run, tmp_path, monkeypatch):
    """No plane goes through it."""
    monkeypatch.setattr(_landscape, "_network", lambda *_: lambda x: torch.cat([x, -x, x, -x], 1))
    np.savez(tmp_path / "one.npz", x=np.linspace(-1, 1, 12, dtype=np.float32)[:, None, None], y=np.arange(12) % 4)
    run = make_run("a", tmp_path / "one.npz", shape=(1, 1), input_shape=[1, 1], model="net.safetensors")
    assert landscape(compare([run])[0]) is None


@pytest.mark.parametrize("model_id", [None, "mine"])
def test_landscape_of_a_real_network(tmp_path, write_run, model_id):
    """A certificate by the library on digits, drawn around its input in two planes; also of a network with a name."""
    from anisocert import Gaussian, Network, certify
    from anisocert.data import digits
    from anisocert.engine.probe import as_json
    from anisocert.models import build
    from anisocert.models import save as save_model
    from anisocert.optimize import Isotropic, PublishedAnisotropic
    from anisocert.optimize.ascent import Ascent
    from anisocert.runs import read_run

    tests = digits("test").subset(most=2)
    model = build("small-cnn", 10, tests.mean, tests.std).eval()
    described = {"architecture": "small-cnn", "num_classes": 10, "mean": tests.mean, "std": tests.std}
    save_model(model, tmp_path / "net.safetensors", described)
    quick = Ascent(iterations=3, samples=8, learning_rate=0.3, adam=True, logarithmic=True)
    method = PublishedAnisotropic(ascent=quick, isotropic=Isotropic())
    network = Network(model, 10, model_id=model_id)
    found = certify(network, tests.x, ids=tests.ids.tolist(), smoothing=Gaussian(0.05), method=method, plan=Plan(n=200))
    labels = [max(c.prediction, 0) for c in found]  # an untrained network is right by definition here
    assert any(c.prediction >= 0 for c in found)
    said = {"model": "../net.safetensors", "sigma": 0.05, "method": "anisotropic", "numerics": network.numerics}
    said |= {"model_id": model_id, "input_shape": list(tests.shape), "probe": as_json(network.probe(tests.shape))}
    write_run(tmp_path / "run", found, labels, **said)
    run = read_run(tmp_path / "run")
    from anisocert.report import _landscape as module
    from anisocert.report._inputs import Inputs

    known = Inputs(dict(zip(tests.ids.tolist(), tests.x.astype(float), strict=True)), tests.shape)
    with pytest.MonkeyPatch.context() as patch, styled():
        patch.setattr(module, "inputs_of", lambda *_: known)  # its labels are not the data's
        patch.setattr(module, "GRID", 9)
        patch.setattr(module, "STEPS", 6)
        figure = landscape(compare([run])[0])
        with torch.no_grad():
            model.network.head.bias += 1
        save_model(model, tmp_path / "other.safetensors", described)
        with pytest.raises(AnisocertError, match=r"a different network: .*other\.safetensors$"):
            landscape(compare([run])[0], str(tmp_path / "other.safetensors"))
    assert figure is not None
    left, right, _ = figure.axes
    assert "nu_1" in left.get_xlabel()
    assert "min" in right.get_ylabel()
    (line, _) = left.lines
    assert len(line.get_xdata()) == 361


def test_radial_data_is_radially_separable():
    data = radial_data()
    radius = np.linalg.norm(data.x, axis=1)
    assert ((data.y == RING) == ((radius > 1) & (radius < 2))).all()
    assert np.abs(radius - 1).min() > 0.04


def test_toy_regions_follow_the_ring(tmp_path):
    made = toy(Plan(n=4000))
    assert list(made.certificates) == [(n, m) for n in ("l1", "l2") for m in ("isotropic", "anisotropic")]
    for (_, method), (top, left) in made.certificates.items():
        assert (top.prediction, left.prediction) == (RING, RING)
        (across, up), (aside, along) = top.region.axes, left.region.axes
        if method == "isotropic":
            assert (across, aside) == (up, along)
        else:
            assert across > 1.1 * up
            assert along > 1.1 * aside
        # the ring is 1 wide, and a smoothed network's border is not exactly the data's
        assert max(up, aside) < 0.6
    for norm in ("l1", "l2"):
        for a, b in zip(made.certificates[norm, "anisotropic"], made.certificates[norm, "isotropic"], strict=True):
            assert a.proxy_radius > 1.05 * b.proxy_radius
    with styled():
        for file in save(toy_figure(made), tmp_path / "toy"):
            assert file.stat().st_size > 10_000
