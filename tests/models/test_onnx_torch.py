"""Files as older and other exporters write them: made by hand, operator by operator."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anisocert as ac
from anisocert.errors import ModelError
from anisocert.models import load

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs the extra onnx: pip install '.[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

if find_spec("onnx2torch") is None:  # importing it needs what only loading prepares
    pytest.skip("needs the extra onnx: pip install '.[onnx]'", allow_module_level=True)

WEIGHTS = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
IMAGE = (1, 4, 4)


def _save(path: Path, before: list[Any], *, shape: tuple[Any, ...] = ("b", *IMAGE), opset: int = 13) -> Path:
    """x -> some operators -> features, `b x 16` -> scores."""
    nodes = [*before, helper.make_node("MatMul", ["features", "weights"], ["scores"])]
    constants = {"weights": WEIGHTS, "one_row": np.array([1, 16]), "one_open": np.array([1, -1])}
    constants |= {f"{rows}_rows": np.array([rows, 16]) for rows in (2, 16)}
    constants |= {"four": np.array([4]), "last": np.array([-1]), "four_ones": np.ones(4, np.float32)}
    constants |= {"sixteen": np.full(16, 2, np.float32)}
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [shape[0], 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    other = helper.make_opsetid("ai.onnx.ml", 1)  # it comes first, and says nothing about the operators
    model = helper.make_model(
        graph, opset_imports=[other, helper.make_opsetid("", opset)], ir_version=4 if opset < 20 else 9
    )
    path.write_bytes(model.SerializeToString())
    return path


def _scores(x: Tensor) -> Tensor:
    return x.flatten(1) @ torch.from_numpy(WEIGHTS)


def _old(path: Path) -> Path:
    """Slice with attributes, of operator set 1."""
    cut = helper.make_node("Slice", ["x"], ["cut"], axes=[1], starts=[0], ends=[1])
    return _save(path, [cut, helper.make_node("Flatten", ["cut"], ["features"])], opset=7)


def _baked(path: Path, batch: Any, sizes: str) -> Path:
    return _save(path, [helper.make_node("Reshape", ["x", sizes], ["features"])], shape=(batch, *IMAGE))


def test_old_operators_are_converted(tmp_path: Path) -> None:
    x = torch.rand(5, *IMAGE)
    for gradients in (False, True):
        model, known = load(_old(tmp_path / "old.onnx"), gradients=gradients, shape=IMAGE)
        assert known["notes"] == ()
        torch.testing.assert_close(model(x), _scores(x), rtol=1e-5, atol=1e-5)
    (slope,) = torch.autograd.grad(model(x.requires_grad_())[:, 1].sum(), [x])
    torch.testing.assert_close(slope.flatten(1), torch.from_numpy(WEIGHTS[:, 1]).expand(5, 16))


@pytest.mark.parametrize("sizes", ["one_row", "one_open"])
@pytest.mark.parametrize("batch", ["b", 1])
def test_a_batch_that_is_baked_in(tmp_path: Path, batch: Any, sizes: str) -> None:
    """Declared or not: votes are counted row by row, and a network with gradients takes many rows."""
    path, x = _baked(tmp_path / "baked.onnx", batch, sizes), torch.rand(5, *IMAGE)
    box, known = load(path, shape=IMAGE)
    torch.testing.assert_close(box(x), _scores(x), rtol=1e-5, atol=1e-5)
    assert len(known["notes"]) == 1
    assert "a batch of 1 baked in" in known["notes"][0]
    model, known = load(path, gradients=True, shape=IMAGE)
    torch.testing.assert_close(model(x), _scores(x), rtol=1e-5, atol=1e-5)
    assert known["notes"] == ()
    plan, few = ac.Plan(n0=20, n=100), ac.Numerics(rows=32)
    for one in (box, model):
        ac.certify(one, x[:1], num_classes=3, smoothing=ac.Gaussian(0.25), method=ac.Fixed(), plan=plan, numerics=few)


@pytest.mark.parametrize("batch", [2, 16])  # as many as are tried at once, either
def test_a_larger_batch_that_is_baked_in_is_freed(tmp_path: Path, batch: int) -> None:
    path, x = _baked(tmp_path / "baked.onnx", batch, f"{batch}_rows"), torch.rand(5, *IMAGE)
    model, _ = load(path, gradients=True, shape=IMAGE)
    for rows in (1, 2, 5):
        torch.testing.assert_close(model(x[:rows]), _scores(x[:rows]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_row_of_any_length(tmp_path: Path, gradients: bool) -> None:
    """Its file leaves open how many values an input has: as many as those that it gets."""
    path = _save(tmp_path / "open.onnx", [helper.make_node("Identity", ["x"], ["features"])], shape=("b", "m"))
    x = torch.rand(5, *IMAGE)
    model, known = load(path, gradients=gradients, shape=IMAGE, layout="flat")
    torch.testing.assert_close(model(x), _scores(x), rtol=1e-5, atol=1e-5)
    assert known["notes"] == ("inputs of 1 x 4 x 4 are given to it as 16, which it takes",)


def test_operators_older_than_those_that_run(tmp_path: Path) -> None:
    nodes = [helper.make_node("Flatten", ["x"], ["flat"])]
    nodes += [helper.make_node("Add", ["flat", "flat"], ["features"], broadcast=1)]
    words = r"expected operator set 7 or later.*got 6 \(.*Add\(6\).*\): export the network again.*--method isotropic"
    with pytest.raises(ModelError, match=words):
        load(_save(tmp_path / "six.onnx", nodes, opset=6))


def test_a_batch_that_cannot_be_freed_is_named(tmp_path: Path) -> None:
    """Its rows would run into each other: the mean is over all that it is given."""
    mean = helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0, 1], keepdims=1)
    less = helper.make_node("Sub", ["x", "mean"], ["less"])
    path = _save(tmp_path / "mean.onnx", [less, helper.make_node("Flatten", ["less"], ["features"])], shape=(1, *IMAGE))
    model = onnx.load(path)
    model.graph.node.insert(0, mean)
    path.write_bytes(model.SerializeToString())
    words = r"a batch of 1 is baked into it, scores that differ.*Export it with a free batch.*--method isotropic"
    with pytest.raises(ModelError, match=words):
        load(path, gradients=True, shape=IMAGE)


def test_double_precision_that_is_not_converted_is_told_to_become_float32(tmp_path: Path) -> None:
    path = _save(tmp_path / "double.onnx", [helper.make_node("Flatten", ["x"], ["features"])])
    model = onnx.load(path)
    (weights,) = (one for one in model.graph.initializer if one.name == "weights")
    weights.CopyFrom(numpy_helper.from_array(WEIGHTS.astype(np.float64), "weights"))
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.elem_type = TensorProto.DOUBLE
    path.write_bytes(model.SerializeToString())
    assert load(path, shape=IMAGE)[0](torch.rand(2, *IMAGE)).shape == (2, 3)
    with pytest.raises(ModelError, match=r"Export it in float32, by model\.float\(\)\. Without gradients it works"):
        load(path, gradients=True, shape=IMAGE)


def test_the_whole_reason_is_kept(tmp_path: Path) -> None:
    unknown = helper.make_node("Shrink", ["x"], ["y"])
    path = _save(tmp_path / "unknown.onnx", [unknown, helper.make_node("Flatten", ["y"], ["features"])], opset=12)
    assert load(path, shape=IMAGE)[0](torch.rand(2, *IMAGE)).shape == (2, 3)
    with pytest.raises(ModelError, match=r"operation_type='Shrink'.*--method isotropic, or fixed"):
        load(path, gradients=True, shape=IMAGE)
    name = f"No{300 * 'o'}Operator"
    with pytest.raises(ModelError, match=f"No Op registered for {name} with domain_version of 13"):
        load(_save(tmp_path / "no.onnx", [helper.make_node(name, ["x"], ["features"])]))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("declared", [("b", 16), ("b", 4, 4, 1)])
def test_flat_and_channels_last(tmp_path: Path, declared: tuple[Any, ...], gradients: bool) -> None:
    path = _save(tmp_path / "shaped.onnx", [helper.make_node("Flatten", ["x"], ["features"])], shape=declared)
    x = torch.rand(5, *IMAGE)
    model, known = load(path, gradients=gradients, shape=IMAGE)
    torch.testing.assert_close(model(x), _scores(x), rtol=1e-5, atol=1e-5)
    assert known["notes"][0].startswith("inputs of 1 x 4 x 4 are given to it as ")
    same, known = load(path, gradients=gradients, shape=declared[1:])
    assert known["notes"] == ()
    assert ac.Network(same, 3).hash != ac.Network(model, 3).hash


@pytest.mark.parametrize("gradients", [False, True])
def test_channels_last_colours_keep_their_pixels(tmp_path: Path, gradients: bool) -> None:
    """An order that no error would show: as many values, and a Flatten that takes them in any shape."""
    shape = (4, 2, 2)
    path = _save(tmp_path / "last.onnx", [helper.make_node("Flatten", ["x"], ["features"])], shape=("b", 2, 2, 4))
    x = torch.rand(5, *shape)
    model, _ = load(path, gradients=gradients, shape=shape)
    torch.testing.assert_close(model(x), _scores(x.permute(0, 2, 3, 1)), rtol=1e-5, atol=1e-5)


def _recent(kind: str) -> tuple[list[Any], Any]:
    """Nodes of operator set 20 that make features, `b x 16`, of x, and the same in torch."""
    flat, images = helper.make_node("Flatten", ["x"], ["flat"]), "x"
    match kind:
        case "gelu":
            return [flat, helper.make_node("Gelu", ["flat"], ["features"])], lambda x: F.gelu(x.flatten(1))
        case "gelu by tanh":
            gelu = helper.make_node("Gelu", ["flat"], ["features"], approximate="tanh")
            return [flat, gelu], lambda x: F.gelu(x.flatten(1), approximate="tanh")
        case "layer norm":  # of a map whose sizes are computed
            shape = helper.make_node("Shape", [images], ["sizes"], end=3)
            reshaped = helper.make_node("Reshape", [images, "sizes_4"], ["map"], allowzero=1)
            sizes = helper.make_node("Concat", ["sizes", "four"], ["sizes_4"], axis=0)
            norm = helper.make_node("LayerNormalization", ["map", "four_ones", "four_ones"], ["normed"], epsilon=1e-3)
            last = helper.make_node("Flatten", ["normed"], ["features"])
            return [shape, sizes, reshaped, norm, last], lambda x: (F.layer_norm(x, (4,), eps=1e-3) + 1).flatten(1)
        case "mean over axes that are an input":
            nodes = [helper.make_node("ReduceMean", [images, "last"], ["mean"], keepdims=1)]
            nodes += [
                helper.make_node("Sub", [images, "mean"], ["less"]),
                helper.make_node("Gelu", ["less"], ["curved"]),
            ]
            nodes += [helper.make_node("Flatten", ["curved"], ["features"])]
            return nodes, lambda x: F.gelu(x - x.mean(-1, keepdim=True)).flatten(1)
        case "weights under two names":
            nodes = [helper.make_node("Identity", ["sixteen"], ["same"], "names_same")]
            nodes += [flat, helper.make_node("Mul", ["flat", "same"], ["twice"])]
            return [*nodes, helper.make_node("Gelu", ["twice"], ["features"])], lambda x: F.gelu(2 * x.flatten(1))
        case _:
            split = helper.make_node("Split", [images], ["upper", "lower"], axis=2, num_outputs=2)
            nodes = [split, helper.make_node("Concat", ["lower", "upper"], ["turned"], axis=2)]
            nodes += [
                helper.make_node("Gelu", ["turned"], ["curved"]),
                helper.make_node("Flatten", ["curved"], ["features"]),
            ]
            return nodes, lambda x: F.gelu(torch.cat([x[:, :, 2:], x[:, :, :2]], 2)).flatten(1)


RECENT = (
    "gelu", "gelu by tanh", "layer norm", "mean over axes that are an input", "weights under two names",
    "a split into equal parts",
)  # fmt: skip


@pytest.mark.parametrize("kind", RECENT)
def test_recent_operators_have_gradients(tmp_path: Path, kind: str) -> None:
    nodes, features = _recent(kind)
    path = _save(tmp_path / "recent.onnx", nodes, opset=20)
    x = torch.rand(5, *IMAGE, requires_grad=True)
    expected = features(x) @ torch.from_numpy(WEIGHTS)
    for gradients in (False, True):
        model, _ = load(path, gradients=gradients, shape=IMAGE)
        torch.testing.assert_close(model(x), expected, rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(scores[:, 1].sum(), [x])[0] for scores in (model(x), expected)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-5)


def test_operators_too_recent_to_be_spelt_out_name_the_remedy(tmp_path: Path) -> None:
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("HardSwish", ["flat"], ["swished"])]
    nodes += [helper.make_node("Gelu", ["swished"], ["shrunk"]), helper.make_node("Shrink", ["shrunk"], ["features"])]
    with pytest.raises(ModelError, match=r"Export it with operator set 18 or older. Without gradients it works as a b"):
        load(_save(tmp_path / "recent.onnx", nodes, opset=20), gradients=True, shape=IMAGE)


def test_estimators_are_not_sent_to_an_older_operator_set(tmp_path: Path) -> None:
    """No version of scikit-learn's operators can be converted."""
    before = [
        helper.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0]),
        helper.make_node("Flatten", ["scaled"], ["features"]),
    ]
    with pytest.raises(ModelError, match="Scaler") as refused:
        load(_save(tmp_path / "net.onnx", before, opset=20), gradients=True)
    assert "operator set" not in str(refused.value)
    assert "--method isotropic" in str(refused.value)
