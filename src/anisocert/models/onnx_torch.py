"""An ONNX network as a PyTorch module, for methods that need gradients: converted, and compared with the file's own."""

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.engine.probe import probe_inputs
from anisocert.engine.trial import GROUPS, alike
from anisocert.errors import MissingExtraError, ModelError
from anisocert.models.onnx_file import OnnxFile
from anisocert.models.onnx_network import OnnxNetwork, one_line
from anisocert.models.onnx_spelling import OPSET, constants_of, spelt_out

AGREEMENT = 1e-3  # between onnxruntime's scores and those of the converted network
FEWER = 2  # rows, besides all of the fixed inputs at once: a batch that is baked in is not both
STATISTICAL = "ai.onnx.ml"  # operators of scikit-learn's estimators, of which no version can be converted
WITHOUT = "Without gradients it works as a black box: --method isotropic, or fixed"


def to_torch(path: Path, read: OnnxFile, box: OnnxNetwork) -> nn.Module:
    """The network of an ONNX file with gradients, checked against the black box on fixed inputs, many at a time."""
    try:
        import onnx.version_converter

        _declare_torchvision_operators()
        from onnx2torch import convert
    except ImportError as error:
        raise MissingExtraError(
            f"gradients of ONNX networks need onnx and onnx2torch: pip install 'anisocert[onnx]' ({error})"
        ) from error
    x = torch.from_numpy(probe_inputs(box.trial_shape))
    try:
        reference = box(x)
    except Exception as error:  # onnxruntime's own exceptions share no public root
        raise ModelError(
            f"expected a network that takes inputs of shape {box.trial_shape}, got: {one_line(error)}"
        ) from error
    # of onnx2torch's Slice, which this torch still computes as it is meant
    warnings.filterwarnings("ignore", "Using a non-tuple sequence for multidimensional indexing")
    reasons = dict[str, None]()
    graph = read.graph if box.chosen is None else _of_one_output(read.graph, box.chosen)
    for form in _forms(graph, read.opset or OPSET, box.batch, onnx.version_converter.convert_version):
        try:
            model = convert(form()).eval()
            with torch.no_grad():
                agrees = _agree(reference, model(x))
                agrees = agrees and _agree(reference, torch.cat([model(piece) for piece in x.tensor_split([FEWER])]))
        except Exception as error:  # conversion and the converted code fail in as many ways as there are operators
            reasons[one_line(error)] = None
            continue
        if agrees:
            model.num_classes = reference.shape[1]
            return model  # type: ignore[no-any-return]
        reasons["scores that differ from the file's own"] = None
    newer = (read.opset or 0) > OPSET + 1 and not any(STATISTICAL in reason for reason in reasons)
    baked = f"a batch of {box.batch} is baked into it, " if box.batch else ""
    double = "Export it in float32, by model.float(). " if box.dtype == np.float64 else ""
    raise ModelError(
        f"expected an ONNX file that onnx2torch converts at {path}, got: {baked}{'; '.join(reasons)}. {double}"
        f"{'Export it with a free batch (dynamic axes). ' if box.batch else ''}"
        f"{f'Export it with operator set {OPSET + 1} or older. ' if newer else ''}{WITHOUT}"
    )


def _of_one_output(graph: Any, name: str) -> Any:
    """The graph with that output alone."""
    graph = copy.deepcopy(graph)
    kept = [output for output in graph.graph.output if output.name == name]
    del graph.graph.output[:]
    graph.graph.output.extend(kept)
    return graph


def _forms(
    graph: Any, opset: int, batch: int | None, convert: Callable[[Any, int], Any]
) -> Iterator[Callable[[], Any]]:
    """Forms of a graph to try in turn, each computing the same: the file's own first, so that its hash stays.

    Older operators are unknown to onnx2torch, newer ones too: hence the converted form, and those that are spelt out.
    A batch that the graph's Reshapes have baked in is made free.
    """
    forms = [lambda: graph] if opset <= OPSET else []
    forms += [lambda: convert(graph, OPSET)] if opset != OPSET else []
    forms += [lambda: spelt_out(graph)]
    yield from forms
    if batch is not None:
        yield from (lambda form=form: _freed(form(), batch) for form in forms)


def _freed(graph: Any, batch: int) -> Any:
    """The graph with Reshapes that keep the number of rows, where they had the batch written down."""
    from onnx import numpy_helper

    graph = copy.deepcopy(graph)
    shapes = {node.input[1] for node in graph.graph.node if node.op_type == "Reshape" and len(node.input) > 1}
    constants = constants_of(graph)
    for name in shapes & constants.keys():
        sizes = numpy_helper.to_array(constants[name]).copy()
        if sizes.ndim == 1 and len(sizes) > 1 and sizes[0] == batch:
            sizes[0] = 0  # ONNX's word for: as in the input
            constants[name].CopyFrom(numpy_helper.from_array(sizes, constants[name].name))
    return graph


def _agree(reference: Tensor, scores: Any) -> bool:
    if not isinstance(scores, Tensor) or scores.shape != reference.shape:
        return False
    return all(
        alike(reference[group::GROUPS].double(), scores[group::GROUPS].double(), AGREEMENT, AGREEMENT)
        for group in range(min(GROUPS, len(reference)))
    )


def _declare_torchvision_operators() -> None:
    """Let torchvision, which onnx2torch imports, be imported beside a torch that its compiled part does not fit.

    Its Python part registers shapes for two operators that are then not defined; declaring them is enough, as nothing
    here calls them. The declarations must stay alive as long as the process.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
        _DECLARED.append(library)


_DECLARED: list[torch.library.Library] = []
