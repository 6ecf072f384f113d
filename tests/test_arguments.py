"""What somebody who has not read the documentation types: one sentence, with what to write instead."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.data import digits
from anisocert.errors import AnisocertError, ArgumentError, ModelError

X = np.zeros((2, 4), np.float32)
CODES = ac.Codebook([0.5, 0.25], 0.5)


class Own(ac.Fixed):
    """A method of the user's."""


class Forest:
    """An estimator as scikit-learn's are."""

    def predict_proba(self, x):
        return x


def model():
    torch.manual_seed(0)
    return nn.Linear(4, 3).eval()


def certify(**given):
    usual = {"model": model(), "x": X, "num_classes": 3, "smoothing": ac.Gaussian(0.25), "plan": ac.Plan(n=20)}
    return ac.certify(**usual | given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"smoothing": 0.5}, "expected smoothing as in smoothing=ac.Gaussian(0.5), got 0.5"),
        ({"smoothing": "gaussian"}, "expected smoothing as in smoothing=ac.Gaussian(0.25), got 'gaussian'"),
        ({"smoothing": -1}, "expected smoothing as in smoothing=ac.Gaussian(0.25), got -1"),
        ({"smoothing": ac.Uniform}, "expected smoothing as in smoothing=ac.Uniform(0.5), got the class Uniform"),
        ({"method": "isotropic"}, "expected method as in method=ac.Isotropic(), got 'isotropic'"),
        ({"method": "two-step"}, "expected method as in method=ac.TwoStep(), got 'two-step'"),
        ({"method": ac.Cascade}, "expected method as in method=ac.Cascade(), got the class Cascade"),
        ({"method": "ancer"}, "expected method as in method=ac.Anisotropic(), got 'ancer'"),
        ({"method": ac.Anisotropic}, "expected method as in method=ac.Anisotropic(), got the class Anisotropic"),
        ({"method": Own}, "expected method as in method=Own(...), got the class Own"),
        ({"plan": 1000}, "expected plan as in plan=ac.Plan(n=1000), got 1000"),
        ({"plan": {"n": 99, "stop": "betting"}}, "expected plan as in plan=ac.Plan(n=99, stop='betting'), got a dict"),
        ({"plan": float("inf")}, "expected plan as in plan=ac.Plan(n=100_000), got inf"),
        ({"numerics": X}, "expected numerics as in numerics=ac.Numerics(precision='float32'), got an ndarray"),
        ({"plan": ac.Plan}, "expected plan as in plan=ac.Plan(n=100_000), got the class Plan"),
        (
            {"numerics": "bfloat16"},
            "expected numerics as in numerics=ac.Numerics(precision='bfloat16'), got 'bfloat16'",
        ),
        ({"on_votes": 5}, "expected on_votes as a function of a number of votes, got 5"),
        ({"model_id": 5}, "expected model_id as a name, as in model_id='digits-3', got 5"),
        ({"model": "a.pt"}, "got 'a.pt': load it first, with model, _ = anisocert.models.load('a.pt')"),
        ({"model": OrderedDict(a=X)}, "got an OrderedDict of weights: put them into a network first"),
        ({"model": nn.Linear}, "expected model as a network, got the class Linear: make one, as in Linear(...)"),
        ({"model": (model(), {})}, "got a tuple that begins with one: pass that"),
        ({"model": torch.zeros(2), "x": model()}, "got a Tensor: the model comes first, then x"),
        ({"model": lambda x: x}, "give it a name that changes whenever its answers do, as in model_id="),
        ({"x": "digits"}, "got 'digits': read the inputs first, as in anisocert.data.load('digits').x"),
        ({"x": digits("test")}, "got a Dataset: pass its inputs, data.x (and ids=data.ids)"),
        ({"x": torch.utils.data.DataLoader([1])}, "got a DataLoader: pass the inputs of a batch"),
        ({"x": X[0]}, "expected x of shape (inputs, *shape) with at least one input, got (4,): of one input, pass x["),
        ({"model": Forest()}, "got a Forest: pass an nn.Module whose forward(x) is torch.from_"),
        ({"x": (one for one in X)}, "got a generator: collect what it gives first, with numpy.stack(list(x))"),
        ({"x": (X, [1, 0])}, "got tuple (setting an array element with a sequence."),
        ({"x": (X, [1, 0])}, "pass the inputs alone, without labels, all of one shape, as one array"),
        ({"x": torch.zeros(2, 4).to_sparse()}, "expected x as an array of numbers, got Tensor (can't convert Sparse"),
        ({"x": torch.zeros(2, 4, device="meta")}, "expected x as an array of numbers, got Tensor"),
        ({"x": object()}, "expected x as an array of floats, got an object"),
    ],
)
def test_certify_says_what_to_write(given, said):
    with pytest.raises(ArgumentError) as error:
        certify(**given)
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_wrong_number_of_classes_says_the_right_one():
    with pytest.raises(ModelError, match=r"got \(\d+, 3\): give num_classes=3"):
        certify(num_classes=10)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (lambda: ac.Memory().admit(certify()), "expected one certificate, got a list: memory.admit_all(certificates)"),
        (lambda: ac.Memory().admit(X[0]), "got an ndarray: certify the input first, or ask memory.lookup(x)"),
        (lambda: ac.Memory().admit_all(certify()[0]), "got one: memory.admit(certificate)"),
        (lambda: ac.Memory().admit_all(5), "expected certificates as ac.certify returns them, got 5"),
        (lambda: ac.Memory().find(0.7), "expected an id, a whole number, got 0.7"),
        (lambda: ac.Memory().find("a"), "expected an id, a whole number, got 'a'"),
        (lambda: ac.Memory("m.sqlite"), "got 'm.sqlite'; a memory that stays is Memory.open('memory.sqlite')"),
        (
            lambda: ac.System(model(), smoothing=ac.Gaussian(1), secret=bytes(16), memory="m.sqlite"),
            "expected memory as in memory=ac.Memory.open('m.sqlite'), got 'm.sqlite'",
        ),
        (lambda: ac.predict("a.pt", X, smoothing=ac.Gaussian(1)), "model, _ = anisocert.models.load('a.pt')"),
        (lambda: ac.Network("a.pt", 3), "model, _ = anisocert.models.load('a.pt')"),
        (lambda: ac.GaussianMixture([0.5, 0.5], 0.25), "expected sigmas, one per weight, as in [0.2, 0.4], got 0.25"),
        (lambda: ac.GaussianMixture("a", [0.2]), "expected weights positive with sum 1, got 'a'"),
        (lambda: ac.GaussianMixture([1], np.array(0.2)), "expected sigmas, one per weight, as in [0.2, 0.4], got"),
        (lambda: ac.Network(model(), 3, numerics="float32"), "numerics=ac.Numerics(precision='float32'), got 'fl"),
        (lambda: ac.Network(model(), 3, device=1.5), "expected a device that this torch can use, got '1.5'"),
        (lambda: ac.Coded(model(), None, [0.5, 0.25]), "codebook as in ac.Codebook([0.5, 0.25], 0.5), got a list"),
        (lambda: ac.Coded("a.pt", None, CODES), "as an nn.Module, or a list of one per code, got 'a.pt': "),
        (lambda: ac.Coded(model(), "a.pt", CODES), "selector as an nn.Module, or None for a cascade, got 'a.pt'"),
        (lambda: ac.Anisotropic(ascent=None), "expected ascent as in anisocert.optimize.Ascent(), got None"),
        (lambda: ac.Anisotropic(finalists="all"), "expected finalists, a whole number >= 1, got 'all'"),
        (lambda: ac.Anisotropic(domain=1), "expected domain as two numbers, as in (0.0, 1.0), got 1"),
        (lambda: ac.Anisotropic(isotropic=ac.Isotropic), "as in isotropic=ac.Isotropic(), got the class Isotropic"),
        (lambda: ac.Anisotropic(outputs="scores"), "expected outputs 'logits' or 'probabilities', got 'scores'"),
        (lambda: ac.Isotropic("far"), "expected limit, a number >= 1, got 'far'"),
        (lambda: ac.Isotropic(pilots=1), "two shares of the plan's n, as in (0.01, 0.1), got 1"),
        (lambda: ac.Average.of(certify()), "as in [c.theta for c in certificates], got a Certificate among them"),
        (lambda: ac.Average.of(5), "expected thetas, a list of arrays, got 5"),
    ],
)
def test_the_rest_says_what_to_write(typed, said):
    with pytest.raises(ArgumentError) as error:
        typed()
    assert said in str(error.value)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_keeps_promises_says_why_it_is_not_copied(copied):
    for one in (ac.Memory(), ac.System(model(), smoothing=ac.Gaussian(1), num_classes=3, secret=bytes(16))):
        if copied is copy.copy and isinstance(one, ac.System):
            continue
        with pytest.raises(AnisocertError, match="cannot be copied or sent to another process: open its file there"):
            copied(one)


def test_a_list_that_is_refused_leaves_the_memory_as_it_was():
    memory = ac.Memory()
    with pytest.raises(ArgumentError, match="expected a certificate, got None"):
        memory.admit_all([*certify(), None])
    assert memory.submissions == 0


def test_a_codebook_is_saved_at_a_path_that_is_a_text(tmp_path):
    CODES.save(str(tmp_path / "codes.safetensors"))
    assert ac.Codebook.load(str(tmp_path / "codes.safetensors")).codes.tolist() == CODES.codes.tolist()
