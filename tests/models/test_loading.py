import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from anisocert import inputs
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import CIFAR10_MEAN, CIFAR10_STD, Normalized, build, load, save
from anisocert.models.weights import weights_hash, write_safetensors

RAW = ((0.0,) * 3, (1.0,) * 3)
INPUTS = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def network() -> nn.Module:
    """A ResNet20, with batch norms that do something, on inputs that are already normalised."""
    torch.manual_seed(0)
    network = build("resnet20", 10, *RAW).network
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 2)
    return network.eval()


def agree(loaded: nn.Module, network: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> bool:
    assert not any(module.training for module in loaded.modules())
    with torch.no_grad():
        return torch.equal(loaded(INPUTS), Normalized(network, mean, std)(INPUTS))


def shuffled(state: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """The same weights in another order: position must not matter."""
    return {prefix + name: state[name] for name in sorted(state, reverse=True)}


def test_own_files_come_back(tmp_path: Path) -> None:
    model = build("small-cnn", 4, (0.3,), (0.4,)).eval()
    described = {"architecture": "small-cnn", "num_classes": 4, "mean": (0.3,), "std": (0.4,)}
    save(model, tmp_path / "m.safetensors", described | {"sigma": 0.25, "recipe": {"name": "cohen"}})
    loaded, metadata = load(tmp_path / "m.safetensors", num_classes=4)
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(loaded(x), model(x))
    assert (metadata["sigma"], metadata["recipe"]) == (0.25, {"name": "cohen"})
    assert list(tmp_path.iterdir()) == [tmp_path / "m.safetensors"]  # nothing half-written stays
    with pytest.raises(ArgumentError, match=r"expected a network with 10 classes in .*m\.safetensors, got 4"):
        load(tmp_path / "m.safetensors", num_classes=10)
    with pytest.raises(ModelError, match="got none of mean, std"):
        save(model, tmp_path / "n.safetensors", {"architecture": "small-cnn", "num_classes": 4})
    with pytest.raises(ArgumentError, match="expected no mean and std"):
        load(tmp_path / "m.safetensors", mean=(0.5,), std=(0.1,))
    with pytest.raises(ArgumentError, match=r"expected no layout for .*m\.safetensors, .* got 'salman'"):
        load(tmp_path / "m.safetensors", layout="salman")


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}, lambda s: {"model": s}])
def test_plain_state_dict(tmp_path: Path, network: nn.Module, wrap: Callable[[dict[str, Tensor]], object]) -> None:
    torch.save(wrap(shuffled(network.state_dict())), tmp_path / "m.pt")
    loaded, metadata = load(tmp_path / "m.pt", mean=CIFAR10_MEAN, std=CIFAR10_STD)
    assert agree(loaded, network, CIFAR10_MEAN, CIFAR10_STD)
    assert (metadata["architecture"], metadata["num_classes"]) == ("resnet20", 10)
    with pytest.raises(ModelError, match=r"expected mean and std .* without normalisation"):
        load(tmp_path / "m.pt")
    with pytest.raises(ArgumentError, match="both mean and std"):
        load(tmp_path / "m.pt", mean=CIFAR10_MEAN)
    with pytest.raises(ArgumentError, match="3 channels"):
        load(tmp_path / "m.pt", mean=(0.5,), std=(0.5,))
    with pytest.raises(ModelError, match=r"expected the weights of resnet110 in .*, got those of resnet20"):
        load(tmp_path / "m.pt", architecture="resnet110", mean=CIFAR10_MEAN, std=CIFAR10_STD)


