"""The denoiser that is told theta: what is known without learning, and its file."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import anisocert as ac
from anisocert import models
from anisocert.engine.told import beside, under
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Denoised, Denoiser, build, load_denoiser, save, suited_denoiser

GREY = ("denoiser-small", (1, 8, 8), [0.3], [0.35])


@pytest.fixture
def trained():
    """A denoiser whose layers do something, in evaluation mode."""
    torch.manual_seed(0)
    made = Denoiser(*GREY)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.eval()


def test_inputs_without_noise_pass_unchanged(trained):
    x = torch.rand(4, 1, 8, 8)
    assert torch.equal(under(0.0, trained)(x), x)


@pytest.mark.parametrize(("noise", "spread"), [("gaussian", 1.0), ("uniform", 3**-0.5)])
def test_before_it_learns_it_is_the_best_linear_guess(noise, spread):
    made = Denoiser(*GREY, noise=noise).eval()
    x, theta = torch.rand(4, 1, 8, 8), torch.rand(1, 8, 8) * 2
    level = spread * theta
    wanted = 0.3 + (x - 0.3) * 0.35**2 / (0.35**2 + level**2)
    found = under(theta, made)(x)
    assert torch.allclose(found, wanted, atol=1e-6)
    # so that the error, of values with that mean and deviation, is 1 in its own units
    torch.manual_seed(0)
    clean = 0.3 + 0.35 * torch.randn(2000, 1, 8, 8)
    eps = torch.randn_like(clean) if noise == "gaussian" else 2 * torch.rand_like(clean) - 1
    pair = beside(clean + theta * eps, theta)
    assert float(made.error(pair, made(pair), clean).detach()) == pytest.approx(1.0, abs=0.02)


def test_values_under_much_noise_are_not_believed(trained):
    """Whatever they are: they change nothing, here or around them."""
    x, theta = torch.rand(2, 1, 8, 8), torch.full((1, 8, 8), 0.2)
    theta[:, :, 4:] = 1e6
    other = x.clone()
    other[:, :, :, 4:] = 1 - other[:, :, :, 4:]
    assert torch.allclose(under(theta, trained)(x), under(theta, trained)(other), atol=1e-4)


def test_told_a_scalar_it_does_not_know_the_shape():
    torch.manual_seed(0)
    made = Denoiser(*GREY, told="scalar").eval()
    x, theta = torch.rand(2, 1, 8, 8), torch.rand(1, 8, 8) + 0.1
    assert torch.allclose(under(theta, made)(x), under(theta.mean(), made)(x), atol=1e-6)
    assert torch.allclose(under(theta, made)(x), under(theta.flip(2), made)(x), atol=1e-6)
    assert not torch.allclose(under(theta, made)(x), under(2 * theta, made)(x))


def test_sizes():
    weights = {name: sum(p.numel() for p in Denoiser(name, (3, 32, 32), [0.5] * 3, [0.25] * 3).parameters())
               for name in ("denoiser", "denoiser-small")}  # fmt: skip
    assert weights["denoiser-small"] < 100_000 < weights["denoiser"] < 1_000_000
    assert (suited_denoiser((1, 28, 28)), suited_denoiser((3, 224, 224))) == ("denoiser-small", "denoiser")
    large = Denoiser("denoiser-small", (3, 32, 32), [0.5] * 3, [0.25] * 3).eval()
    assert large(torch.rand(1, 2, 3, 224, 224)).shape == (1, 3, 224, 224)


@pytest.fixture
def files(tmp_path, trained):
    save(trained, tmp_path / "denoiser.safetensors", trained.blueprint() | {"recipe": "any"})
    network = build("small-cnn", 10, (0.3,), (0.35,)).eval()
    about = {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.35,)}
    save(network, tmp_path / "net.safetensors", about | {"norm": "l2", "sigma": 0.25})
    return tmp_path / "net.safetensors", tmp_path / "denoiser.safetensors"


def test_a_file_gives_back_the_same_function(files, trained):
    found, known = load_denoiser(files[1])
    pair = torch.rand(3, 2, 1, 8, 8)
    assert torch.equal(found(pair), trained(pair))
    wanted = {"kind": "denoiser", "told": "theta", "noise": "gaussian", "shape": [1, 8, 8], "levels": [0.05, 1.0]}
    assert {name: known[name] for name in wanted} == wanted


def test_it_stands_in_front_of_a_network_and_is_part_of_its_hash(files, tmp_path, trained):
    network, file = files
    both, known = models.load(network, denoise=str(file), shape=(1, 8, 8))
    assert isinstance(both, Denoised)
    assert ac.Network(both, 10).told_theta
    assert "sigma" not in known
    assert known["notes"] == ("its denoiser is told theta, and was trained for gaussian noise of 0.05 to 1",)
    hashes = {ac.Network(both, 10).hash, ac.Network(models.load(network)[0], 10).hash}
    with torch.no_grad():
        trained.layers.last.bias[0] += 1e-3
    save(trained, tmp_path / "other.safetensors", trained.blueprint())
    hashes.add(ac.Network(models.load(network, denoise=str(tmp_path / "other.safetensors"))[0], 10).hash)
    trained.told = "scalar"
    save(trained, tmp_path / "scalar.safetensors", trained.blueprint())
    hashes.add(ac.Network(models.load(network, denoise=str(tmp_path / "scalar.safetensors"))[0], 10).hash)
    assert len(hashes) == 4


def test_one_is_not_taken_for_the_other(files):
    network, file = files
    with pytest.raises(ModelError, match="got a denoiser: give the network, and --denoise"):
        models.load(file)
    models.Codebook([0.5, 0.25], 0.5).save(file.with_name("codes.safetensors"))
    with pytest.raises(ModelError, match="got a codebook: give the network, and --codebook"):
        models.load(file.with_name("codes.safetensors"))
    with pytest.raises(ModelError, match="expected a denoiser of `anisocert train --recipe denoiser`"):
        models.load(network, denoise=str(network))
    with pytest.raises(
        ArgumentError, match=r"expected inputs of shape \(1, height, width\), both multiples of 4, .* got \(3, 8"
    ):
        models.load(network, denoise=str(file), shape=(3, 8, 8))
    with pytest.raises(ArgumentError, match=r"expected a denoiser, a .safetensors file"):
        models.load(network, denoise="absent.safetensors")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"told": "nothing"}, "told of a denoiser to be one of theta, scalar"),
        ({"architecture": "resnet18"}, "architecture of a denoiser to be one of"),
        ({"noise": ["gaussian"]}, "noise of a denoiser to be one of gaussian, uniform"),
        ({"levels": [1.0, 0.5]}, "two positive numbers in order"),
        ({"levels": [float("nan"), 0.5]}, "two positive numbers in order"),
        ({"levels": [1, 10**400]}, "two positive numbers in order"),
        ({"mean": [10**400]}, "expected mean and std as numbers"),
        ({"shape": [1, 7, 8]}, "both multiples of 4"),
        ({"shape": [True, 8, 8]}, "both multiples of 4"),
        ({"mean": [0.9]}, "one mean in the metadata and the weights"),
        ({"std": [-1.0]}, "std finite and > 0"),
        ({"architecture": "denoiser"}, "expected the weights of Denoiser"),
    ],
)
def test_files_that_lie_are_refused(files, tmp_path, changed, said):
    file = files[1]
    about = load_denoiser(file)[1] | changed
    save_file(load_file(file), tmp_path / "changed.safetensors", {"anisocert": json.dumps(about)})
    with pytest.raises(ModelError, match=said):
        load_denoiser(tmp_path / "changed.safetensors")


def test_images_that_cannot_be_halved_twice_are_refused():
    with pytest.raises(ArgumentError, match=r"both multiples of 4, for a denoiser, got \(1, 6, 6\)"):
        Denoiser("denoiser", (1, 6, 6), [0.0], [1.0])


def test_votes_are_those_of_the_function_itself(files):
    """The engine's rewritten form votes as the plain module does, each row with its own theta."""
    both, _ = models.load(files[0], denoise=str(files[1]))
    network = ac.Network(both, 10, numerics=ac.Numerics(precision="float32"))
    rows = network.fit((1, 8, 8), 0)
    pair = torch.rand(rows, 2, 1, 8, 8)
    with torch.no_grad():
        assert np.allclose(network.scores(pair).numpy(), both(pair).numpy(), atol=1e-4)
