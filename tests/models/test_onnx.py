import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import anisocert as ac
from anisocert.errors import ArgumentError, MissingExtraError, ModelError
from anisocert.models import build, load, onnx_file
from anisocert.train import Cohen, Sgd, train

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install '.[onnx]'")
from onnx import AttributeProto, TensorProto, helper, numpy_helper  # noqa: E402

MEAN, STD = (0.3,), (0.4,)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    from anisocert.data import digits

    torch.manual_seed(0)
    model, data = build("small-cnn", 10, MEAN, STD), digits("train")
    train(model, data, Cohen(), ac.Gaussian(0.25), sgd=Sgd(2, 64, 0.05))
    return model


@pytest.fixture(scope="module")
def exported(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export(network, tmp_path_factory.mktemp("onnx") / "m.onnx")


def _export(network: nn.Module, path: Path, batch: int | None = None) -> Path:
    """By the exporter that needs no further package."""
    network = network.to(memory_format=torch.contiguous_format)
    free = {"dynamic_axes": {"x": {0: "b"}, "scores": {0: "b"}}} if batch is None else {}
    x = torch.rand(batch or 2, 1, 8, 8)
    torch.onnx.export(network, (x,), path, dynamo=False, input_names=["x"], output_names=["scores"], **free)
    return path


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.precision
def test_round_trip_certifies_with_the_same_votes(network: nn.Module, exported: Path) -> None:
    from anisocert.data import digits

    box, metadata = load(exported, num_classes=10)
    assert metadata["num_classes"] == 10
    tests = digits("test").subset(most=8)
    plan, float32 = ac.Plan(n0=50, n=1000), ac.Numerics("float32")  # what the file's own runtime computes in
    runs = [
        ac.certify(
            model, tests.x, ids=tests.ids.tolist(), smoothing=ac.Gaussian(0.25), plan=plan, num_classes=10,
            numerics=float32,
        )
        for model in (network, box)
    ]  # fmt: skip
    for torch_one, onnx_one in zip(*runs, strict=True):
        assert (torch_one.prediction, torch_one.top_votes, torch_one.runner_up_votes, torch_one.gap) == (
            onnx_one.prediction, onnx_one.top_votes, onnx_one.runner_up_votes, onnx_one.gap,
        )  # fmt: skip
    assert runs[0][0].model_hash != runs[1][0].model_hash
    assert any(one.gap > 0 for one in runs[1])


@pytest.mark.precision
def test_hash_tells_files_apart(network: nn.Module, exported: Path, tmp_path: Path) -> None:
    with torch.no_grad():
        network.network.head.bias[0] += 1e-3
    other = _export(network, tmp_path / "other.onnx")
    with torch.no_grad():
        network.network.head.bias[0] -= 1e-3
    hashes = {ac.Network(load(path)[0], 10).hash for path in (exported, other, exported)}
    assert len(hashes) == 2
    assert load(exported)[0].digest == hashlib.sha256(exported.read_bytes()).digest()


def test_fixed_batch_size(network: nn.Module, tmp_path: Path) -> None:
    box, _ = load(_export(network, tmp_path / "fixed.onnx", batch=4))
    x = torch.rand(6, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(box(x), network(x), rtol=1e-4, atol=1e-5)


def test_threads_are_as_many_as_torch_has(exported: Path) -> None:
    """Who gives torch one core means it."""
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert load(exported)[0].session.get_session_options().intra_op_num_threads == threads
    finally:
        torch.set_num_threads(before)


def test_normalisation_outside_the_file(network: nn.Module, tmp_path: Path) -> None:
    box, _ = load(_export(network.network, tmp_path / "bare.onnx"), mean=MEAN, std=STD)
    x = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(box(x), network(x), rtol=1e-4, atol=1e-5)


@pytest.mark.precision
def test_gradients_through_conversion(network: nn.Module, exported: Path) -> None:
    if find_spec("onnx2torch") is None:
        pytest.skip("needs the extra onnx: pip install '.[onnx]'")
    converted, metadata = load(exported, gradients=True)
    assert metadata["num_classes"] == 10
    gradients = []
    for model in (network, converted):
        x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        model(x)[:, 3].sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)


def test_broken_files(exported: Path, tmp_path: Path) -> None:
    for content in (b"", b"nonsense", exported.read_bytes()[:-500]):
        (tmp_path / "broken.onnx").write_bytes(content)
        with pytest.raises(ModelError, match="expected a whole ONNX file"):
            load(tmp_path / "broken.onnx")


def test_a_file_in_double_precision_is_not_called_broken(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 5))
    torch.onnx.export(network.double(), (torch.rand(2, 1, 8, 8).double(),), tmp_path / "double.onnx", dynamo=False)
    with pytest.raises(ModelError, match=r"operators that onnxruntime computes.*Conv.*: call model\.float\(\) before"):
        load(tmp_path / "double.onnx")