@pytest.mark.parametrize(("first", "second"), [("state_dict", "state_dict_ema"), ("model", "model_ema")])
def test_of_several_sets_of_weights_it_is_said_which_was_taken(
    tmp_path: Path, network: nn.Module, first: str, second: str
) -> None:
    """As training with an average of weights leaves them."""
    state, path = network.state_dict(), tmp_path / "net.pt"
    average = {"n_averaged": torch.tensor(3)} | {name: tensor * 2 for name, tensor in state.items()}
    torch.save({first: state, second: average, "optimizer": {"state": {}, "param_groups": []}, "epoch": 3}, path)
    loaded, known = load(path, mean=CIFAR10_MEAN, std=CIFAR10_STD)
    assert agree(loaded, network, CIFAR10_MEAN, CIFAR10_STD)
    (note,) = known["notes"]
    assert f"those of '{first}', not of '{second}': to take others, save them" in note
    torch.save({first: state, "optimizer": {"state": {}, "param_groups": []}}, path)
    assert "notes" not in load(path, mean=CIFAR10_MEAN, std=CIFAR10_STD)[1]


def test_plain_safetensors_in_bfloat16_that_say_their_normalisation(tmp_path: Path, network: nn.Module) -> None:
    from safetensors.torch import save_file

    half = {name: t.bfloat16() if t.dim() == 4 else t for name, t in network.state_dict().items()}
    save_file(half, tmp_path / "m.safetensors", {"normalize_mean": "0.5,0.4,0.3", "normalize_std": "0.1,0.2,0.3"})
    loaded, metadata = load(tmp_path / "m.safetensors")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    network.load_state_dict({name: t.float() for name, t in half.items() if t.is_floating_point()}, strict=False)
    assert agree(loaded, network, (0.5, 0.4, 0.3), (0.1, 0.2, 0.3))
    assert metadata["mean"] == (0.5, 0.4, 0.3)


@pytest.mark.parametrize("prefix", ["1.", "1.module.", "module.1."])
def test_cohen_and_salman(tmp_path: Path, network: nn.Module, prefix: str) -> None:
    """Both save Sequential(normalisation without weights, network); only the normalisation differs."""
    state = shuffled(network.state_dict(), prefix)
    content = {"epoch": 90, "arch": "cifar_resnet20", "state_dict": state, "optimizer": {"state": {}, "lr": 0.1}}
    torch.save(content, tmp_path / "checkpoint.pth.tar")
    path = tmp_path / "checkpoint.pth.tar"
    assert agree(load(path, layout="cohen")[0], network, CIFAR10_MEAN, CIFAR10_STD)
    assert agree(load(path, layout="salman")[0], network, CIFAR10_MEAN, (1.0,) * 3)
    assert agree(load(path, mean=CIFAR10_MEAN, std=CIFAR10_STD)[0], network, CIFAR10_MEAN, CIFAR10_STD)
    with pytest.raises(ModelError, match=r"expected layout \(--layout\) cohen or salman"):
        load(path)
    with pytest.raises(ArgumentError, match=r"expected layout of .* to be one of cohen, salman, macer, got 'carmon'"):
        load(path, layout="carmon")  # type: ignore[arg-type]


def test_networks_are_of_float32_whatever_torch_makes_by_default(tmp_path: Path, network: nn.Module) -> None:
    torch.save(network.state_dict(), tmp_path / "m.pt")
    torch.set_default_dtype(torch.float64)
    try:
        loaded = load(tmp_path / "m.pt", mean=RAW[0], std=RAW[1])[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert {tensor.dtype for tensor in loaded.state_dict().values()} == {torch.float32, torch.int64}
    assert agree(loaded, network, *RAW)


def test_macer_takes_raw_pixels(tmp_path: Path, network: nn.Module) -> None:
    torch.save({"net": shuffled(network.state_dict()), "epoch": 440}, tmp_path / "440.pth")
    assert agree(load(tmp_path / "440.pth", layout="macer")[0], network, *RAW)
    with pytest.raises(ModelError, match=r"weights without normalisation: .*--layout macer"):
        load(tmp_path / "440.pth")  # others keep normalised networks under that name


def test_a_checkpoint_that_names_another_architecture(tmp_path: Path, network: nn.Module) -> None:
    torch.save({"arch": "cifar_resnet110", "state_dict": network.state_dict()}, tmp_path / "m.pt")
    with pytest.raises(ModelError, match="expected the weights of resnet110"):
        load(tmp_path / "m.pt", layout="cohen")


def test_old_files_without_step_counters(tmp_path: Path, network: nn.Module) -> None:
    torch.save({k: v for k, v in network.state_dict().items() if "num_batches" not in k}, tmp_path / "m.pt")
    assert agree(load(tmp_path / "m.pt", mean=RAW[0], std=RAW[1])[0], network, *RAW)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("fc.bias"), "other names or shapes"),
        (lambda s: s.update(extra=torch.zeros(1)), "other names or shapes"),
        (lambda s: s["layer1.0.conv1.weight"].fill_(float("nan")), "NaN or infinity in layer1.0.conv1.weight"),
        (lambda s: s.pop("fc.weight"), "expected the weights of one of"),
    ],
)
def test_wrong_weights(tmp_path: Path, network: nn.Module, change: Callable[..., object], message: str) -> None:
    state = dict(network.state_dict())
    change(state)
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "m.pt", mean=RAW[0], std=RAW[1])


