import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anisocert as ac
from anisocert.engine.returned import remedy
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Normalized, Reshaped, ScoresOf, load
from anisocert.models.adapters import SeveralError, adapt

IMAGE = (3, 4, 4)


class Returns(nn.Module):
    """A linear network whose scores come in a wrapping."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.linear = how, nn.Linear(48, 5)
        nn.init.constant_(self.linear.weight, 0.1)

    def forward(self, x: Tensor) -> Any:
        z = self.linear(x.flatten(1))
        wrapped = {
            "object": SimpleNamespace(logits=z, hidden=x), "dict": {"features": x.flatten(1), "logits": z},
            "tuple": (z, x), "named": {"image": x, "answer": z}, "two": (z, 2 * z), "keys": {"a": z, "b": 2 * z},
            "nothing": SimpleNamespace(answer=z), "numpy": z.detach().float().numpy(), "lists": z.tolist(),
            "none": {"loss": z.sum(), "image": x}, "labels": z.argmax(1), "one": z.sum(1), "maps": z[:, :, None, None],
            "unknown": object(), "wider": (x.flatten(1), z), "nested": ({"logits": z}, x.flatten(1)), "turned": z.T,
            "places": z[:, None].expand(-1, 3, -1), "one place": z[:, None], "summed": z[:2], "complex": z.cfloat(),
            "sparse": z.to_sparse(), "number": z.sum(), "sigmoid": z.sum(1, keepdim=True).sigmoid(),
        }  # fmt: skip
        return wrapped[self.how]


class Counts(nn.Module):
    """Remembers that it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.linear = 0, nn.Linear(48, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        scores: Tensor = self.linear(x.flatten(1))
        return scores


@pytest.mark.parametrize(("how", "part"), [("object", "logits"), ("dict", "logits"), ("tuple", 0), ("named", "answer")])
def test_scores_among_other_things_are_found(how: str, part: str | int) -> None:
    network = Returns(how).eval()
    found = adapt(network, IMAGE)
    assert isinstance(found.model, ScoresOf)
    assert (found.model.part, found.num_classes) == (part, 5)
    assert len(found.notes) == 1
    x = torch.rand(3, *IMAGE)
    torch.testing.assert_close(found.model(x), network.linear(x.flatten(1)))
    certificate = ac.certify(
        found.model, x[:1], num_classes=5, smoothing=ac.Gaussian(0.25), method=ac.Fixed(), plan=ac.Plan(n0=20, n=100)
    )[0]
    assert certificate.votes == 100


def test_the_number_of_classes_tells_scores_from_features() -> None:
    network = Returns("wider").eval()
    with pytest.raises(SeveralError, match=r"ScoresOf\(model, 0\), or 1"):
        adapt(network, IMAGE)
    found = adapt(network, IMAGE, classes=5)
    assert found.notes == ("its scores are element 1 in the tuple that it returns, the one of 5 columns",)
    x = torch.rand(3, *IMAGE)
    torch.testing.assert_close(found.model(x), network.linear(x.flatten(1)))


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        ("two", r"tuple: .*ScoresOf\(model, 0\), or 1 \(on the command line, in a package\.module:function"),
        ("keys", r"dict: .*ScoresOf\(model, 'a'\), or 'b' \("),
        ("unknown", r"object: return a tensor of floats of shape \(b, classes\)$"),
        ("nothing", r"SimpleNamespace: .*ScoresOf\(model, 'answer'\) \("), ("numpy", r"ndarray: return torch\.from"),
        ("lists", r"list: return torch\.tensor\(scores\)$"),
        ("none", r"dict with 'loss', 'image', none of them floats of shape \(b, (classes|5)\): return such scores$"),
    ],
)  # fmt: skip
def test_scores_that_could_be_anywhere_are_refused_with_where_they_may_be(how: str, remedy: str) -> None:
    float32 = ac.Numerics("float32", rows=32)
    with pytest.raises(ModelError, match=rf"expected the model to return scores, got an? {remedy}"):
        adapt(Returns(how).eval(), IMAGE)
    with pytest.raises(ModelError, match=rf"scores of shape \(32, 5\), got {remedy}"):
        ac.Network(Returns(how).eval(), 5, numerics=float32).fit(IMAGE, 0)


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        ("labels", r"got \(32,\), labels: .*one_hot\(labels, 5\)\.float\(\)$"),
        ("one", r"got \(32,\), one score per input: for two classes, return torch\.stack\(\[-z, z\], 1\)"),
        ("sigmoid", r"got \(32, 1\), one probability per input, it seems: return torch\.stack\(\[1 - p, p\], 1\)"),
        ("maps", r"got \(32, 5, 1, 1\): return scores\.flatten\(1\)$"),
        ("one place", r"got \(32, 1, 5\): return scores\.flatten\(1\)$"),
        ("places", r"got \(32, 3, 5\), scores at 3 places of each input: .*as in scores\.mean\(1\)$"),
        ("turned", r"got \(5, 32\), a row for each class: return scores\.T$"),
        ("summed", r"got \(2, 5\): return a tensor of floats of shape \(b, classes\)$"),
        ("number", r"got \(\): return a tensor of floats of shape \(b, classes\)$"),
        ("complex", r"got \(32, 5\) of complex64, .*return real ones, as in scores\.real$"),
        ("sparse", r"got \(32, 5\), sparse: return scores\.to_dense\(\)$"),
        (
            "nested",
            r"got tuple with 0, 1, none of them floats of shape \(b, 5\) \(1 has 48 columns\): return such scores$",
        ),
    ],
)
def test_a_tensor_that_is_no_scores_says_how_to_make_them(how: str, remedy: str) -> None:
    with pytest.raises(ModelError, match=remedy):
        ac.Network(Returns(how).eval(), 5, numerics=ac.Numerics("float32", rows=32)).fit(IMAGE, 0)


