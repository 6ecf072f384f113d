import copy
import logging

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anisocert import Gaussian, Numerics, Plan, certify
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.engine.launching.compiling import Spent
from anisocert.engine.rewriting import Graph
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import build

FLOAT32 = Numerics("float32", compile=False, rows=160)
SHAPE = (1, 8, 8)


def votes(network: Network, sigma: float = 0.7, n: int = 3000, inputs: int = 4) -> np.ndarray:
    x = torch.rand(inputs, *SHAPE, generator=torch.Generator().manual_seed(5)).to(network.device)
    scales = torch.full((inputs, 1, 1, 1, 1), sigma, device=network.device)
    found = count_votes(Query(network, Gaussian(sigma), x, range(inputs), 0), scales, Stage.ESTIMATE, [n])
    return np.stack([tally.counts for tally in sorted(found, key=lambda tally: tally.position)])


# What a certificate cannot rest on


def test_training_mode_is_refused(small_network):
    with pytest.raises(ModelError, match=r"expected a model in evaluation mode, got training mode in Sequential"):
        Network(small_network.train(), 5)


def test_training_mode_of_one_layer_is_refused(small_network):
    small_network[1].train()
    with pytest.raises(ModelError, match=r"training mode in 1"):
        Network(small_network, 5)


@pytest.mark.parametrize("num_classes", [1, 0, 2.0, "10", None])
def test_bad_number_of_classes(small_network, num_classes):
    with pytest.raises(ArgumentError, match=r"expected num_classes.*got"):
        Network(small_network, num_classes)


def test_model_with_another_number_of_classes(small_network):
    with pytest.raises(ModelError, match=r"shape \(160, 10\), got \(160, 5\)"):
        Network(small_network, 10, numerics=FLOAT32).fit(SHAPE, 1)


def test_model_that_returns_no_tensor():
    with pytest.raises(ModelError, match="got list"):
        Network(lambda x: [0.0] * len(x), 2, model_id="list", numerics=FLOAT32).fit(SHAPE, 1)