def test_own_files_with_wrong_weights(tmp_path: Path, network: nn.Module) -> None:
    described = {"architecture": "resnet20", "num_classes": 5, "mean": RAW[0], "std": RAW[1]}
    state = Normalized(network, *RAW).state_dict()
    write_safetensors(tmp_path / "m.safetensors", state, described)
    with pytest.raises(ModelError, match=r"expected shape \(5,.* for network.fc.* got \(10,"):
        load(tmp_path / "m.safetensors")
    del state["network.fc.weight"]
    write_safetensors(tmp_path / "m.safetensors", state, described)
    with pytest.raises(ModelError, match=r"1 missing \(network.fc.weight\) and 0 unknown"):
        load(tmp_path / "m.safetensors")
    write_safetensors(tmp_path / "m.safetensors", state, {"architecture": "resnet20"})
    with pytest.raises(ModelError, match="expected architecture, num_classes, mean, std in anisocert's metadata"):
        load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("kept", [0, 5, 1000, 0.5, 0.999])
@pytest.mark.parametrize("name", ["m.safetensors", "m.pt"])
def test_truncated_files(tmp_path: Path, network: nn.Module, name: str, kept: float) -> None:
    path = tmp_path / name
    if name == "m.pt":
        torch.save(network.state_dict(), path)
    else:
        write_safetensors(path, network.state_dict(), {})
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    with pytest.raises(ModelError, match="expected"):
        load(path, mean=RAW[0], std=RAW[1])


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("import builtins; builtins.anisocert_was_owned = True",))


def test_files_that_run_code_are_refused(tmp_path: Path) -> None:
    for name, write in (("a.pt", torch.save), ("b.pt", lambda thing, path: path.write_bytes(pickle.dumps(thing)))):
        write({"state_dict": _Evil()}, tmp_path / name)
        with pytest.raises(ModelError, match="which could run any code and are not loaded"):
            load(tmp_path / name)
    import builtins

    assert not hasattr(builtins, "anisocert_was_owned")


GROWING = b"\x80\x02cbuiltins\nbytearray\n\x8a\x08" + struct.pack("<q", 1 << 40) + b"\x85R."
PLAIN = b"\x80\x02}.".ljust(len(GROWING))


