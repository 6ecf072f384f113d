"""Each recipe's loss against a direct transcription of its formula: plain loops over examples and copies."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisocert.errors import ArgumentError
from anisocert.smoothing import Gaussian, GaussianMixture, Smoothing, Uniform
from anisocert.train import MACER, RECIPES, Cohen, Consistency, Recipe, SmoothAdv, Stability
from anisocert.train.recipe import noise_like

SIGMA, B, K = 0.25, 6, 4
NOISES = {"normal": Gaussian(SIGMA), "uniform": Uniform(SIGMA)}


@pytest.fixture(params=[(5,), (1, 3, 3)], ids=["vectors", "images"])
def batch(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor, Tensor]:
    """A small network that is sometimes right, with inputs in [0, 1]."""
    torch.manual_seed(0)
    size = math.prod(request.param)
    model = nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, K)).double()
    x = torch.rand(B, *request.param, dtype=torch.float64)
    y = model(x).argmax(1)
    y[0] = (y[0] + 1) % K
    return model, x, y


def noises(x: Tensor, smoothing: Smoothing, copies: int, seed: int) -> Tensor:
    """The noise that the loss draws from the same seed, `copies x b x *shape`."""
    torch.manual_seed(seed)
    return noise_like(x, smoothing, copies).view(copies, *x.shape)


def value(recipe: Recipe, model: nn.Module, x: Tensor, y: Tensor, smoothing: Smoothing, seed: int) -> float:
    torch.manual_seed(seed)
    return float(recipe.loss(model, x, y, smoothing).detach())


def probabilities(model: nn.Module, x: Tensor, sharpness: float = 1.0) -> np.ndarray:
    """Softmax of one input, by the definition."""
    logits = sharpness * model(x[None])[0].detach().numpy()
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


@pytest.mark.parametrize("base", NOISES)
def test_cohen(batch: tuple[nn.Module, Tensor, Tensor], base: str) -> None:
    model, x, y = batch
    eps = noises(x, NOISES[base], 1, seed=3)[0]
    expected = np.mean([-np.log(probabilities(model, x[i] + eps[i])[y[i]]) for i in range(B)])
    assert value(Cohen(), model, x, y, NOISES[base], seed=3) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("base", NOISES)
def test_stability(batch: tuple[nn.Module, Tensor, Tensor], base: str) -> None:
    model, x, y = batch
    first, second = noises(x, NOISES[base], 2, seed=4)
    total = 0.0
    for i in range(B):
        p, q = probabilities(model, x[i] + first[i]), probabilities(model, x[i] + second[i])
        total += -np.log(p[y[i]]) + 6 * sum(p[c] * np.log(p[c] / q[c]) for c in range(K))
    assert value(Stability(), model, x, y, NOISES[base], seed=4) == pytest.approx(total / B, rel=1e-9)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("base", NOISES)
def test_consistency(batch: tuple[nn.Module, Tensor, Tensor], base: str, copies: int) -> None:
    model, x, y = batch
    eps, total = noises(x, NOISES[base], copies, seed=6), 0.0
    for i in range(B):
        each = [probabilities(model, x[i] + eps[j, i]) for j in range(copies)]
        mean = sum(each) / copies
        total += sum(-np.log(p[y[i]]) + 7 * np.sum(mean * np.log(mean / p)) for p in each) / copies
        total += 0.3 * -np.sum(mean * np.log(mean))
    recipe = Consistency(copies=copies, weight=7.0, entropy=0.3)
    assert value(recipe, model, x, y, NOISES[base], seed=6) == pytest.approx(total / B, rel=1e-9)


def test_consistency_has_the_papers_weights() -> None:
    assert [Consistency.for_sigma(sigma).weight for sigma in (0.25, 0.5, 1.0)] == [20.0, 10.0, 10.0]


@pytest.mark.parametrize("copies", [1, 3])
def test_smoothadv(batch: tuple[nn.Module, Tensor, Tensor], copies: int) -> None:
    """The attack of one input at a time, with its gradient by hand-written steps, then the mean cross-entropy."""
    model, x, y = batch
    recipe = SmoothAdv(epsilon=0.3, steps=4, copies=copies)
    eps = noises(x, NOISES["normal"], copies, seed=5)
    total = 0.0
    for i in range(B):
        delta = torch.zeros_like(x[i])
        for _ in range(4):
            delta.requires_grad_(True)
            mean = sum(model((x[i] + delta + eps[j, i])[None])[0].softmax(0)[y[i]] for j in range(copies)) / copies
            (gradient,) = torch.autograd.grad(-torch.log(mean), delta)
            delta = delta.detach() + 2 * 0.3 / 4 * gradient / gradient.norm()
            delta = (x[i] + delta).clamp(0, 1) - x[i]
            if delta.norm() > 0.3:
                delta = delta * 0.3 / delta.norm()
        assert delta.norm() <= 0.3 + 1e-12
        assert delta.norm() > 0.05
        total += np.mean([-np.log(probabilities(model, x[i] + delta + eps[j, i])[y[i]]) for j in range(copies)])
    assert value(recipe, model, x, y, NOISES["normal"], seed=5) == pytest.approx(total / B, rel=1e-7)
    assert total / B > value(Cohen(), model, x, y, NOISES["normal"], seed=5) or copies > 1


def test_smoothadv_attacks_in_evaluation_mode_and_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train()
    model[1].weight.requires_grad_(False)  # frozen by the user: stays frozen
    before = model[2].running_mean.clone()
    x, y = torch.rand(8, 1, 2, 2), torch.zeros(8, dtype=torch.int64)
    delta = SmoothAdv().attack(model, x, y, 0.1 * torch.randn_like(x))
    assert torch.equal(model[2].running_mean, before)
    assert model.training
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert not delta.requires_grad
    assert (x + delta).min() >= 0
    assert (x + delta).max() <= 1


def test_smoothadv_leaves_no_trace_of_an_attack_that_fails() -> None:
    class Failing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError

    model = nn.Sequential(nn.BatchNorm1d(4), Failing(4, 3)).train()
    model[0].bias.requires_grad_(False)
    x, y = torch.rand(8, 4), torch.zeros(8, dtype=torch.int64)
    with pytest.raises(KeyError):
        SmoothAdv().attack(model, x, y, torch.zeros_like(x))
    assert all(module.training for module in model.modules())
    assert [p.requires_grad for p in model.parameters()] == [True, False, True, True]


def test_smoothadv_warms_up() -> None:
    recipe = SmoothAdv(epsilon=1.0, warmup=4)
    assert [recipe.during(epoch, 9).epsilon for epoch in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


@pytest.mark.parametrize("gamma", [8.0, 1.5])
def test_macer(batch: tuple[nn.Module, Tensor, Tensor], gamma: float) -> None:
    model, x, y = batch
    recipe = MACER(copies=5, beta=3.0, gamma=gamma, weight=2.0)
    eps = noises(x, NOISES["normal"], 5, seed=6)
    total, counted = 0.0, 0
    for i in range(B):
        p = np.mean([probabilities(model, x[i] + eps[j, i]) for j in range(5)], axis=0)
        q = np.mean([probabilities(model, x[i] + eps[j, i], sharpness=3.0) for j in range(5)], axis=0)
        total += -np.log(p[y[i]])
        second, first = np.argsort(q)[-2:]
        xi = NormalDist().inv_cdf(q[first]) - NormalDist().inv_cdf(q[second])
        if first == y[i] and abs(xi) <= gamma:
            counted += 1
            total += 2.0 * SIGMA / 2 * (gamma - xi)
    assert 0 < counted < B
    assert value(recipe, model, x, y, NOISES["normal"], seed=6) == pytest.approx(total / B, rel=1e-6)


def test_macer_gradient_pushes_the_gap_and_stays_finite() -> None:
    """Infinite gaps (one class certain) are not counted, and send no NaN through the gradient either."""
    scores = torch.tensor([[0.3, 0.1, 0.0], [900.0, 0.0, 0.0]], requires_grad=True)
    loss = MACER(copies=1, beta=1.0).loss(
        _Returns(scores), torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64), NOISES["normal"]
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(scores.grad).all()
    assert scores.grad[0, 0] < 0 < scores.grad[0, 1]


def test_macer_of_the_code_that_the_paper_adapted() -> None:
    """It cuts probabilities at 0.02 and 0.98: the same gradient without beta, with the gap of these two as gamma.

    Where the second is below 0.02 and the first not above 0.98, only the first counts there, and both here.
    """
    p = torch.tensor([[0.6, 0.3, 0.1], [0.9, 0.06, 0.04], [0.985, 0.01, 0.005], [0.2, 0.5, 0.3]], dtype=torch.float64)
    y, sigma = torch.zeros(4, dtype=torch.int64), NOISES["normal"]
    mine, theirs = (p.log().requires_grad_(True) for _ in range(2))
    MACER(copies=1, beta=1.0, gamma=4.1, weight=12.0).loss(_Returns(mine), torch.zeros(4, 1), y, sigma).backward()
    q = theirs.softmax(1)
    first, second = q[:3].topk(2).values.clamp(0.02, 0.98).unbind(1)
    xi = torch.special.ndtri(first) - torch.special.ndtri(second)
    ((-q[:, 0].log().sum() - 12 * SIGMA / 2 * xi.sum()) / 4).backward()
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


class _Returns(nn.Module):
    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, x: Tensor) -> Tensor:
        return self.scores


def test_macer_options_of_the_paper() -> None:
    assert [MACER.for_sigma(s).weight for s in (0.12, 0.25, 0.5, 1.0)] == [12, 12, 4, 12]
    late = MACER.for_sigma(1.0)
    assert [late.during(epoch, 440).weight for epoch in (0, 199, 200, 439)] == [0, 0, 12, 12]


def test_noise_has_the_scale_it_says() -> None:
    x = torch.zeros(20_000, 2)
    torch.manual_seed(0)
    normal, uniform = noise_like(x, Gaussian(0.5)), noise_like(x, Uniform([0.5, 2.0]))
    assert float(normal.std()) == pytest.approx(0.5, rel=0.02)
    assert uniform.abs().amax(0).tolist() == pytest.approx([0.5, 2.0], rel=0.01)
    assert uniform.std(0).tolist() == pytest.approx([0.5 / 3**0.5, 2 / 3**0.5], rel=0.02)


def test_noise_of_one_component_is_base_noise_times_theta_bit_by_bit() -> None:
    x, sigma = torch.rand(5, 1, 2, 3), np.linspace(0.1, 0.7, 6, dtype=np.float32).reshape(1, 2, 3)
    for smoothing, scale in ((Gaussian(0.3), float(np.float32(0.3))), (Gaussian(sigma), torch.from_numpy(sigma))):
        torch.manual_seed(3)
        drawn = noise_like(x, smoothing, copies=2)
        torch.manual_seed(3)
        assert torch.equal(drawn, torch.randn(10, 1, 2, 3) * scale)
        assert isinstance(smoothing.scale(x), float) == (smoothing.theta.size == 1)


def test_noise_of_a_mixture_is_of_one_component_per_input() -> None:
    x, generator = torch.zeros(20_000, 2), torch.Generator().manual_seed(0)
    for sigmas in ([0.1, 10.0], [[0.1, 0.2], [10.0, 20.0]]):
        scale = GaussianMixture([0.25, 0.75], sigmas).scale(x, generator)
        large = (scale > 5).any(1)
        assert float(large.float().mean()) == pytest.approx(0.75, abs=0.01)
        assert scale[large].unique().tolist() == pytest.approx(np.unique(sigmas[1]).tolist())
        assert scale[~large].unique().tolist() == pytest.approx(np.unique(sigmas[0]).tolist())
    torch.manual_seed(0)
    assert float(noise_like(x, GaussianMixture([0.25, 0.75], [0.1, 10.0])).std()) == pytest.approx(75**0.5, rel=0.02)


@pytest.mark.parametrize("name", RECIPES)
def test_which_noise_a_recipe_is_for(name: str) -> None:
    recipe = RECIPES[name]()
    recipe.check(Gaussian(1.0))
    if name in ("cohen", "stability", "consistency", "distillation", "selector", "denoiser"):
        recipe.check(Uniform(1.0))
    else:
        with pytest.raises(ArgumentError, match=f"expected normal noise with recipe {name}, got Uniform"):
            recipe.check(Uniform(1.0))
    if recipe.mixtures:
        return
    with pytest.raises(ArgumentError, match="got GaussianMixture"):
        recipe.check(GaussianMixture([0.5, 0.5], [1.0, 2.0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stability(-1),
        lambda: Consistency(copies=1),
        lambda: SmoothAdv(epsilon=0),
        lambda: SmoothAdv(steps=0),
        lambda: MACER(start=1.0),
    ],
)
def test_wrong_options(make: object) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        make()  # type: ignore[operator]