def test_wrong_class_count_and_wrong_output(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"expected a network with 100 classes in .*, got 10"):
        load(exported, num_classes=100)
    with pytest.raises(ModelError, match=r"shape \(b, classes\) in .*: export one that returns scores.flatten\(1\)"):
        load(_export(nn.Identity(), tmp_path / "identity.onnx"))
    with pytest.raises(ModelError, match=r"got 1: .*\[-z, z\], 1\) of a score z, or .*\[1 - p, p\], 1\) of a prob"):
        load(_export(nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), tmp_path / "single.onnx"))


@pytest.mark.parametrize(
    ("inputs", "kinds", "scores", "words"),
    [
        (["x", "mask"], ("FLOAT", "FLOAT"), ["b", 3], "expected one input in .*, got 'x', 'mask': .* others as consta"),
        (["x"], ("UINT8", "FLOAT"), ["b", 3], r"got tensor\(uint8\): export the graph without the cast at its begi"),
        (["x"], ("FLOAT", "INT64"), ["b"], "these are labels, which have no scores: export the scores they are taken"),
        (["x"], ("FLOAT", "FLOAT"), ["b"], r"for two classes, export one that returns torch.stack\(\[-z, z\], 1\)"),
    ],
)
def test_other_inputs_and_scores_name_the_remedy(
    tmp_path: Path, inputs: list[str], kinds: tuple[str, str], scores: list[Any], words: str
) -> None:
    given, returned = (getattr(TensorProto, kind) for kind in kinds)
    last = helper.make_node("ReduceSum", ["sum"], ["whole"], keepdims=0) if len(scores) == 1 else None
    graph = helper.make_graph(
        [
            *(helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT) for name in inputs),
            helper.make_node("Sum", [f"{name}_f" for name in inputs], ["sum"]),
            *([last] if last else []),
            helper.make_node("Cast", ["whole" if last else "sum"], ["scores"], to=returned),
        ],
        "net",
        [helper.make_tensor_value_info(name, given, ["b", 3]) for name in inputs],
        [helper.make_tensor_value_info("scores", returned, scores)],
    )
    path = tmp_path / "net.onnx"
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
    with pytest.raises(ModelError, match=words):
        load(path)


def test_files_newer_than_onnxruntime_name_the_remedy(tmp_path: Path) -> None:
    for newer in ("ir_version", "opset"):
        path = _save(tmp_path / f"{newer}.onnx", [])
        graph = onnx.load(path)
        if newer == "opset":
            graph.opset_import[0].version = 99
        else:
            graph.ir_version = 99
        path.write_bytes(graph.SerializeToString())
        with pytest.raises(ModelError, match=r"that this onnxruntime knows.*: update onnxruntime, or export the n"):
            load(path)


def test_missing_extra(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"anisocert\[onnx\]"):
        load(exported)


def test_missing_converter(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    with pytest.raises(MissingExtraError, match=r"anisocert\[onnx\]"):
        load(exported, gradients=True)


def test_scores_are_float32_numbers(exported: Path) -> None:
    scores = load(exported)[0](torch.rand(2, 1, 8, 8))
    assert scores.dtype == torch.float32
    assert np.isfinite(scores.numpy()).all()


# Hand-made graphs: x -> operator -> Gemm with weights -> scores


def _save(
    path: Path, nodes: list[Any], *, takes: tuple[Any, ...] = ("b", 4), outputs: dict[str, list[Any]] | None = None,
    tensors: Sequence[Any] = (), **more: Any,
) -> Path:  # fmt: skip
    """A model of these nodes over x; onnx's own checks would stop what is tried here."""
    outputs = {"scores": ["b", 3]} if outputs is None else outputs
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, takes)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9, **more).SerializeToString())
    return path


def _constant(name: str, value: np.ndarray) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _graph(path: Path, *, operator: str = "Relu", domain: str = "") -> Path:
    weights = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    nodes = [
        helper.make_node(operator, ["x"], ["features"], domain=domain),
        helper.make_node("MatMul", ["features", "weights"], ["scores"]),
    ]
    return _save(path, nodes, tensors=[numpy_helper.from_array(weights, "weights")])