def _zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(content := io.BytesIO(), "w", compression) as archive:
        for name, member in (*members, ("version", b"3\n"), ("byteorder", b"little")):
            archive.writestr(f"archive/{name}", member)
    return content.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "write",
    [
        lambda: GROWING,
        lambda: _zipped(("data.pkl", GROWING)),
        lambda: _zipped(("data.PKL", GROWING)),
        lambda: _zipped(("data.pkl", GROWING), ("data.pkl", PLAIN)),
        lambda: GROWING + _zipped(("data.pkl", PLAIN)),
        # two directories, and an end that gives the place of the first: zipfile takes what stands before the end
        lambda: _zipped(("data.pkl", GROWING))[:-22] + _zipped(("data.pkl", PLAIN)),
    ],
    ids=["bare", "zipped", "capitals", "twice", "before a zip file", "two directories"],
)
def test_a_file_that_asks_for_memory_is_refused(tmp_path: Path, write: Callable[[], bytes]) -> None:
    """Torch's careful unpickler makes a bytearray of any length that a file names, wherever torch finds it."""
    (tmp_path / "a.pt").write_bytes(write())
    with pytest.raises(ModelError, match="got bytes or other Python objects, made by bytearray"):
        load(tmp_path / "a.pt")


def _text(content: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(content)) + content


@pytest.mark.parametrize(
    ("called", "by"),
    [
        # each time the hexadecimal digits of what there was, which are twice as many
        (b"c_codecs\nencode\n(" * 9 + _text(b"a") + _text(b"latin1") + b"tR" + (_text(b"hex") + b"tR") * 8, "encode"),
        (b"ctorch\nFloatTensor\n(" + b"\x8a\x08" + struct.pack("<q", 1 << 30) + b"tR", "FloatTensor"),
    ],
    ids=["encode", "tensor"],
)
def test_a_file_that_has_torch_make_much_of_little_is_refused(tmp_path: Path, called: bytes, by: str) -> None:
    (tmp_path / "a.pt").write_bytes(_zipped(("data.pkl", b"\x80\x02}" + _text(b"w") + called + b"s.")))
    with pytest.raises(ModelError, match=f"got bytes or other Python objects, made by {by}"):
        load(tmp_path / "a.pt")


def test_a_mean_of_more_values_than_a_network_has_channels_is_refused(tmp_path: Path) -> None:
    torch.save({"mean": torch.zeros(100_000), "std": torch.ones(3), "w": torch.zeros(3)}, tmp_path / "a.pt")
    with pytest.raises(ModelError, match="expected the mean of a checkpoint as at most 65,536 floats"):
        load(tmp_path / "a.pt")


def test_what_torch_keeps_beside_tensors_is_read(tmp_path: Path) -> None:
    """Attributes of a tensor, and what is held twice."""
    network, seen = build("small-cnn", 4, (0.3,), (0.4,)), [1, 2.0, "three"]
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for tensor in state.values():
        tensor.trained = True
    torch.save({"state_dict": state, "seen": [seen, seen, {"again": seen}]}, tmp_path / "a.pt")
    loaded, _ = load(tmp_path / "a.pt", architecture="small-cnn")
    assert weights_hash(loaded) == weights_hash(network)


def _holding(levels: int) -> bytes:
    """A pickle of a dictionary with one key, a tuple that holds one twice, which holds one twice, and so on."""
    tuples = b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(levels))
    return b"\x80\x02](K\x01q\x00" + tuples + b"e}h%cK\x02s\x86." % levels


def _listing(levels: int) -> bytes:
    """A pickle of nested lists, the last first, which each hold the next one twice, as nothing that is called."""
    lists = b"".join(b"]q%c" % k for k in range(levels))
    held = b"".join(b"h%c(h%ch%ce" % (k, k + 1, k + 1) for k in range(levels - 1))
    return b"\x80\x02](" + lists + held + b"eh\x00)R."


