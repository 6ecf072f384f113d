"""What a network raises on its first call, and the remedy, which is named only where the cause is plain."""

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.engine.first_call import taking
from anisocert.engine.given import Classifier
from anisocert.errors import ModelError

FLAT = nn.Linear(64, 5).eval()
GREY = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 5)).eval()
COLOUR = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 5)).eval()
SIGNAL = nn.Sequential(nn.Conv1d(2, 2, 3), nn.Flatten(), nn.Linear(96, 5)).eval()
ROWS = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).eval()


def _raised(model: Classifier, shape: tuple[int, ...]) -> str:
    with pytest.raises(ModelError) as told, torch.no_grad(), taking(shape, model):
        model(torch.zeros(2, *shape))
    return str(told.value)


@pytest.mark.parametrize(
    ("model", "shape", "remedy"),
    [
        (FLAT, (1, 8, 8), "as one row of values, it seems: anisocert.models.Reshaped(model, [64]) (--layout flat)"),
        (FLAT, (65,), "(2x65 and 64x5): its first linear layer takes 64 values, and an input has 65"),
        (ROWS, (8, 8), "takes 192 values, and an input has 64: if x is a single input, pass x[None]"),
        (ROWS, (1, 8, 8), "takes 192 values, and an input has 64: grey images, and a network for colour ones"),
        (ROWS, (5, 3, 8, 8), "has 960: for several inputs at once call system.answers(x), not answer(x)"),
        (
            GREY,
            (3, 8, 8),
            "takes 1 channel in 2 dimensions, and inputs have 3: if it may see them in grey, give",
        ),
        (COLOUR, (1, 8, 8), "and inputs have 1: if it may see grey images, give it numpy.repeat(x, 3, 1)"),
        (COLOUR, (8, 8, 3), "and inputs have 8 on the first axis: move the last one there, with numpy.moveaxis(x, -1"),
        (GREY, (8, 8), "if x is a single input, pass x[None]; if its inputs have no axis of channels, x[:, None]"),
        (GREY, (64,), "pass x.reshape(-1, 1, 8, 8), or anisocert.models.Reshaped(model, [1, 8, 8])"),
        (GREY, (5, 1, 8, 8), "for several inputs at once call system.answers(x), not answer(x)"),
        (SIGNAL, (1, 2, 50), "signals, n x channels x length in a file, say --layout channels-first"),
        (SIGNAL, (1, 50, 2), "n x length x channels in a file, save x.transpose(0, 2, 1), and say --layout channels-f"),
        (GREY, (1, 9, 9), "(2x98 and 72x5): its layers may be made for another size of inputs"),
    ],
)
def test_shapes(model: nn.Module, shape: tuple[int, ...], remedy: str) -> None:
    said = _raised(model, shape)
    assert said.startswith(f"expected a network that takes inputs of shape {shape}, got: ")
    assert remedy in said


class Turned(nn.Module):
    """Turns images of its own layout into that of the network inside it."""

    def __init__(self, network: nn.Module, grey: bool = False) -> None:
        super().__init__()
        self.network, self.grey = network, grey

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x[:, None] if self.grey else x.permute(0, 3, 1, 2))


