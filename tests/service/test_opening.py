"""What a user may type for a service: networks that must be made to fit, noise that a selector chooses."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.data import digits
from anisocert.engine import Network, Numerics
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import Codebook, Denoiser, build, load, save
from anisocert.runs import Configuration
from anisocert.runs.loading import open_memory
from anisocert.work import load_job

pytest.importorskip("starlette", reason="needs starlette: pip install '.[serve]'")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[serve]'")

from anisocert.service._telling import Teller
from anisocert.service.keys import Key
from anisocert.service.opening import open_system, settled

SHAPE, CLASSES = (3, 4, 4), 5
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's older ONNX exporter
TUPLE = """
import torch
from torch import nn

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(48, 5)

    def forward(self, x):
        return x.flatten(1), self.linear(x.flatten(1))
"""


class ChannelsLast(nn.Module):
    """Takes `b x h x w x c`, and tells channels apart."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(48, CLASSES)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.linear((x * self.scale).flatten(1))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """file(kind): a network that takes images of 3 x 4 x 4 in another shape, or returns more than scores."""

    def make(kind):
        if kind == "tuple":
            (tmp_path / "both.py").write_text(TUPLE)
            monkeypatch.syspath_prepend(tmp_path)
            return "both:Both"
        for package in ("onnxruntime", "onnx"):
            pytest.importorskip(package, reason="needs the extra onnx: pip install '.[onnx]'")
        torch.manual_seed(0)
        network, taken = {"flat": (nn.Linear(48, CLASSES), (48,)), "last": (ChannelsLast(), (4, 4, 3))}[kind]
        path = tmp_path / f"{kind}.onnx"
        torch.onnx.export(  # only its exporter needs no further package
            network.eval(), (torch.rand(2, *taken),), path, dynamo=False, input_names=["x"], output_names=["scores"],
            dynamic_axes={"x": {0: "b"}, "scores": {0: "b"}},
        )  # fmt: skip
        return str(path)

    return make


@pytest.fixture
def images(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "images.npz"
    np.savez(path, x=random.random((8, *SHAPE), np.float32), y=np.arange(8) % CLASSES)
    return str(path)


def far(examples):
    """Inputs far from where answers change, compared with the noise."""
    return examples.x * 400 - 200


@pytest.mark.parametrize("known_by", ["data", "shape"])
@pytest.mark.parametrize(("kind", "layout"), [("tuple", None), ("flat", "flat"), ("last", None)])
def test_a_network_is_made_to_fit_as_certify_does_it(file, images, kind, layout, known_by):
    asked = Configuration(
        model=file(kind), data=images, sigma=0.25, n0=20, n=100, layout=layout, method="fixed",
        numerics=Numerics("float32", False),
        num_classes=None if known_by == "data" else CLASSES,
    )  # fmt: skip
    job = load_job(asked)
    network = Network(job.model, CLASSES, "cpu", asked.numerics)
    examples, memory, notes = job.examples, ac.Memory(), []
    if known_by == "shape":
        asked, examples = replace(asked, data="", input_shape=list(SHAPE)), None
    c = settled(asked, memory, examples)
    system = open_system(c, memory, b"known to no client", "cpu", 1, examples, notes.append)
    assert system.network.hash == network.hash == job.hashed(asked.numerics).model_hash
    assert notes == [f"note: {note}" for note in job.metadata["notes"]]
    assert notes
    x = far(job.examples)
    certified = ac.certify(network, x, smoothing=c.smoothing(), plan=c.plan())
    found = system.answers(x)
    assert [one.top_votes for one in found] == [c.n] * len(x)
    answered = [one.prediction for one in found]
    assert answered == [one.prediction for one in certified]
    assert len(set(answered)) > 1


def test_the_shape_of_inputs(file, images, tmp_path):
    """An option, examples, the memory, or the files themselves."""
    made = Configuration(model=file("tuple"), data=images, sigma=0.25, n0=20, n=100, num_classes=CLASSES)
    with pytest.raises(ArgumentError, match=r"expected the shape of inputs, which both:Both does not say: use --shape"):
        settled(made, ac.Memory(), None)
    with pytest.raises(ModelError, match="or say how many classes there are, with --num-classes"):
        open_system(replace(made, num_classes=None, input_shape=[48]), ac.Memory(), b"no client knows", "cpu", 1)
    told, memory = replace(made, input_shape=list(SHAPE)), ac.Memory()
    with pytest.raises(ArgumentError, match=r"expected --shape \(3, 4, 4\), that of the examples, got \(48,\)"):
        settled(replace(made, input_shape=[48]), memory, load_job(made).examples)
    open_system(told, memory, b"known to no client", "cpu", 1).answers(far(load_job(made).examples))
    assert settled(made, memory, None) == told
    flat = settled(replace(made, model=file("flat")), ac.Memory(), None)
    assert flat.input_shape == [48]
    ours = replace(made, model=str(tmp_path / "ours.safetensors"))
    with pytest.raises(ArgumentError, match=r"which .*ours.safetensors does not say: use --shape, as in"):
        settled(ours, ac.Memory(), None)
    denoiser = Denoiser("denoiser-small", (1, 8, 8), [0.5], [0.25])
    save(denoiser, tmp_path / "denoiser.safetensors", denoiser.blueprint())
    behind = replace(ours, denoise=str(tmp_path / "denoiser.safetensors"))
    assert settled(behind, ac.Memory(), None).input_shape == [1, 8, 8]
    denoiser = Denoiser("denoiser-small", (1, 2048, 2052), [0.5], [0.25])
    save(denoiser, tmp_path / "denoiser.safetensors", denoiser.blueprint())
    with pytest.raises(ArgumentError, match=r"got \(1, 2048, 2052\): use --shape"):  # before it is made to fit
        settled(behind, ac.Memory(), None)
    assert settled(replace(behind, input_shape=[1, 2048, 2052]), ac.Memory(), None).input_shape == [1, 2048, 2052]


def test_one_channel_is_not_taken_for_three(tmp_path):
    made, path = {"architecture": "small-cnn", "num_classes": CLASSES, "mean": (0.5,) * 3, "std": (0.2,) * 3}, tmp_path
    save(build("small-cnn", CLASSES, made["mean"], made["std"]), path / "net.safetensors", made)
    asked = Configuration(model=str(path / "net.safetensors"), data="", sigma=0.25, n=100, input_shape=[3, 8, 8])
    open_system(asked, ac.Memory(), b"known to no client", "cpu", 1)
    with pytest.raises(ArgumentError, match="expected inputs with 3 channels, as mean and std have, got 1"):
        open_system(replace(asked, input_shape=[1, 8, 8]), ac.Memory(), b"known to no client", "cpu", 1)


def test_labels_beyond_the_networks_classes_are_refused(file, images):
    c = Configuration(model=file("tuple"), data=images, sigma=0.25, num_classes=CLASSES, input_shape=list(SHAPE))
    examples = load_job(c).examples
    with pytest.raises(ArgumentError, match=r"expected labels 0 to 4 in .*, got labels up to 5"):
        open_system(c, ac.Memory(), b"known to no client", "cpu", 1, replace(examples, y=examples.y + 1, num_classes=6))


def test_it_warns_of_noise_the_network_does_not_know(trained_digits, tmp_path):
    model, said = load(trained_digits)
    save(model, tmp_path / "net.safetensors", said | {"norm": "l2", "sigma": 0.25})
    c = Configuration(model=str(tmp_path / "net.safetensors"), data="", sigma=1.0, input_shape=[1, 8, 8])
    with pytest.warns(AnisocertWarning, match=r"trained with noise of sigma 0\.25, got 1"):
        open_system(c, ac.Memory(), b"known to no client", "cpu", 1)


def test_a_selector_chooses_the_noise(tmp_path):
    """Its certificates hold for everyone, and the memory keeps and proves them like any other."""
    data = digits("test")
    torch.manual_seed(0)
    for name, count in (("network", 10), ("selector", 3)):
        said = {"architecture": "small-cnn", "num_classes": count, "mean": data.mean, "std": data.std}
        save(build("small-cnn", count, data.mean, data.std).eval(), tmp_path / f"{name}.safetensors", said)
    Codebook([0.125, 0.25, 0.5], 0.375).save(tmp_path / "codes.safetensors")
    network, selector, codebook = (str(tmp_path / f"{one}.safetensors") for one in ("network", "selector", "codes"))
    configuration = Configuration(
        model=network, data="", sigma=0.375, method="selected", codebook=codebook, selector=selector, n0=20, n=100,
        memory=str(tmp_path / "memory.sqlite"), numerics=Numerics("float32", False),
    )  # fmt: skip
    with open_memory(configuration) as memory:
        system = open_system(configuration, memory, b"known to no client", "cpu", 1)
        first, again = system.answers(data.x[:1]), system.answers(data.x[:1])
        assert {one.method for one in first} == {"selected"}
        assert {one.note for one in first} == {"kept"}
        assert first[0].prediction >= 0
        assert again[0].note == "inherited"
        np.testing.assert_array_equal([one.prediction for one in first], [one.prediction for one in again])
        assert memory.check().ok
        (told,) = Teller(system).outputs(["evidence"], first, data.x[:1], Key("a", "0" * 64))["evidence"]
        evidence = json.loads(told)  # with what the cap on the region follows from
        assert (evidence["codes"], evidence["cap"]) == (first[0].codes, first[0].cap) != (None, None)
        assert evidence["selector_votes"] == first[0].selector_votes > 0
    made = Denoiser("denoiser-small", data.shape, data.mean, data.std)
    save(made, tmp_path / "denoiser.safetensors", made.blueprint())
    told = replace(configuration, method="two-step", denoise=str(tmp_path / "denoiser.safetensors"), memory=None)
    with pytest.raises(ArgumentError, match="not told theta for two steps"):  # now, not once it says that it is ready
        open_system(told, ac.Memory(), b"known to no client", "cpu", 1)


def test_a_theta_that_fits_no_input_is_refused_before_anybody_asks(file, tmp_path, write_run):
    network = ac.Network(nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).eval(), 2)
    theta = np.linspace(0.2, 0.3, 36, dtype=np.float32).reshape(1, 6, 6)
    x, plan = np.zeros((1, 1, 6, 6), np.float32), ac.Plan(n=50)
    write_run(tmp_path / "run", ac.certify(network, x, smoothing=ac.Gaussian(theta), plan=plan), [0])
    c = Configuration(
        model=file("tuple"), data="", sigma=0.25, method="average", average_of=str(tmp_path / "run"),
        num_classes=CLASSES, input_shape=list(SHAPE),
    )  # fmt: skip
    with pytest.raises(ArgumentError, match=r"expected thetas of shape \(3, 4, 4\) in .*run, got \(1, 6, 6\)"):
        open_system(c, ac.Memory(), b"known to no client", "cpu", 1)