@pytest.mark.parametrize("wrap", [bytes, lambda one: _zipped(("data.pkl", one))], ids=["bare", "zipped"])
@pytest.mark.parametrize("nested", [_holding, _listing], ids=["hashed", "told"])
def test_a_file_that_torch_would_work_on_for_ever_is_refused(
    tmp_path: Path, nested: Callable[[int], bytes], wrap: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.pt").write_bytes(wrap(nested(23)))  # torch takes twice as long for each one more
    with pytest.raises(ModelError, match="got more than 1,048,576 values, counted where each is held"):
        load(tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(wrap(nested(10)))
    with pytest.raises(ModelError, match=r"got tuple|Invalid magic number|other Python objects, which"):
        load(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (b"]q\x00h\x00a", "a value that holds itself"),
        (b"](" + b"](e" * (1 << 20) + b"e", "more than 1,048,576 values"),
        (b"](" + b"K\x01" * (1 << 20) + b"e", "more than 1,048,576 values"),
    ],
    ids=["itself", "lists", "numbers"],
)
def test_a_small_file_of_many_values_is_refused(tmp_path: Path, values: bytes, got: str) -> None:
    record = "data.pkl", b"\x80\x02" + values + b"."
    (tmp_path / "a.pt").write_bytes(_zipped(record, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(ModelError, match=f"got {got}"):
        load(tmp_path / "a.pt")


def test_a_file_says_nothing_of_what_loading_adds(tmp_path: Path) -> None:
    known = {"architecture": "small-cnn", "num_classes": 4, "mean": [0.5], "std": [0.25], "sigma": 0.5}
    stranger = {"denoiser": {"noise": 7}, "denoise": 7, "notes": 7}
    save(build("small-cnn", 4, (0.5,), (0.25,)), tmp_path / "a.safetensors", known | stranger)
    assert load(tmp_path / "a.safetensors")[1] == known


def test_the_hash_of_weights_sees_all_of_their_digits_and_their_type() -> None:
    def network(value: float, dtype: torch.dtype = torch.float64) -> nn.Module:
        module = nn.Linear(1, 2, bias=False, dtype=dtype)
        nn.init.constant_(module.weight, value)
        module.register_buffer("count", torch.tensor(3))
        return module

    same, *others = map(network, (0.5, 0.5, 0.5 + 1e-12, 0.5 + 2e-12))
    assert len({weights_hash(one) for one in (same, *others, network(0.5, torch.bfloat16))}) == 4
    content = b"weight" + struct.pack("2f", 0.5, 0.5) + b"count" + struct.pack("f", 3.0)
    assert weights_hash(network(0.5, torch.float32)) == sha256(content).hexdigest()  # as files have it


def test_a_file_may_have_as_many_values_as_it_is_long(tmp_path: Path) -> None:
    """Such as the order of a training set's examples, which a sampler keeps."""
    network = build("small-cnn", 4, (0.3,), (0.4,))
    torch.save({"state_dict": network.state_dict(), "order": list(range(1_200_000))}, tmp_path / "a.pt")
    loaded, _ = load(tmp_path / "a.pt", architecture="small-cnn")
    assert weights_hash(loaded) == weights_hash(network)


def metadata(**changes: object) -> dict[str, object]:
    return {"architecture": "small-cnn", "num_classes": 4, "mean": [0.3], "std": [0.4]} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 50_000}, r"expected shape \(50000,.* for network.head.* in .*, got \(4,"),
        ({"num_classes": 200_000_000}, "num_classes, a whole number from 2 to 100,000, got 200000000"),
        ({"num_classes": 1e30}, "num_classes, a whole number"),
        ({"num_classes": "4"}, "num_classes, a whole number"),
        ({"architecture": "resnet18"}, "expected the weights of Normalized"),
        ({"architecture": ["small-cnn"]}, "expected architecture to be one of"),
        ({"mean": [float("nan")]}, "expected mean finite"),
        ({"std": [float("inf")]}, "std finite and > 0"),
        ({"mean": [0.3] * 50_000, "std": [0.4] * 50_000}, "expected shape"),
        ({"mean": 0.3, "std": 0.4}, "one number per channel"),
        ({"mean": [0.9]}, r"expected one mean in the metadata and the weights of .*, got \[0.9\] and \[0.3"),
        ({"std": [0.8]}, r"expected one std in the metadata and the weights of"),
    ],
)
def test_metadata_is_believed_only_where_the_weights_agree(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    state = build("small-cnn", 4, (0.3,), (0.4,)).state_dict()
    write_safetensors(tmp_path / "m.safetensors", state, metadata(**changes))
    built = []
    with pytest.MonkeyPatch.context() as patch:  # whatever is built before the weights agree takes no memory
        patch.setattr(nn.Linear, "__init__", _noting(nn.Linear.__init__, built))
        with pytest.raises(ModelError, match=message):
            load(tmp_path / "m.safetensors")
    assert all(size < 10_000 for size, device in built if device != "meta")


def _noting(init: Callable[..., None], built: list[tuple[int, str]]) -> Callable[..., None]:
    def noting(self: nn.Linear, *sizes: int, **options: object) -> None:
        init(self, *sizes, **options)
        built.append((self.weight.numel(), self.weight.device.type))

    return noting


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("std", torch.tensor([0.0]), "std finite and > 0"),
        ("std", torch.tensor([-0.4]), "std finite and > 0"),
        ("std", torch.tensor([float("inf")]), "NaN or infinity in std"),
        ("network.head.bias", torch.full((4,), 1e300, dtype=torch.float64), "NaN or infinity in network.head.bias"),
        ("network.head.bias", torch.zeros(4, dtype=torch.complex64), "got torch.complex64 in network.head.bias"),
        ("network.head.bias", torch.zeros(4, dtype=torch.int64), "got torch.int64 in network.head.bias"),
        ("network.head.bias", torch.zeros(4).to(torch.float8_e4m3fn), "got torch.float8_e4m3fn"),
        ("a" * 4000, torch.zeros(4), "1 unknown"),
    ],
)
def test_weights_that_are_no_weights(tmp_path: Path, name: str, tensor: Tensor, message: str) -> None:
    state = build("small-cnn", 4, (0.3,), (0.4,)).state_dict() | {name: tensor}
    write_safetensors(tmp_path / "m.safetensors", state, metadata())
    with pytest.raises(ModelError, match=message) as raised:
        load(tmp_path / "m.safetensors")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(1).expand(10**9, 64), r"a value of their own .* head.weight of shape \(1000000000, 64\) with 4"),
        (torch.zeros(4, 64).to_sparse(), "expected plain tensors in .*, got sparse_coo in head.weight"),
        (torch.zeros(4, 64, device="meta"), "expected plain tensors in .* head.weight"),
        (torch.zeros(4, 64, dtype=torch.complex64), "got torch.complex64 in head.weight"),
        (torch.zeros(10**9, 0), "1000000000 classes and 1 channels"),
    ],
)
def test_shapes_that_claim_more_than_the_file_holds(tmp_path: Path, tensor: Tensor, message: str) -> None:
    state = build("small-cnn", 4, (0.3,), (0.4,)).network.state_dict() | {"head.weight": tensor}
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "m.pt", mean=(0.3,), std=(0.4,))


