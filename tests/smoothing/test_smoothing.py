"""What every noise must do, and what each one certifies."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from anisocert import Gaussian, GaussianMixture, Uniform
from anisocert.errors import ArgumentError
from anisocert.smoothing import base

NOISES = {"gaussian": Gaussian(0.5), "uniform": Uniform(0.5), "mixture": GaussianMixture([0.25, 0.75], [0.5, 1.0])}
SHARES = np.linspace(0.001, 0.999, 201)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_gap_is_zero_without_a_lead_and_grows_with_it(noise):
    assert noise.gap(0.3, 0.3) == 0
    assert noise.gap(0.3, 0.4) == 0
    assert noise.gap(0.0, 1.0) == 0
    gaps = noise.gap(SHARES, 1 - SHARES)
    assert (gaps[:101] == 0).all()
    assert (np.diff(gaps[100:]) > 0).all()
    assert noise.gap(SHARES[:, None], SHARES).shape == (201, 201)
    with np.errstate(all="raise"):
        noise.gap(0.0, 1.0)


FORMULAS = {
    "gaussian": lambda a, b: (norm.ppf(a) - norm.ppf(b)) / 2,
    "uniform": lambda a, b: a - b,
    "mixture": lambda a, b: np.sqrt(np.pi / 2) * (a - b),
}


@pytest.mark.parametrize("name", NOISES)
def test_gap_is_the_formula_rounded_down(name):
    a, b = np.meshgrid(SHARES, SHARES)
    a, b = a[a > b], b[a > b]
    expected = FORMULAS[name](a, b)
    gaps = NOISES[name].gap(a, b)
    assert (gaps < expected).all()
    assert np.allclose(gaps, expected, rtol=1e-10, atol=1e-13)


def test_largest_gaps_of_the_usual_plan():
    """100,000 unanimous votes at alpha = 0.001: 3.8115 in l2, 0.99986 in l1."""
    p_a = 0.001 ** (1 / 100_000)
    assert float(Gaussian(1.0).gap(p_a, 1 - p_a)) == pytest.approx(3.8115, abs=5e-5)
    assert float(Uniform(1.0).gap(p_a, 1 - p_a)) == pytest.approx(0.99986, abs=5e-6)


@pytest.mark.parametrize(("noise", "p"), [(Gaussian(1.0), 2), (Uniform(1.0), 1), (NOISES["mixture"], 2)])
def test_region_has_the_noises_norm_and_is_rounded_inwards(noise, p):
    theta = np.linspace(0.1, 3, 6, dtype=np.float32).reshape(2, 3)
    region = noise.region(np.zeros((2, 3)), theta, 0.7)
    assert region.norm == p
    assert (region.axes < theta.astype(np.float64) * 0.7).all()
    assert np.allclose(region.axes, theta.astype(np.float64) * 0.7, rtol=1e-14)


def test_region_of_a_scalar_theta_has_the_inputs_shape():
    assert Gaussian(0.5).region(np.zeros((3, 4)), np.float32(0.5), 1.0).shape == (3, 4)


@pytest.mark.parametrize("kind", [Gaussian, Uniform])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, [], [1.0, -1.0], "wide", "0.25", ["0.25"], None, 1e-60])
def test_bad_parameters(kind, value):
    with pytest.raises(ArgumentError, match=r"expected (sigma|lam).*got"):
        kind(value)


@pytest.mark.parametrize("kind", [Gaussian, Uniform])
def test_parameters_are_float32_copies(kind):
    given = np.ones((2, 2), np.float32)
    noise = kind(given)
    given[0, 0] = 7  # still the caller's own, and writable
    assert noise.theta.dtype == np.float32
    assert (noise.theta == 1).all()
    assert not noise.theta.flags.writeable
    assert noise.scales(torch.ones(5, 2, 2)).shape == (5, 1, 2, 2)


# The mixture


def test_mixture_theta_is_rounded_down():
    noise = GaussianMixture([0.25, 0.75], [0.5, 1.0])
    assert [one.flags.writeable for one in (noise.theta, noise.sigmas)] == [False, False]
    exact = (0.25 / 0.25 + 0.75) ** -0.5
    assert exact * (1 - 1e-6) < float(noise.theta) < exact


@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-8])
def test_mixture_theta_is_that_of_the_components_as_they_are_drawn(small):
    """A GPU compares a uniform number in float32 with the cumulated weights in float32."""
    noise = GaussianMixture([1 - small, small], [1.0, 1e-3])
    cumulated = np.float32(np.cumsum(noise.weights)[0])
    grid = ((np.arange(2**32 - 2**16, 2**32, dtype=np.uint64)).astype(np.float32) + np.float32(0.5)) * np.float32(
        2**-32
    )
    drawn = np.mean(grid >= cumulated) * 2.0**-16 if small < 1e-5 else 1 - float(cumulated) + 2.0**-24
    assert float(noise.theta) <= ((1 - drawn) + drawn / 1e-6) ** -0.5


def test_mixture_of_one_component_is_its_sigma():
    sigma = np.array([0.3, 0.7], np.float32)
    noise = GaussianMixture([1.0], [sigma])
    assert np.allclose(noise.theta, sigma, rtol=5e-7)
    assert (noise.theta < sigma).all()


def test_mixture_scales_are_its_components():
    noise = GaussianMixture([0.5, 0.5], [0.2, [0.3, 0.4]])
    theta = torch.from_numpy(noise.theta.copy()).expand(7, 2)
    assert noise.scales(theta).shape == (7, 2, 2)
    assert torch.equal(noise.scales(theta)[3], torch.tensor([[0.2, 0.2], [0.3, 0.4]]))
    scalar = NOISES["mixture"]
    assert scalar.scales(torch.full((7, 1, 1), float(scalar.theta))).shape == (7, 2, 1, 1)


def test_mixture_with_another_theta_is_refused():
    """Its votes would be drawn with the given components, and the region promised for other ones."""
    with pytest.raises(ArgumentError, match="mixture's own theta"):
        NOISES["mixture"].scales(torch.full((7, 1, 1), 3.0))


@pytest.mark.parametrize(
    ("weights", "sigmas", "name"),
    [
        ([0.5, 0.6], [1.0, 1.0], "weights"),
        ([1.0, 0.0], [1.0, 1.0], "weights"),
        ([1.5, -0.5], [1.0, 1.0], "weights"),
        ([float("nan"), 1.0], [1.0, 1.0], "weights"),
        ([], [], "weights"),
        ([1.0], [1.0, 2.0], "sigmas"),
        ([0.5, 0.5], [1.0, -2.0], "sigmas"),
        ([0.5, 0.5], [[1.0, 2.0], [1.0, 2.0, 3.0]], "sigmas"),
        ([0.5, 0.5], [1e-45, 1.0], "sigmas"),
    ],
)
def test_bad_mixtures(weights, sigmas, name):
    with pytest.raises(ArgumentError, match=rf"expected.*{name}.*got"):
        GaussianMixture(weights, sigmas)


def test_scales_are_placed_once_and_go_with_their_noise():
    noise, x = Gaussian(np.linspace(0.1, 0.6, 6).reshape(1, 2, 3)), torch.zeros(4, 1, 2, 3)
    first = noise.scale(x)
    assert noise.scale(x[:2]).data_ptr() == first.data_ptr()
    np.testing.assert_array_equal(first.numpy(), noise.theta)
    assert Gaussian(noise.theta * 2).scale(x).data_ptr() != first.data_ptr()
    key = id(noise)
    assert key in base._PLACED
    del noise
    assert key not in base._PLACED
