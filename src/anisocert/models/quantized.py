"""A network in 8-bit integers, as an ONNX file: another network than the one it was made from, and quicker on a CPU.

Nothing stands between the two: the file is loaded, hashed, checked and certified as any ONNX network is.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from anisocert.durable import write_whole
from anisocert.engine.rewriting import fold
from anisocert.engine.told import is_told
from anisocert.engine.trial import same_votes
from anisocert.errors import ArgumentError, MissingExtraError, ModelError, from_extra
from anisocert.models.onnx_spelling import OPSET

if TYPE_CHECKING:
    from anisocert.models.onnx_network import OnnxNetwork

AT_ONCE = 32  # inputs
PRODUCER = "anisocert"  # which durable.MARKS finds at the beginning of the file


def quantize(model: nn.Module, x: ArrayLike | Tensor, path: Path | str) -> "OnnxNetwork":
    """Write a network in 8-bit integers to an ONNX file, whole or not at all, and load it.

    All ranges are fixed in the file, those of maps by `x`; a range that followed the batch would let inputs answer for
    one another. Weights have 7 bits: with 8, processors without VNNI saturate sums of products that others do not,
    and the file would not be one function.

    model: an `nn.Module` in evaluation mode, not one that is told theta. x: `b x *shape`, inputs as it will see them,
    so with noise: examples of a training set, some hundreds.
    """
    from anisocert.models.onnx_network import OnnxNetwork, one_line  # which loads torch's compiler

    if is_told(model):
        raise ArgumentError("expected a network of inputs alone to quantize, got one that is told theta beside them")
    inputs = torch.as_tensor(np.asarray(x), device="cpu") if not isinstance(x, Tensor) else x.detach().cpu()
    if inputs.dtype != torch.float32 or inputs.dim() < 2 or len(inputs) == 0 or not bool(inputs.isfinite().all()):
        raise ArgumentError(
            f"expected x as finite inputs in float32, b x *shape, got {inputs.dtype} of shape {tuple(inputs.shape)}"
        )
    path = Path(path)
    with TemporaryDirectory(prefix="anisocert-") as folder, _quiet():
        exported, prepared, written = (Path(folder) / name for name in ("float.onnx", "prepared.onnx", "int8.onnx"))
        try:
            _export(_rewritten(model, inputs[:AT_ONCE]), inputs[:2], exported)
            _to_integers(exported, prepared, written, inputs)
        except (MissingExtraError, ArgumentError):
            raise
        except Exception as error:  # exporter and quantizer fail in as many ways as there are operators
            raise ModelError(
                f"expected a network that can be exported and quantized, got: {one_line(error)}"
            ) from error
        write_whole(path, lambda part: part.write_bytes(_finished(written)))
    return OnnxNetwork(path, like=tuple(inputs.shape[1:]))


def _rewritten(model: nn.Module, x: Tensor) -> nn.Module:
    """The network as the engine runs it, if that is the same function: of small maps, one product for all rows.

    onnxruntime takes the convolutions of a batch one input after the other, and of a 2x2 map reads all weights for 4
    rows of a product: the paper's ResNet18 is 2.6 times as fast rewritten.
    """
    with torch.no_grad():
        plain = copy.deepcopy(model).cpu().eval()
        rewritten = fold(plain, x[:2], "float32")
        return rewritten if same_votes(plain(x.clone()), rewritten(x.clone()), "float32") else plain


def _export(network: nn.Module, x: Tensor, path: Path) -> None:
    """By the exporter that needs no further package."""
    network = network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    axes = {"x": {0: "b"}, "scores": {0: "b"}}
    torch.onnx.export(
        network, (x,), path, dynamo=False, opset_version=OPSET, input_names=["x"], output_names=["scores"],
        dynamic_axes=axes,
    )  # fmt: skip


def _to_integers(exported: Path, prepared: Path, written: Path, x: Tensor) -> None:
    with from_extra("onnx", "quantizing needs onnx and onnxruntime"):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

    class Batches(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(torch.split(x, AT_ONCE))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.rest, None)
            return None if batch is None else {"x": batch.numpy()}

    quant_pre_process(str(exported), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared), str(written), Batches(), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip


def _finished(written: Path) -> bytes:
    """The file with our name in it, and with scores as the last product has them.

    In 8 bits the two largest would often be equal, and all beyond the largest that was seen.
    """
    import onnx

    model = onnx.load(written)
    nodes = model.graph.node
    by_output = {name: node for node in nodes for name in node.output}
    dequantizer = by_output["scores"]
    quantizer = by_output.get(dequantizer.input[0])
    if quantizer is not None and (quantizer.op_type, dequantizer.op_type) == ("QuantizeLinear", "DequantizeLinear"):
        last = by_output[quantizer.input[0]]
        last.output[list(last.output).index(quantizer.input[0])] = "scores"
        nodes.remove(quantizer)
        nodes.remove(dequantizer)
    model.producer_name, model.producer_version = PRODUCER, ""
    content: bytes = model.SerializeToString(deterministic=True)
    return content


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporter and quantizer say about themselves: one is old, the other logs its progress."""
    import logging

    root = logging.getLogger()
    level = root.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root.setLevel(logging.ERROR)
        try:
            yield
        finally:
            root.setLevel(level)