def _external(path: Path, weights: np.ndarray, location: str = "weights.bin", **said: int) -> Path:
    """The graph with its weights elsewhere."""
    model = onnx.load(_graph(path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **said}.items():
        tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())
    if not Path(location).is_absolute():
        (path.parent / location).write_bytes(weights.astype(np.float32).tobytes())
    return path


WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("gradients", [False, True])
def test_hash_tells_operators_apart(tmp_path: Path, gradients: bool) -> None:
    if gradients:
        pytest.importorskip("onnx2torch", reason="the extra `onnx` is not installed")
    found = []
    for operator in ("Relu", "Sigmoid", "Relu"):
        model, _ = load(_graph(tmp_path / "net.onnx", operator=operator), gradients=gradients)
        found.append(ac.Network(model, 3).hash)
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("gradients", [False, True])
def test_external_data_is_that_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradients: bool
) -> None:
    """Not that of the current folder; and it is part of the hash."""
    if gradients:
        pytest.importorskip("onnx2torch", reason="the extra `onnx` is not installed")
    beside, elsewhere = tmp_path / "net", tmp_path / "elsewhere"
    beside.mkdir(), elsewhere.mkdir()
    path = _external(beside / "net.onnx", WEIGHTS)
    (elsewhere / "weights.bin").write_bytes((-WEIGHTS).tobytes())
    x = torch.rand(5, 4)
    hashes = []
    for folder in (beside, elsewhere):
        monkeypatch.chdir(folder)
        model, _ = load(path, gradients=gradients)
        torch.testing.assert_close(model(x), x @ torch.from_numpy(WEIGHTS))
        hashes.append(ac.Network(model, 3).hash)
    (beside / "weights.bin").write_bytes((2 * WEIGHTS).tobytes())
    other, _ = load(path, gradients=gradients)
    torch.testing.assert_close(other(x), x @ torch.from_numpy(2 * WEIGHTS))
    assert hashes[0] == hashes[1] != ac.Network(other, 3).hash


def test_parts_of_external_data(tmp_path: Path) -> None:
    path = _external(tmp_path / "net.onnx", np.concatenate([np.zeros(4), WEIGHTS.ravel()]), offset=16, length=48)
    x = torch.rand(5, 4)
    torch.testing.assert_close(load(path)[0](x), x @ torch.from_numpy(WEIGHTS))
    for said in ({"offset": 17}, {"offset": -1}, {"length": 1 << 40}, {"offset": 0, "length": -5}):
        with pytest.raises(ModelError, match=r"expected bytes .* of weights\.bin for 'weights'"):
            load(_external(tmp_path / "net.onnx", WEIGHTS, **{"length": 48} | said))


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "sub/../../secret.bin", "link.bin", "", "."):
        path = _external(folder / "net.onnx", WEIGHTS)
        model = onnx.load(path, load_external_data=False)
        model.graph.initializer[0].external_data[0].value = location
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match="expected external data in the folder of"):
            load(path)
    _external(folder / "net.onnx", WEIGHTS)
    (folder / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"expected a file at .*weights\.bin, got none \(No such file"):
        load(folder / "net.onnx")
    os.mkfifo(folder / "weights.bin")
    with pytest.raises(ModelError, match=r"expected a regular file at .*weights\.bin"):
        load(folder / "net.onnx")


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    from anisocert.models.onnx_file import read_onnx

    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ArgumentError, match=r"expected a regular file .* got a FIFO"):
        load(tmp_path / "pipe.onnx")
    for path in (tmp_path / "pipe.onnx", Path("/dev/zero")):
        with pytest.raises(ModelError, match="expected a regular file"):
            read_onnx(path)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"batch": 1 << 28}, "expected a batch of 1 to 65,536 in .*, or a free one, got 268,435,456"),
        ({"width": 1 << 40}, "expected inputs of 268,435,456 values at most in .*, got b x 1099511627776"),
        ({"batch": 1 << 16, "width": 1 << 13}, "expected inputs of 268,435,456 values at most"),
    ],
)
def test_absurd_sizes_that_a_file_declares(tmp_path: Path, sizes: dict[str, int], words: str) -> None:
    """They are refused before memory is taken for them."""
    batch, width = sizes.get("batch", "b"), sizes.get("width", 4)
    nodes = [helper.make_node("ReduceSum", ["x"], ["scores"], keepdims=1)]
    path = _save(tmp_path / "net.onnx", nodes, takes=(batch, width), outputs={"scores": [1, 1]})
    for gradients in (False, True):
        with pytest.raises(ModelError, match=words):
            load(path, gradients=gradients)


