"""The behaviour of a network on fixed inputs: alike for one network, unlike for two."""

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisocert.engine import Network, Numerics, same_behaviour
from anisocert.engine.probe import ROWS, as_json, from_json, probe_inputs
from anisocert.errors import ArgumentError, ModelError

SHAPE = (1, 8, 8)


def probe(model: nn.Module, classes: int, precision: str = "float32", **options: str) -> np.ndarray:
    return Network(model.eval(), classes, numerics=Numerics(precision), **options).probe(SHAPE)


def test_inputs_are_the_same_everywhere_and_always():
    x = probe_inputs((2, 3))
    assert x.shape == (ROWS, 2, 3)
    assert x.dtype == np.float32
    assert x[0].ravel()[:3].tolist() == pytest.approx(FIRST, abs=1e-7)
    assert np.array_equal(x, probe_inputs((2, 3)))
    assert x[::4].min() >= 0
    assert x[::4].max() <= 1
    assert 0.5 < x[2::4].std() < 2
    assert x[3::4].std() > 50


FIRST = [0.01154676079750061, 0.24154922366142273, 0.11142584681510925]


def test_one_network_behaves_like_itself(small_network):
    exact = probe(small_network, 5)
    assert exact.shape == (ROWS, 5)
    assert exact.dtype == np.float32
    assert same_behaviour(exact, probe(small_network, 5))
    assert same_behaviour(exact, probe(small_network, 5, "bfloat16"))  # more than two devices differ by


def test_fitting_changes_nothing(small_network):
    network = Network(small_network, 5, numerics=Numerics("float32", compile=False, rows=160))
    before = network.probe(SHAPE)
    network.fit(SHAPE, 1)
    assert np.array_equal(before, network.probe(SHAPE))


def test_other_networks_behave_otherwise(small_network):
    found = [probe(small_network, 5)]
    for seed in range(1, 6):
        torch.manual_seed(seed)
        small_network[6].reset_parameters()
        found.append(probe(small_network, 5))
    for i in range(6):
        assert [same_behaviour(found[i], other) for other in found] == [i == j for j in range(6)]


def test_flipped_labels_behave_otherwise():
    trees = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")

    class Forest(nn.Module):
        def __init__(self, flipped: bool, unit: float) -> None:
            super().__init__()
            x = unit * np.random.default_rng(0).random((200, 64))
            y = x[:, :32].sum(1) > x[:, 32:].sum(1)
            self.trees = trees.RandomForestClassifier(20, random_state=0).fit(x, y != flipped)

        def forward(self, x: Tensor) -> Tensor:
            return torch.from_numpy(self.trees.predict_proba(x.flatten(1).numpy())).float()

    for unit in (1.0, 255.0):
        one, same, other = (probe(Forest(flipped, unit), 2, model_id="it") for flipped in (False, False, True))
        assert same_behaviour(one, same)
        assert not same_behaviour(one, other)


def test_a_wide_class_excuses_nothing(small_network):
    stored = probe(small_network, 5).astype(np.float64)
    found = stored.copy()
    found[:, [0, 1]] = stored[:, [1, 0]]
    wide = 1e6 * np.arange(ROWS)[:, None]
    assert not same_behaviour(stored, found)
    assert not same_behaviour(np.hstack([stored, wide - 1e9]), np.hstack([found, wide - 1e9]))


def test_what_is_not_finite():
    rng = np.random.default_rng(0)
    stored = rng.normal(size=(ROWS, 4)).astype(np.float32)
    stored[:, 1] = -np.inf  # a class that is masked
    stored[3] = np.nan
    kept = from_json(json.loads(json.dumps(as_json(stored), allow_nan=False)))
    assert same_behaviour(stored, kept)
    for row, column, value in ((0, 1, 0.0), (0, 0, np.nan), (0, 0, np.inf), (3, slice(None), 0.0)):
        other = kept.copy()
        other[row, column] = value
        assert not same_behaviour(stored, other)
    assert not same_behaviour(stored, kept[:, :3])
    assert not same_behaviour(stored, kept[:-1])


@pytest.mark.parametrize("kept", [[1.0, 2.0], "nonsense", [["a"]], [[1.0], [1.0, 2.0]], 3])
def test_what_is_no_probe(kept):
    with pytest.raises(ArgumentError, match="expected a probe as rows of scores"):
        from_json(kept)


def test_a_shape_that_the_network_does_not_take(small_network):
    with pytest.raises(ModelError, match=r"expected a network that takes inputs of shape \(3, 8, 8\)"):
        Network(small_network, 5).probe((3, 8, 8))
    with pytest.raises(ModelError, match=r"scores of shape \(16, 7\), got \(16, 5\)"):
        probe(small_network, 7)


def test_a_common_offset_hides_nothing(small_network):
    stored = probe(small_network, 5).astype(np.float64)
    spread = stored - stored.mean(1, keepdims=True)
    for offset in (0.0, 50.0, 1e4):
        assert same_behaviour(spread + offset, spread + offset)
        assert not same_behaviour(spread + offset, -spread + offset)