def test_a_compressed_checkpoint_of_any_size(
    tmp_path: Path, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(network.state_dict(), tmp_path / "m.pt")
    monkeypatch.setattr(inputs, "UNPACKED", 1 << 20)
    with (
        zipfile.ZipFile(tmp_path / "m.pt") as source,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, bytes(1 << 24) if name.endswith("data/0") else source.read(name)[:2000])
    with pytest.raises(ArgumentError, match=r"bomb.pt, .* bytes, to unpack to at most"):
        load(tmp_path / "bomb.pt", mean=RAW[0], std=RAW[1])


@pytest.mark.parametrize("name", ["m.safetensors", "m.pt", "m.onnx"])
def test_files_that_never_end(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ArgumentError, match=r"expected a regular file at .*, got a FIFO"):
        load(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ArgumentError, match=r"expected a regular file at .*, got a device"):
        load(tmp_path / name)


@pytest.mark.parametrize("mean", [3.0, "a", [None], [[0.3]], {"a": 1}, [float("nan")]])
def test_a_mean_that_is_none(tmp_path: Path, network: nn.Module, mean: object) -> None:
    torch.save(network.state_dict(), tmp_path / "m.pt")
    with pytest.raises(ArgumentError, match="expected mean"):
        load(tmp_path / "m.pt", mean=mean, std=RAW[1])  # type: ignore[arg-type]


def test_other_contents(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"expected the path of a network, .* got Sequential: .* needs no loading"):
        load(nn.Sequential(*(nn.Linear(2, 2) for _ in range(9))))  # type: ignore[arg-type]  # its text is no path
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ModelError, match=r"expected a state dict in .*, got list"):
        load(tmp_path / "list.pt")
    torch.save({"epoch": 3}, tmp_path / "empty.pt")
    with pytest.raises(ModelError, match="expected a state dict of tensors"):
        load(tmp_path / "empty.pt")
    (tmp_path / "text.pt").write_text("hello\n")
    with pytest.raises(
        ModelError, match=r"expected a whole file written by torch.save at .*, got a damaged one.* state_dict\(\) by"
    ):
        load(tmp_path / "text.pt")
    with pytest.raises(ArgumentError, match=f"at {Path.cwd() / 'absent.safetensors'}, got nothing there"):
        load("absent.safetensors")