def test_functions_that_multiply_are_refused(tmp_path: Path) -> None:
    """Each of some forty calls the one before twice: onnxruntime would write them all out."""
    opsets, made = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)], []
    for k in range(40):
        inner, domain = (f"F{k - 1}", "my") if k else ("Neg", "")
        nodes = [helper.make_node(inner, [one], [two], domain=domain) for one, two in (("a", "t"), ("t", "o"))]
        made.append(helper.make_function("my", f"F{k}", ["a"], ["o"], nodes, opsets))
    own = helper.make_function("my", "Own", ["a"], ["o"], [helper.make_node("Own", ["a"], ["o"], domain="my")], opsets)
    for functions, name, words in (
        (made, "F39", "expected at most 50,000 nodes"),
        ([own], "Own", "expected functions that do not call themselves"),
    ):
        nodes = [helper.make_node(name, ["x"], ["scores"], domain="my")]
        with pytest.raises(ModelError, match=words):
            load(_save(tmp_path / "net.onnx", nodes, outputs={"scores": ["b", 4]}, functions=functions))


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_functions_that_hide_what_runs_are_refused(tmp_path: Path, domain: str) -> None:
    """An operator's name would hide a Loop from the check for loops; a second definition, how large the first is."""

    def identity(domain: str, name: str, **more: str) -> Any:
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_function(
            domain, name, ["a"], ["o"], [helper.make_node("Identity", ["a"], ["o"])], opsets, **more
        )

    nodes = [helper.make_node("Loop", ["x"], ["scores"], domain=domain)]
    with pytest.raises(ModelError, match=r"in domains of their own, got 'Loop' in that of standard operators: inline"):
        load(_save(tmp_path / "net.onnx", nodes, functions=[identity(domain, "Loop")]))
    nodes = [helper.make_node("F", ["x"], ["scores"], domain="my")]
    twice = [identity("my", "F"), identity("my", "F", overload="y")]
    with pytest.raises(ModelError, match=r"expected each function of .* once, got one that is defined again: export"):
        load(_save(tmp_path / "net.onnx", nodes, functions=twice))


def test_tensors_that_share_the_bytes_of_a_file_are_counted_each(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(onnx_file, "LARGEST", 100_000)
    (tmp_path / "w.bin").write_bytes(bytes(40_000))
    nodes = [helper.make_node("Identity", ["x"], ["scores"])]
    for count in (2, 3):
        tensors = [TensorProto(name=f"t{k}", data_type=TensorProto.FLOAT, dims=[10_000]) for k in range(count)]
        for one in tensors:
            one.data_location = TensorProto.EXTERNAL
            one.external_data.add(key="location", value="w.bin")
        path = _save(tmp_path / "net.onnx", nodes, outputs={"scores": ["b", 4]}, tensors=tensors)
        if count == 2:
            assert len(onnx_file.read_onnx(path).graph.graph.initializer) == 2
            continue
        with pytest.raises(ModelError, match="expected tensors of at most 100,000 bytes together"):
            onnx_file.read_onnx(path)


def test_custom_operators_are_refused(tmp_path: Path) -> None:
    path = _graph(tmp_path / "net.onnx", operator="Frobnicate", domain="org.example")
    with pytest.raises(ModelError, match=r"standard operators in .*, got org\.example::Frobnicate, which is custom"):
        load(path)


def test_external_data_of_a_functions_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that no node holds: it too is that beside the file, and part of the hash."""
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", ref_attr_name="w", type=AttributeProto.TENSOR)
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function(
        "my", "Lin", ["f"], ["y"], [constant, helper.make_node("MatMul", ["f", "w"], ["y"])], opsets
    )
    default = function.attribute_proto.add(name="w", type=AttributeProto.TENSOR)
    default.t.CopyFrom(TensorProto(dims=(4, 3), data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL))
    default.t.external_data.add(key="location", value="secret.bin")
    beside, elsewhere = tmp_path / "net", tmp_path / "elsewhere"
    beside.mkdir(), elsewhere.mkdir()
    node = helper.make_node("Lin", ["x"], ["scores"], domain="my")
    path = _save(beside / "net.onnx", [node], functions=[function])
    (elsewhere / "secret.bin").write_bytes((-WEIGHTS).tobytes())
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ModelError, match=r"expected a file at .*net/secret\.bin"):
        load(path)
    x, hashes = torch.rand(5, 4), set()
    for scale in (1, 2):
        (beside / "secret.bin").write_bytes((scale * WEIGHTS).tobytes())
        model, _ = load(path)
        torch.testing.assert_close(model(x), x @ torch.from_numpy(scale * WEIGHTS))
        hashes.add(ac.Network(model, 3).hash)
    assert len(hashes) == 2


def test_external_data_with_a_nul_in_its_name(tmp_path: Path) -> None:
    path = _external(tmp_path / "net.onnx", WEIGHTS)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "a\0b"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"expected external data in the folder of .*, got 'a\\x00b'"):
        load(path)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_loops_are_refused(tmp_path: Path, inside: bool, gradients: bool) -> None:
    """Their trip count is a number in the file: 2**62 rounds of nothing."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["v"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    loop = [
        _constant("rounds", np.array(1 << 62)), _constant("true", np.array(True)),
        helper.make_node("Loop", ["rounds", "true", "x"], ["same"], body=body),
    ]  # fmt: skip
    if inside:
        out = [helper.make_tensor_value_info("same", TensorProto.FLOAT, None)]
        branch = helper.make_graph(loop, "branch", [], out)
        loop = [
            _constant("yes", np.array(True)),
            helper.make_node("If", ["yes"], ["same"], then_branch=branch, else_branch=branch),
        ]
    end = [_constant("w", WEIGHTS), helper.make_node("MatMul", ["same", "w"], ["scores"])]
    with pytest.raises(ModelError, match=r"without loops in .*, got Loop, .*: unroll loops when exporting"):
        load(_save(tmp_path / "net.onnx", [*loop, *end]), gradients=gradients)


