from pathlib import Path

import pytest
import torch

from anisocert.errors import ArgumentError, ModelError
from anisocert.models import ARCHITECTURES, Normalized, build, load, suited
from anisocert.models.architectures import recognize
from anisocert.models.efficientnet_lite import _conv, _padded

THREE = ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
# millions of parameters, as the papers or torchvision give them (num_classes as there)
SIZES = {
    "resnet18": (10, 11.17), "resnet18-paper": (10, 11.18), "resnet18-imagenet": (1000, 11.69), "resnet20": (10, 0.27),
    "resnet50": (1000, 25.56), "resnet110": (10, 1.73), "wrn-40-2": (10, 2.24),
    "efficientnet-lite0": (1000, 4.65), "efficientnet-lite1": (1000, 5.42), "efficientnet-lite2": (1000, 6.09),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_number_of_parameters(name: str) -> None:
    classes, millions = SIZES[name]
    with torch.device("meta"):
        network = ARCHITECTURES[name](num_classes=classes, channels=3)
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in ("resnet50", "resnet110")])
def test_scores_and_recognition(name: str) -> None:
    model = build(name, 7, *THREE).eval()
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)
    assert recognize(model.network.state_dict()) == (name, 7, 3)


@pytest.mark.parametrize(
    ("shape", "name"),
    [((1, 8, 8), "small-cnn"), ((1, 28, 28), "small-cnn"), ((3, 32, 32), "resnet18"), ((3, 224, 224), "resnet50")],
)
def test_one_for_inputs_of_a_shape(shape: tuple[int, ...], name: str) -> None:
    assert suited(shape) == name


def test_none_of_ours_is_for_what_is_no_image() -> None:
    with pytest.raises(
        ArgumentError,
        match=r"that takes inputs of shape \(64,\), got none: .*; train your own, with noise",
    ):
        suited((64,))


def test_grey_images() -> None:
    assert build("resnet20", 4, (0.5,), (0.2,)).eval()(torch.rand(2, 1, 28, 28)).shape == (2, 4)


def test_normalisation_is_inside() -> None:
    model = Normalized(torch.nn.Identity(), *THREE)
    x = torch.rand(2, 3, 4, 4)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in THREE)
    torch.testing.assert_close(model(x), (x - mean) / std)


def test_wide_block_shortcut_follows_the_paper() -> None:
    """Pre-activation: with all convolutions of a block silent, equal widths pass x on untouched."""
    block = ARCHITECTURES["wrn-40-2"](num_classes=10, channels=3).block1.layer[1].eval()
    torch.nn.init.zeros_(block.conv2.weight)
    x = torch.randn(1, 32, 8, 8)
    torch.testing.assert_close(block(x), x)


def test_unknown_names_and_numbers() -> None:
    with pytest.raises(ArgumentError, match=r"expected architecture to be one of small-cnn.*got 'vgg'"):
        build("vgg", 10, *THREE)
    for wrong in (1, 10**9, True, 2.5, "10", None):
        with pytest.raises(ArgumentError, match=f"num_classes, a whole number from 2 to 100,000, got {wrong}"):
            build("small-cnn", wrong, *THREE)  # type: ignore[arg-type]


def test_unknown_weights_are_not_guessed() -> None:
    state = build("resnet20", 10, *THREE).network.state_dict()
    state["layer1.0.conv1.weight"] = torch.zeros(16, 16, 5, 5)
    with pytest.raises(ModelError, match="other names or shapes"):
        recognize(state)
    with pytest.raises(ModelError, match=r"got keys a\.weight"):
        recognize({"a.weight": torch.zeros(2, 2)})


def test_padding_is_that_of_tensorflow() -> None:
    """Where a stride of 2 meets an even size, the odd pixel is padded behind: outputs sit on pixels 0, 2, ..."""
    strided = _conv(1, 1, 3, 2)
    torch.nn.init.ones_(strided.weight)

    def convolution(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = strided(_padded(x, strided))
        return found

    x = torch.zeros(1, 1, 4, 4)
    x[..., 0, 0] = 1
    assert convolution(x).flatten().tolist() == [1, 0, 0, 0]
    x = torch.zeros(1, 1, 4, 4)
    x[..., 2, 2] = 1
    assert convolution(x).flatten().tolist() == [1, 1, 1, 1]
    assert convolution(torch.rand(2, 1, 7, 5)).shape == (2, 1, 4, 3)


def test_published_weights_bring_their_normalisation(tmp_path: Path) -> None:
    network = ARCHITECTURES["efficientnet-lite0"](num_classes=5, channels=3)
    torch.save(network.state_dict(), tmp_path / "efficientnet-lite0-57934424.pth")
    model, said = load(tmp_path / "efficientnet-lite0-57934424.pth")
    assert (said["architecture"], said["mean"], said["std"]) == (
        "efficientnet-lite0",
        (127 / 255,) * 3,
        (128 / 255,) * 3,
    )
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model(x), network.eval()((255 * x - 127) / 128), atol=1e-5, rtol=1e-4)