def test_the_users_own_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def linear(): return nn.Sequential(nn.Flatten(), nn.Linear(12, 3))\n"
        "def callable_(): return lambda x: x\n"
        "def weights(): return linear().state_dict()\n"
        "def both(): return linear(), 3\n"
        "def needy(size): return nn.Linear(size, size)\n"
        "def failing(): raise OSError('no weights here')\n"
        "def lacking(): open('no_such.pth')\n"
        "ready = linear()\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    model, metadata = load("my_nets:linear")
    assert model(torch.rand(2, 3, 2, 2)).shape == (2, 3)
    assert not model.training
    assert metadata["architecture"] == "my_nets:linear"
    normalized, _ = load("my_nets:linear", mean=(0.5,) * 3, std=(0.5,) * 3)
    assert isinstance(normalized, Normalized)
    with pytest.raises(ModelError, match=r"expected an nn.Module from my_nets:callable_, got a function"):
        load("my_nets:callable_")
    assert load("my_nets:ready")[0] is sys.modules["my_nets"].ready
    (tmp_path / "my_broken.py").write_text("import no_such_package\n")
    for name, words in (
        ("my_nets:weights", r"got an OrderedDict: put weights into the network, .*load_state_dict.*, and return that"),
        ("my_nets:both", r"got a tuple that begins with one: return that alone"),
        ("my_nets:absent", r"expected a function my_nets:absent, got no such name in .*my_nets\.py"),
        ("my_nets:needy", r"expected my_nets:needy to be a function without arguments, .* argument: 'size'"),
        ("my_nets:number", r"expected my_nets:number to be a function without arguments, .*, got int"),
        ("my_nets:failing", r"expected my_nets:failing\(\) .*, got what it raised: OSError\('no weights here'\)"),
        ("my_nets:lacking", r"expected my_nets:lacking\(\) .*: FileNotFoundError: .* 'no_such\.pth'"),
        ("no_such_module:f", r"expected a Python module no_such_module, .* got none in .*: go to the folder"),
        ("my_broken:f", r"expected my_broken to be imported, .*'no_such_package'.*: install no_such_package"),
    ):
        wrong_name = name in ("my_nets:absent", "no_such_module:f")
        with pytest.raises(ArgumentError if wrong_name else ModelError, match=words):
            load(name)
    sys.modules.pop("my_nets")


def test_an_architecture_of_ones_own_is_told_the_way(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    torch.save(model, tmp_path / "whole.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    resnet = build("resnet20", 10, (0.5,) * 3, (0.5,) * 3).network.state_dict()
    torch.save(resnet | {"extra": torch.zeros(1)}, tmp_path / "extra.pt")
    for name in ("whole.pt", "weights.pt", "extra.pt"):
        with pytest.raises(ModelError, match=r"for an architecture of your own, .*give package\.module:function$"):
            load(tmp_path / name)