def test_a_name_has_precision_and_grid_added():
    """Neither is the user's to remember, and the default precision changes with the device."""

    def name(precision, grid, model_id="mine"):
        return Network(lambda x: x, 2, "cpu", Numerics(precision, grid=grid), model_id).hash

    assert [name("float32", grid) for grid in (0, 1, 1.0)] == [
        "mine, float32 on grid 0",
        *2 * ["mine, float32 on grid 2^0"],
    ]
    assert name("bfloat16", None) == "mine, bfloat16 on grid 2^-12"
    for taken in ("mine on grid 2^-12", name("float32", 0), name("bfloat16", None)):
        with pytest.raises(ArgumentError, match=r"a name of your own, .*, to which precision and grid were added"):
            name("float32", 0, taken)
    assert name("float32", 0, "of the 3rd on grid") == "of the 3rd on grid, float32 on grid 0"


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", 3.5])
def test_unknown_device(small_network, device):
    with pytest.raises((ArgumentError, TypeError), match="device"):
        Network(small_network, 5, device=device)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_batch_statistics_are_refused(precision):
    """Such a batch norm answers for an input by its company, even in evaluation mode: its votes are not independent."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(), nn.Linear(144, 2)
    )
    model[3].bias.data = torch.tensor([-40.0, 40.0])  # an offset between classes must not hide it
    with pytest.raises(ModelError, match="depend on that input alone"):
        Network(model.eval(), 2, numerics=Numerics(precision, compile=False)).fit(SHAPE, 1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_random_layers_are_refused(precision):
    class Dropping(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(x.flatten(1)[:, :2], 0.5, training=True)

    with pytest.raises(ModelError, match="from call to call"):
        Network(Dropping().eval(), 2, numerics=Numerics(precision, compile=False)).fit(SHAPE, 1)


class OfPlace(nn.Module):
    """Adds to each row's scores what depends on where in the batch it is."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        place = torch.arange(len(x))
        place = {"first": place < 32, "every other": place % 2 == 0, "outer": (place - len(x) / 2).abs() > 40}[self.how]
        return x.flatten(1)[:, :2] + 50 * torch.stack([place, ~place], 1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("how", ["first", "every other", "outer"])
def test_scores_that_depend_on_the_place_in_a_batch_are_refused(how, precision):
    """Else an input is certified for one class by votes in calls of some rows, and for another in calls of others."""
    with pytest.raises(ModelError, match="change with its place in a batch"):
        Network(OfPlace(how).eval(), 2, numerics=Numerics(precision, compile=False, rows=160)).fit(SHAPE, 1)


def test_a_network_that_changes_before_the_first_vote_is_refused():
    class Warming(nn.Module):
        def __init__(self, after: int) -> None:
            super().__init__()
            self.calls, self.after = list[int](), after

        def forward(self, x: Tensor) -> Tensor:
            self.calls.append(0)
            return x.flatten(1)[:, :2] * (-1 if len(self.calls) > self.after else 1)

    def fitted(after: int) -> Network:
        network = Network(Warming(after).eval(), 2, numerics=Numerics("float32", False, 160))
        network.fit(SHAPE, 1)
        return network

    calls = len(fitted(10**6)._run.calls)
    fitted(calls)
    for after in (calls - 1, calls - 2):
        with pytest.raises(ModelError, match="got different ones before the votes"):
            fitted(after)


class Crowded(nn.Module):
    """Two classes that the input decides between, and one that never wins, whose score varies by far the most."""

    def __init__(self, company: float = 0.0, sign: float = 1.0) -> None:
        super().__init__()
        self.company = company
        self.register_buffer("sign", torch.tensor(sign))

    def forward(self, x: Tensor) -> Tensor:
        first = self.sign * x.flatten(1)[:, 0] + self.company * x.mean()
        return torch.stack([first, -first, -1e4 - 1e4 * x.flatten(1).norm(dim=1)], 1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_irrelevant_class_hides_no_dependence_on_the_batch(precision):
    """Else an input is certified for one class in one company and for another class in another."""
    numerics = Numerics(precision, compile=False, rows=160)
    Network(Crowded().eval(), 3, numerics=numerics).fit(SHAPE, 1)
    for company in (5.0, 1e-3):
        with pytest.raises(ModelError, match="depend on that input alone"):
            Network(Crowded(company).eval(), 3, numerics=numerics).fit(SHAPE, 1)


@pytest.mark.parametrize(
    "of_batch",
    [lambda x: x.amax() > 50, lambda x: x.flatten(1)[-1, 0], lambda x: x[0].mean(), lambda x: x.roll(1, 0).mean(1)],
    ids=["extreme", "last", "first", "neighbour"],
)
def test_whatever_the_company_is(of_batch):
    class Swayed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            first = flat[:, 0] + 1e-3 * of_batch(flat)
            return torch.stack([first, -first], 1)

    with pytest.raises(ModelError, match="depend on that input alone"):
        Network(Swayed().eval(), 2, numerics=FLOAT32).fit(SHAPE, 1)


def test_kernels_that_do_not_repeat_bitwise_are_no_obstacle():
    """Atomic sums on a GPU, say: other last bits in each call, which no vote depends on."""

    class Trembling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first = x.flatten(1)[:, 0] * (1 + 1e-7 * torch.randint(3, (len(x),)))
            return torch.stack([first, -first], 1)

    assert Network(Trembling().eval(), 2, numerics=FLOAT32).fit(SHAPE, 1) == 160


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("compiled", [False, True])
def test_an_irrelevant_class_hides_no_changed_votes(monkeypatch, caplog, precision, compiled):
    """A form of the network that turns every vote, by less than a hundredth of what the widest score changes by."""

    def wrong(model, *_, **__):
        other = copy.deepcopy(model)
        other.sign.neg_()
        return other

    numerics = Numerics(precision, compile=compiled, rows=FLOAT32.rows)
    if compiled:
        monkeypatch.setattr(torch, "compile", wrong)
    else:
        monkeypatch.setattr("anisocert.engine.rewriting.forms.fold", wrong)
    network = Network(Crowded().eval(), 3, numerics=numerics)
    with caplog.at_level(logging.WARNING):
        found = votes(network)
    assert "differ" in caplog.text
    assert np.array_equal(found, votes(Network(lambda x: Crowded()(x), 3, model_id="it", numerics=numerics)))


# The caller's model is the caller's


def test_the_callers_model_stays_as_it_is(small_network):
    before = {name: tensor.clone() for name, tensor in small_network.state_dict().items()}
    strides = [p.stride() for p in small_network.parameters()]
    votes(Network(small_network, 5, numerics=Numerics("bfloat16", compile=False, rows=160)), n=100)
    after = small_network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [p.stride() for p in small_network.parameters()] == strides
    assert all(p.requires_grad and p.grad is None and p.device.type == "cpu" for p in small_network.parameters())
    assert not any(module.training for module in small_network.modules())
    assert not any(module._forward_hooks for module in small_network.modules())


def test_changes_of_the_callers_model_change_no_vote(small_network):
    expected = votes(Network(small_network, 5, numerics=FLOAT32))
    network = Network(small_network, 5, numerics=FLOAT32)
    with torch.no_grad():
        small_network[6].weight.zero_()
    small_network.train()
    assert np.array_equal(votes(network), expected)


# The hash


def test_hash_tells_weights_buffers_classes_and_precision_apart(small_network):
    class Renamed(nn.Sequential):
        pass

    class Named(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.register_buffer("hidden", torch.tensor(value), persistent=False)

    hashes = {Network(small_network, 5, numerics=Numerics(precision)).hash for precision in ("float32", "bfloat16")}
    hashes.add(Network(Renamed(*small_network).eval(), 5, numerics=FLOAT32).hash)
    for name, tensor in small_network.state_dict().items():
        other = copy.deepcopy(small_network)
        changed = tensor.clone()
        changed.view(-1)[-1] += 1
        other.load_state_dict(small_network.state_dict() | {name: changed})
        hashes.add(Network(other, 5, numerics=FLOAT32).hash)
    inner = copy.deepcopy(small_network)
    inner[4] = nn.LeakyReLU()
    hashes.add(Network(inner.eval(), 5, numerics=FLOAT32).hash)
    hashes |= {Network(Named(value).eval(), 5, numerics=FLOAT32).hash for value in (1.0, 2.0)}
    assert len(hashes) == 2 + 1 + len(small_network.state_dict()) + 1 + 2


def test_hash_does_not_depend_on_rows_or_compilation(small_network):
    assert (
        Network(small_network, 5, numerics=FLOAT32).hash == Network(small_network, 5, numerics=Numerics("float32")).hash
    )


# How it runs


def test_numerics_are_settled_and_recorded(small_network):
    network = Network(small_network, 5)
    assert network.numerics.precision in ("float32", "bfloat16")
    rows = network.fit(SHAPE, 1)
    assert network.numerics.rows == rows
    assert rows % 32 == 0
    assert network.numerics.compile is False  # one vote never repays a compilation


def test_a_model_whose_code_views_maps_still_runs(small_network):
    """`view` refuses channels-last maps, which the engine prefers."""

    class Viewing(nn.Module):
        def __init__(self, features: nn.Module, head: nn.Module) -> None:
            super().__init__()
            self.features, self.head = features, head

        def forward(self, x: Tensor) -> Tensor:
            maps = self.features(x)
            return self.head(maps.view(maps.size(0), -1))

    model = Viewing(small_network[:5], small_network[6]).eval()
    assert np.array_equal(
        votes(Network(model, 5, numerics=FLOAT32)), votes(Network(small_network, 5, numerics=FLOAT32))
    )


def test_inputs_of_another_shape_are_settled_anew():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    network = Network(model.eval(), 3, numerics=Numerics("float32", compile=False))
    for size in (2, 16, 2):  # maps of 2x2 become matrices
        x = torch.rand(3, 1, size, size)
        fresh = Network(model, 3, numerics=Numerics("float32", compile=False))
        found, expected = (certify(n, x, smoothing=Gaussian(0.5), plan=Plan(n=500)) for n in (network, fresh))
        assert [c.top_votes for c in found] == [c.top_votes for c in expected]
        assert network.numerics == fresh.numerics


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("factor", [-1, 0])
def test_a_wrongly_rewritten_network_is_not_used(small_network, monkeypatch, caplog, precision, factor):
    """Also where the classes' offsets are far larger than what an input changes."""
    small_network[6].bias.data = 3 * torch.arange(5.0)

    def wrong(model, *_, **__):
        other = copy.deepcopy(model)
        other[6].weight.mul_(factor)
        return other

    numerics = Numerics(precision, compile=False, rows=FLOAT32.rows)
    expected = votes(Network(small_network, 5, numerics=numerics))
    monkeypatch.setattr("anisocert.engine.rewriting.forms.fold", wrong)
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(votes(Network(small_network, 5, numerics=numerics)), expected)
    assert "differ" in caplog.text


def test_a_layer_that_no_memory_format_fits_is_no_obstacle():
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = nn.Conv3d(1, 2, 1), nn.Linear(128, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.conv(x.unsqueeze(1)).flatten(1))

    assert votes(Network(Deep().eval(), 5, numerics=FLOAT32)).sum() > 0


def test_bfloat16_votes_agree_with_float32_votes(small_network):
    exact, lowered = (
        votes(Network(small_network, 5, numerics=Numerics(precision, compile=False, rows=160)), n=4000)
        for precision in ("float32", "bfloat16")
    )
    assert (exact.sum(1) == lowered.sum(1)).all()
    assert np.abs(exact - lowered).max() < 100  # the same noise: only votes near a tie may turn


def test_compiled_network_gives_the_same_votes(small_network):
    plain = Network(small_network, 5, numerics=FLOAT32)
    compiled = Network(small_network, 5, numerics=Numerics("float32", compile=True, rows=160))
    difference = np.abs(votes(plain) - votes(compiled)).max()
    if not compiled.numerics.compile:
        pytest.skip("needs a C++ compiler that torch.compile can use: apt install g++")
    assert compiled.compile_seconds > 0
    assert difference <= 3  # rounding may turn a vote near a tie, no more


@pytest.mark.parametrize("failure", ["raises", "wrong"])
def test_a_failed_compilation_is_done_without(small_network, monkeypatch, caplog, failure):
    def compile(model, **options):
        def run(x: Tensor) -> Tensor:
            if failure == "raises":
                raise RuntimeError("no compiler\nand many more lines")
            return -model(x)

        return run

    expected = votes(Network(small_network, 5, numerics=FLOAT32))
    monkeypatch.setattr(torch, "compile", compile)
    network = Network(small_network, 5, numerics=Numerics("float32", compile=True, rows=160))
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(votes(network), expected)
    assert network.numerics.compile is False
    assert "torch.compile failed, continuing without it" in caplog.text
    assert "many more lines" not in caplog.text


class Changing(nn.Module):
    """A network that changes its input in place, and not as a second time would."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1).sub_(0.5).mul_(3))


def test_a_network_that_changes_its_input_is_not_taken_for_one_with_a_state():
    torch.manual_seed(0)
    model, x = Changing().eval(), torch.rand(8, *SHAPE)
    network = Network(model, 5, numerics=Numerics("float32"))  # compile: whether it pays is tried
    network.fit(SHAPE, 1)
    network.expect_no_state()
    assert torch.allclose(network.scores(x.clone()), model(x.clone()), atol=1e-5)


def test_a_compiled_form_that_nobody_asked_for_is_compared_again_after_memory_ran_out(small_network, monkeypatch):
    def seconds(evaluate, run, sample):
        return Spent(0.0, 1.0 if isinstance(run, nn.Sequential) == (len(sample) > 32) else 2.0)

    monkeypatch.setattr("anisocert.engine.launching.compiling.seconds", seconds)  # compiled, 32 rows are slower
    monkeypatch.setattr(torch, "compile", lambda form, **_: nn.Sequential(form))
    kept = []
    for asked in (None, True):
        network = Network(small_network, 5, numerics=Numerics("float32", asked, rows=160))
        network.fit(SHAPE, 10**9)
        first = network.numerics.compile
        network.shrink(torch.OutOfMemoryError("out of memory"))
        network.fit(SHAPE, 10**9)
        kept.append((first, network.numerics.rows, network.numerics.compile))
    assert kept == [(True, 32, False), (True, 32, True)]


def test_an_interruption_while_settling_leaves_nothing_broken(small_network, monkeypatch):
    expected = votes(Network(small_network, 5, numerics=FLOAT32))
    network = Network(small_network, 5, numerics=FLOAT32)
    with monkeypatch.context() as patched:
        patched.setattr("anisocert.engine.rewriting.forms.fold", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            network.fit(SHAPE, 1)
    assert np.array_equal(votes(network), expected)


# On a GPU

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@gpu
def test_votes_on_a_gpu_agree_with_the_cpu(small_network):
    """Other noise, other numerics: equal within sampling error."""
    n = 20_000
    host = votes(Network(small_network, 5, numerics=FLOAT32), n=n)
    for precision in ("float32", "bfloat16"):
        network = Network(small_network, 5, "cuda", Numerics(precision, compile=False))
        assert network.device == torch.device("cuda", 0)
        spread = np.sqrt(2 * np.maximum(host, 50))
        assert (np.abs(votes(network, n=n) - host) < 6 * spread).all()
    assert next(small_network.parameters()).device.type == "cpu"


@gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_bfloat16_on_a_gpu_agrees_with_float32(precision, small_network):
    exact = votes(Network(small_network, 5, "cuda", Numerics("float32", compile=False, rows=800)), n=20_000)
    other = votes(Network(small_network, 5, "cuda", Numerics(precision, compile=False, rows=800)), n=20_000)
    assert np.abs(exact - other).max() < 600  # the same noise: only votes near a tie may turn


@gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("looks", [[1000], [32, 50, 120, 333, 1000]])
def test_votes_on_a_gpu_do_not_depend_on_batching(precision, looks):
    torch.manual_seed(0)
    model = build("resnet18-paper", 10, (0.5,) * 3, (0.2,) * 3).eval()
    x = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(1)).cuda()
    scales = torch.rand(40, 1, 3, 32, 32, generator=torch.Generator().manual_seed(2)).cuda()

    def counts(network: Network, chosen: list[int]) -> dict[int, list[int]]:
        query = Query(network, Gaussian(1.0), x[chosen], chosen, 0)
        found = count_votes(query, scales[chosen], Stage.ESTIMATE, looks)
        return {chosen[tally.position]: tally.counts.tolist() for tally in found}

    network = Network(model, 10, "cuda", Numerics(precision, compile=False, rows=800))
    everyone = list(range(40))
    together = counts(network, everyone)
    assert any(max(row) < 999 for row in together.values()), "a network of one class would show nothing"
    alone: dict[int, list[int]] = {}
    for i in everyone[:8]:
        alone |= counts(network, [i])
    assert alone == {i: together[i] for i in alone}
    assert counts(network, everyone[::-1]) == together
    again = Network(model, 10, "cuda", Numerics(precision, compile=False, rows=800))
    assert counts(again, everyone[:13]) | counts(again, everyone[13:]) == together


@gpu
def test_compiled_network_on_a_gpu_gives_the_same_votes(small_network):
    plain = Network(small_network, 5, "cuda", Numerics("bfloat16", compile=False, rows=800))
    compiled = Network(small_network, 5, "cuda", Numerics("bfloat16", compile=True, rows=800))
    difference = np.abs(votes(plain, n=20_000) - votes(compiled, n=20_000)).max()
    assert compiled.numerics.compile
    assert difference < 600


class OfParts(nn.Module):
    """Scores that depend on other rows of a batch, within parts of it: of `size` neighbours, or `parts` equal ones."""

    def __init__(self, size: int = 0, parts: int = 0) -> None:
        super().__init__()
        self.size, self.parts = size, parts

    def forward(self, x: Tensor) -> Tensor:
        pieces = x.chunk(self.parts) if self.parts else x.split(self.size)
        z = torch.cat([piece - piece.mean(0) for piece in pieces]).flatten(1).sum(1, keepdim=True)
        return torch.cat([z, -z], 1)


@pytest.mark.parametrize("kind", [{"size": 2}, {"size": 4}, {"size": 16}, {"parts": 2}, {"parts": 4}], ids=str)
def test_parts_of_a_batch_are_no_company_either(kind):
    with pytest.raises(ModelError, match="depend on that input alone"):
        Network(OfParts(**kind).eval(), 2).fit((4,), 1000)


def test_a_network_that_changes_after_a_while_certifies_nothing(half_space):
    class Tired(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.calls = half_space([1.0, 0.0]), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if len(x) < 40 * self.calls - 40 * 40:  # which cannot be traced
                return -self.network(x)
            return self.network(x)

    network = Network(Tired().eval(), 2, numerics=Numerics(rows=32))
    x = torch.tensor([[1.0, 0.0]])
    with pytest.raises(ModelError, match="the same scores for an input in every call"):
        certify(network, x, smoothing=Gaussian(0.5), plan=Plan(n=5000))


AROUND = {
    "OptimizedModule": lambda model: torch.compile(model, backend="eager"),
    "DataParallel": nn.DataParallel,
    "AveragedModel": lambda model: torch.optim.swa_utils.AveragedModel(model).eval(),
}


@pytest.mark.parametrize("kind", AROUND)
def test_a_network_within_what_only_calls_it(small_network, kind):
    around = AROUND[kind](small_network).eval()
    network = Network(around, 5, "cpu", Numerics("float32", rows=32))  # DataParallel has moved it to a GPU
    assert network.hash == Network(small_network, 5, "cpu", Numerics("float32")).hash
    network.fit((1, 8, 8), 64)
    assert isinstance(network._run, Graph)
    around.register_forward_hook(lambda module, inputs, output: -output)
    with pytest.raises(
        ModelError, match=f"expected no hooks on an? {kind} around a module, nor a forward of its own: put"
    ):
        Network(around, 5)


@pytest.mark.parametrize("kind", ["DataParallel", "AveragedModel"])
def test_a_forward_that_was_replaced_around_a_network_is_refused(small_network, kind):
    around = AROUND[kind](small_network).eval()
    around.forward = lambda x: -around.module(x)
    with pytest.raises(ModelError, match=f"on an? {kind} around a module, nor a forward of its own: put them on"):
        Network(around, 5)


def test_a_network_that_is_told_theta_within_another_is_told_it():
    class Told(nn.Module):
        told_theta = True

        def forward(self, x: Tensor) -> Tensor:
            return (x[:, 0] / x[:, 1]).flatten(1)[:, :3]

    network = Network(nn.DataParallel(Told()).eval(), 3, "cpu", Numerics("float32", rows=32))
    assert network.told_theta
    network.fit((6,), 0)


class Turning(nn.Module):
    """Scores that turn round once the class is told to; by a hook, which no rewriting takes in."""

    turned = False

    def __init__(self):
        super().__init__()
        self.register_forward_hook(lambda _, __, scores: -scores if Turning.turned else scores)

    def forward(self, x):
        return x.flatten(1)[:, :2]


def test_a_part_is_asked_for_state_and_tells_its_rows_with_the_whole(monkeypatch):
    whole = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval(), 2)
    part, told = whole.part("turning", Turning().eval(), 2), []
    whole.on_rows = lambda rows, gradients: told.append((rows, gradients))
    for one in (whole, part):
        one.fit((4,), 0)
    part.scores(torch.zeros(32, 4))
    assert told == [(32, False)]
    whole.expect_no_state()
    monkeypatch.setattr(Turning, "turned", True)
    with pytest.raises(ModelError, match="got different ones after the votes"):
        whole.expect_no_state()
