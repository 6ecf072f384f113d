"""How a model is computed is its own, also inside of a caller's autocast."""

import logging

import pytest
import torch

import anisocert as ac
from anisocert.engine import Network
from anisocert.engine.trial import Trial

X = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(3))
CALLERS = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("callers", CALLERS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_scores_are_the_same_inside_of_autocast(small_network, precision, callers):
    trial = Trial(small_network, precision, torch.device("cpu"), told_theta=False)
    expected, exact = trial.evaluate(small_network, X), trial._in_float32(X)
    with torch.autocast("cpu", callers):
        own = small_network(X)  # autocast keeps the weights of the last call in its type
        found = trial.evaluate(small_network, X)
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
        assert trial._in_float32(X).dtype == torch.float32
        assert torch.equal(trial._in_float32(X), exact)
        assert torch.equal(small_network(X), own)


@pytest.mark.parametrize("callers", CALLERS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("boxed", [False, True], ids=["module", "function"])
def test_certificates_are_the_same_inside_of_autocast(small_network, precision, callers, boxed, caplog):
    def certified():
        model = (lambda x: small_network(x)) if boxed else small_network
        return ac.certify(
            model, X, num_classes=5, smoothing=ac.Gaussian(0.25), plan=ac.Plan(n0=10, n=200),
            numerics=ac.Numerics(precision), model_id="box" if boxed else None,
        )  # fmt: skip

    expected = [(one.prediction, one.gap) for one in certified()]
    with torch.autocast("cpu", callers), caplog.at_level(logging.INFO):
        small_network(X)
        assert [(one.prediction, one.gap) for one in certified()] == expected
    assert "not run" not in caplog.text


@pytest.mark.parametrize("callers", CALLERS)
def test_slopes_are_the_same_inside_of_autocast(small_network, callers):
    network = Network(lambda x: small_network(x), 5, numerics=ac.Numerics("bfloat16"), model_id="box")

    def slope():
        leaf = X.clone().requires_grad_(True)
        return torch.autograd.grad(network.differentiable_scores(leaf)[:, 0].sum(), [leaf])[0]

    expected = slope()
    with torch.autocast("cpu", callers):
        small_network(X)
        assert torch.equal(slope(), expected)