class Rows(nn.Module):
    """Takes rows, and says nothing of why it takes nothing else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == 2
        return FLAT(x)


@pytest.mark.parametrize(
    ("model", "shape", "remedy", "mended"),
    [
        (
            Turned(COLOUR),
            (3, 8, 8),
            "channels last, it seems: anisocert.models.Reshaped(model, [8, 8, 3], channels_last=True) (--layout chann",
            lambda model: ac.models.Reshaped(model, [8, 8, 3], channels_last=True),
        ),
        (
            Turned(GREY, grey=True),
            (1, 8, 8),
            "it seems: anisocert.models.Reshaped(model, [8, 8]), or for an .npz --layout channels-first, by which",
            lambda model: ac.models.Reshaped(model, [8, 8]),
        ),
        (
            Rows(),
            (1, 8, 8),
            "as one row of values, it seems: anisocert.models.Reshaped(model, [64]) (--layout flat)",
            lambda model: ac.models.Reshaped(model, [64]),
        ),
    ],
)
def test_another_layout_that_works_is_named(model, shape, remedy, mended) -> None:
    assert remedy in _raised(model, shape)
    assert mended(model)(torch.zeros(2, *shape)).shape == (2, 5)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("no such thing"), "no such thing"),
        (KeyError("scores"), "KeyError('scores')"),  # its text is 'scores' alone
        (TypeError("not this"), "not this"),
    ],
)
def test_what_has_another_cause_gets_no_remedy_of_shapes(error: Exception, told: str) -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise error

    assert _raised(Raises(), (1, 8, 8)).endswith(f"got: {told}")


def test_inputs_that_are_taken_as_indices() -> None:
    class Words(nn.Module):
        def __init__(self, cast: bool) -> None:
            super().__init__()
            self.embedding, self.layer, self.cast = nn.Embedding(20, 8), nn.Linear(8, 5), cast

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.embedding((20 + x).long() if self.cast else x).mean(1))

    for cast in (True, False):
        assert "cannot be indices: embed them first" in _raised(Words(cast), (12,))


def test_a_linear_layer_that_was_not_reached_takes_no_blame() -> None:
    class Batch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = FLAT

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.reshape(16, 64))

    assert _raised(Batch(), (1, 8, 8)).endswith("shape '[16, 64]' is invalid for input of size 128")


@pytest.mark.parametrize(
    "one", [lambda x: x.view(1, -1), lambda x: x.reshape(1, 64), lambda x: x.flatten()], ids=["view", "reshape", "flat"]
)
def test_a_network_that_takes_one_input_at_a_time(one) -> None:
    def alone(x: torch.Tensor) -> torch.Tensor:
        return FLAT(one(x))

    class Alone(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return alone(x)

    words = "takes a batch of inputs of shape (1, 8, 8), got one that takes one input at a time ("
    for model in (alone, Alone()):
        said = _raised(model, (1, 8, 8))
        assert words in said
        assert "--layout" not in said  # which would not help
    x = torch.rand(3, 1, 8, 8)
    with torch.no_grad():  # the remedies of the message
        each = torch.stack([alone(part).flatten() for part in x.split(1)])
        torch.testing.assert_close(each, FLAT(x.flatten(1)))


def test_one_row_for_a_whole_batch() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        return FLAT(x[:1].flatten(1))

    words = r"scores of shape \(32, 5\), got \(1, 5\), one row for 32 inputs: return one for each"
    with pytest.raises(ModelError, match=words):
        ac.certify(
            first, torch.zeros(1, 64), num_classes=5, smoothing=ac.Gaussian(0.25), model_id="first",
            numerics=ac.Numerics(rows=32),
        )  # fmt: skip


def test_a_network_that_is_called_by_names() -> None:
    class Named(nn.Module):
        def forward(self, *, pixel_values: torch.Tensor) -> torch.Tensor:
            return pixel_values

    assert "it is called as model(x); wrap it in an nn.Module whose forward(x)" in _raised(Named(), (4,))


def test_remedies_work() -> None:
    x = torch.zeros(2, 1, 8, 8)
    assert ac.models.Reshaped(FLAT, [64])(x).shape == (2, 5)
    assert ac.models.Reshaped(GREY, [1, 8, 8])(x.flatten(1)).shape == (2, 5)
    assert COLOUR(torch.from_numpy(np.repeat(x.numpy(), 3, 1))).shape == (2, 5)
    assert GREY(torch.zeros(2, 3, 8, 8).mean(1, keepdims=True)).shape == (2, 5)


def test_numpy_knows_no_bfloat16() -> None:
    def box(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(FLAT(x).detach().numpy())

    asked = {"num_classes": 5, "smoothing": ac.Gaussian(0.25), "plan": ac.Plan(n0=10, n=50), "model_id": "box"}
    with pytest.raises(ModelError, match=r"numpy has no bfloat16; choose float32, .*\(--precision float32\)"):
        ac.certify(box, torch.zeros(1, 64), numerics=ac.Numerics("bfloat16"), **asked)
    assert ac.certify(box, torch.zeros(1, 64), numerics=ac.Numerics("float32"), **asked)[0].votes == 50


def test_a_system_that_is_asked_about_several_as_if_they_were_one() -> None:
    system = ac.System(GREY, num_classes=5, smoothing=ac.Gaussian(0.25), secret=bytes(32), plan=ac.Plan(n0=10, n=50))
    with pytest.raises(ModelError, match=r"call system\.answers\(x\), not answer\(x\)"):
        system.answer(torch.zeros(2, 1, 8, 8))
    assert len(system.answers(torch.zeros(2, 1, 8, 8))) == 2