def test_a_wrapper_is_in_the_mode_of_what_it_wraps() -> None:
    network = Returns("two")
    for wrapped in (ScoresOf(network, 1), Reshaped(network, (48,)), Normalized(network, (0.0,) * 3, (1.0,) * 3)):
        assert wrapped.training
    network.eval()
    for wrapped in (ScoresOf(network, 1), Reshaped(network, (48,)), Normalized(network, (0.0,) * 3, (1.0,) * 3)):
        assert not wrapped.training
    assert ac.certify(
        ScoresOf(network, 1), torch.rand(1, *IMAGE), num_classes=5, smoothing=ac.Gaussian(0.25), plan=ac.Plan(n=50)
    )


def test_hash_covers_which_part_and_which_order() -> None:
    network = Returns("two").eval()
    models = [ScoresOf(network, 0), ScoresOf(network, 1), Reshaped(network, (48,)), Reshaped(network, (48,), True)]
    assert len({ac.Network(model.eval(), 5).hash for model in models}) == len(models)


def test_trying_a_network_does_not_change_it() -> None:
    network = Counts().eval()
    before = ac.Network(network, 5).hash
    found = adapt(network, IMAGE)
    assert found.model is network
    assert (network.calls, ac.Network(network, 5).hash) == (0, before)


@pytest.mark.parametrize(
    ("shape", "layout", "takes", "expected"),
    [
        ((1, 4, 4), None, (16,), lambda x: x.reshape(2, 16)),
        ((1, 4, 4), None, (4, 4, 1), lambda x: x.permute(0, 2, 3, 1)),
        (IMAGE, None, (4, 4, 3), lambda x: x.permute(0, 2, 3, 1)),
        (IMAGE, "flat", (48,), lambda x: x.reshape(2, 48)),
        (IMAGE, "channels-last", (48,), lambda x: x.permute(0, 2, 3, 1).reshape(2, 48)),
        (IMAGE, "flat", None, lambda x: x.reshape(2, 48)),
        (IMAGE, "channels-last", None, lambda x: x.permute(0, 2, 3, 1)),
        ((16, 1), None, (16,), lambda x: x.reshape(2, 16)),
        ((16, 1), None, (1, 4, 4), lambda x: x.reshape(2, 1, 4, 4)),
        (IMAGE, None, (3, "height", None), lambda x: x),
        ((16, 1), None, (16, 1), lambda x: x),
    ],
)  # fmt: skip
def test_inputs_in_the_shape_that_a_network_takes(shape: Any, layout: Any, takes: Any, expected: Any) -> None:
    class Seen(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return x.flatten(1)[:, :5]

    seen: list[Tensor] = []
    x = torch.rand(2, *shape)
    found = adapt(Seen().eval(), shape, layout, takes)
    found.model(x)
    assert torch.equal(seen[-1], expected(x))
    assert len(found.notes) == (seen[-1].shape != x.shape)


def test_orders_that_nobody_can_know_are_asked_for() -> None:
    for shape, takes in ((IMAGE, (48,)), ((48,), IMAGE)):
        with pytest.raises(ModelError, match=r"two orders, so say which: .*--layout flat.*--layout channels-last"):
            adapt(Returns("tuple").eval(), shape, None, takes)
    with pytest.raises(ModelError, match=re.escape("inputs of shape (3, 4, 4), got one that takes 3 x 5 x 5")):
        adapt(Returns("tuple").eval(), IMAGE, None, (3, 5, 5))
    with pytest.raises(ModelError, match="with channels for layout channels-last, got inputs of shape"):
        adapt(Returns("tuple").eval(), (48,), "channels-last")


def test_a_wrong_number_of_classes_names_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"got \(32, 5\): give num_classes=5 \(--num-classes 5\)"):
        ac.Network(Counts().eval(), 2, numerics=ac.Numerics(rows=32)).fit(IMAGE, 0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_another_precision_are_refused_everywhere(dtype: torch.dtype, precision: Any) -> None:
    """Some would run, the same network in one place and not in another, under the name of a precision not theirs."""
    remedy = rf"network in float32, .* got {str(dtype)[6:]} in linear\.weight: call model\.float\(\)"
    with pytest.raises(ModelError, match=remedy):
        adapt(Counts().to(dtype).eval(), IMAGE)
    with pytest.raises(ModelError, match=remedy):
        ac.Network(Counts().to(dtype).eval(), 5, numerics=ac.Numerics(precision)).fit(IMAGE, 0)


def test_a_network_that_turns_its_inputs_into_float64_is_refused_too():
    """It would run, in float64, under the name of the precision that was asked for."""

    class Promoting(Counts):
        def forward(self, x):
            return super().forward(x.double())

    with pytest.raises(ModelError, match=r"got float64 in linear\.weight: call model\.float\(\)"):
        ac.certify(Promoting().double().eval(), torch.zeros(1, *IMAGE), num_classes=5,
                   smoothing=ac.Gaussian(1.0), plan=ac.Plan(n=100))  # fmt: skip


def test_functions_are_fitted_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_to_fit.py").write_text(
        "from torch import nn\n"
        "flat = nn.Sequential(nn.Linear(48, 5), nn.Dropout(0.5)).eval()\n"
        "def training():\n    return nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.Dropout(0.5))\n"
        "class Wrapper(nn.Module):\n"
        "    def __init__(self, net):\n        super().__init__()\n        self.net = net\n"
        "    def forward(self, x):\n        return self.net(x.flatten(1))\n"
        "class Own(nn.Module):\n    def forward(self, x):\n        return x if self.training else 2 * x\n"
        "def wrapped():\n    return Wrapper(flat)\n"
        "def half():\n    return Wrapper(nn.Sequential(nn.Linear(48, 5), nn.BatchNorm1d(5)))\n"
        "def own():\n    return Wrapper(nn.Sequential(nn.Linear(48, 5), Own()))\n"
        "try:\n    from no_such_package import net\nexcept ImportError:\n    net = None\n"
    )
    model, known = load("nets_to_fit:flat", shape=IMAGE, layout="flat")
    assert known["num_classes"] == 5
    assert known["notes"] == ("inputs of 3 x 4 x 4 are given to it as 48, which it takes",)
    assert model(torch.rand(2, *IMAGE)).shape == (2, 5)
    with pytest.raises(ArgumentError, match=r"expected layout flat or channels-last .* got 'salman', .*--mean, --std"):
        load("nets_to_fit:flat", shape=IMAGE, layout="salman")
    model, known = load("nets_to_fit:training", shape=IMAGE, mean=(0.5,) * 3, std=(0.5,) * 3)
    assert not any(one.training for one in model.modules())
    assert "is in training mode" in known["notes"][0]
    for name, noted in (("wrapped", False), ("half", True), ("own", True)):
        notes = load(f"nets_to_fit:{name}", shape=IMAGE)[1]["notes"]
        assert any("is in training mode (" in one for one in notes) == noted
    with pytest.raises(ModelError, match="got None, as where an import failed and was caught"):
        load("nets_to_fit:net")


def test_a_network_that_is_told_theta_takes_its_inputs_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_told.py").write_text(
        "from torch import nn\ntold = nn.Sequential(nn.Flatten(), nn.Linear(96, 5)).eval()\ntold.told_theta = True\n"
    )
    load("nets_told:told", shape=IMAGE)
    for given in ({"layout": "flat"}, {"layout": "channels-last"}, {"mean": (0.5,) * 3, "std": (0.5,) * 3}):
        with pytest.raises(ArgumentError, match=f"expected no mean, std and layout .* got {next(iter(given))} "):
            load("nets_told:told", shape=IMAGE, **given)  # type: ignore[arg-type]


def test_scripts_name_the_remedy(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="script"):
        torch.jit.script(nn.Linear(2, 2)).save(tmp_path / "script.pt")
    with pytest.raises(ModelError, match=r"got TorchScript, .*torch\.jit\.load.*package\.module:function"):
        load(tmp_path / "script.pt")


def test_the_number_of_classes_tells_where_scores_are():
    several = {"features": torch.rand(4, 64), "prediction": torch.rand(4, 5)}
    assert "ScoresOf(model, 'prediction') (" in remedy(several, 5)
    assert "ScoresOf(model, 'features'), or 'prediction' (" in remedy(several)