def test_branches_are_not_loops(tmp_path: Path) -> None:
    out = [helper.make_tensor_value_info("same", TensorProto.FLOAT, ["b", 4])]
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "branch", [], out)
    nodes = [
        _constant("yes", np.array(True)),
        helper.make_node("If", ["yes"], ["f"], then_branch=branch, else_branch=branch),
        _constant("w", WEIGHTS),
        helper.make_node("MatMul", ["f", "w"], ["scores"]),
    ]
    x = torch.rand(5, 4)
    torch.testing.assert_close(load(_save(tmp_path / "net.onnx", nodes))[0](x), x @ torch.from_numpy(WEIGHTS))


@pytest.mark.parametrize(
    ("outputs", "got"),
    [
        (
            {"features": ["b", 4], "scores": ["b", 3]},
            r"'features' tensor.* \['b', 4\], 'scores' tensor.* \['b', 3\]",
        ),
        ({}, "none"),
    ],
)
@pytest.mark.parametrize("gradients", [False, True])
def test_other_than_one_output(tmp_path: Path, outputs: dict[str, list[Any]], got: str, gradients: bool) -> None:
    """The first of several need not be the scores."""
    nodes = [
        helper.make_node("Relu", ["x"], ["features"]),
        _constant("w", WEIGHTS),
        helper.make_node("MatMul", ["features", "w"], ["scores"]),
    ]
    words = f"expected one output, the scores, in .*, got {got}: export the graph with the scores alone"
    with pytest.raises(ModelError, match=words):
        load(_save(tmp_path / "net.onnx", nodes, outputs=outputs), gradients=gradients)


@pytest.mark.parametrize("gradients", [False, True])
def test_scores_beside_predicted_labels(tmp_path: Path, gradients: bool) -> None:
    """As scikit-learn's classifiers are exported."""

    nodes = [
        _constant("w", WEIGHTS),
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    label = helper.make_tensor_value_info("label", TensorProto.INT64, ["b"])
    path = _save(tmp_path / "net.onnx", nodes)
    graph = onnx.load(path)
    graph.graph.output.insert(0, label)
    onnx.save(graph, path)
    model, known = load(path, shape=(4,), gradients=gradients)
    x = torch.rand(5, 4)
    torch.testing.assert_close(model(x), x @ torch.from_numpy(WEIGHTS))
    assert known["notes"] == ("its scores are the output 'scores'",)


def test_names_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """onnxruntime's log goes to the process's own stderr, so a process of its own is needed."""
    nodes = [
        _constant("sizes", np.array([5, 4])),  # which two rows of 4 do not fill
        helper.make_node("Reshape", ["x", "sizes"], ["f"], name="\x1b[31mred"),
        _constant("w", WEIGHTS),
        helper.make_node("MatMul", ["f", "w"], ["scores"]),
    ]
    path = _save(tmp_path / "net.onnx", nodes, outputs={"scores": ["b", "k"]})
    code = f"""
import torch
from anisocert.models import load
try:
    load({str(path)!r})[0](torch.rand(2, 4))
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert "\x1b" not in done.stderr
    assert "onnxruntime" not in done.stderr
