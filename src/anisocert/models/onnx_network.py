"""ONNX networks: as a black box by onnxruntime, or converted to PyTorch where gradients are wanted."""

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.engine.agreement import GROUPS, alike
from anisocert.engine.probe import probe_inputs
from anisocert.errors import MissingExtraError, ModelError
from anisocert.models.onnx_file import OnnxFile, read_onnx

NEWEST_OPSET = 17  # that onnx2torch knows throughout; newer files are converted down
FATAL = 4  # onnxruntime's highest level of severity
AGREEMENT = 1e-3  # between onnxruntime's scores and those of the converted network
# What files may declare: more than any network has, and less than memory holds.
LARGEST_BATCH, LARGEST_INPUT, LARGEST_CLASSES = 1 << 16, 1 << 28, 1 << 20


class OnnxNetwork(nn.Module):
    """The network of an ONNX file, run by onnxruntime in the file's own precision; without gradients.

    One input of shape `b x *shape`, one output of `b x num_classes`. In the model hash it stands for the bytes of
    the file and of the files that it keeps data in.
    """

    def __init__(self, path: Path, read: OnnxFile | None = None) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError("ONNX networks need onnxruntime: pip install 'anisocert[onnx]'") from error
        read = read or read_onnx(path)
        self.digest = read.digest
        available = onnxruntime.get_available_providers()
        wanted = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
        # its log would write names from the file to the terminal unescaped; what matters comes as an exception
        onnxruntime.set_default_logger_severity(FATAL)
        options, self.options = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
        options.log_severity_level = self.options.log_severity_level = FATAL
        try:
            self.session = onnxruntime.InferenceSession(read.content, options, providers=wanted)
        except Exception as error:  # onnxruntime's own exceptions share no public root
            raise ModelError(f"expected a whole ONNX file at {path}, got: {str(error)[:200]}") from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(outputs) != 1:  # of several, it is unknown which are the scores
            names = ", ".join(f"{one.name[:50]!r} {one.shape}" for one in outputs[:8]) or "none"
            raise ModelError(
                f"expected one output, the scores, in {path}, got {names}: export the graph with the scores alone"
            )
        if len(inputs) != 1 or len(outputs[0].shape) != 2:
            raise ModelError(
                f"expected one input and scores of shape (b, classes) in {path}, "
                f"got {len(inputs)} inputs and an output of shape {outputs[0].shape}"
            )
        self.input, self.output, shape = inputs[0].name, outputs[0].name, inputs[0].shape
        self.batch = shape[0] if shape and isinstance(shape[0], int) else None
        self.shape = tuple(shape[1:])
        classes = outputs[0].shape[1]
        self.num_classes = classes if isinstance(classes, int) else None
        self._refuse_sizes(path)
        self.dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}.get(
            inputs[0].type
        )
        if self.dtype is None:
            raise ModelError(f"expected a floating-point input in {path}, got {inputs[0].type}")
        self.eval()

    def _refuse_sizes(self, path: Path) -> None:
        """Check sizes that the file declares, before memory is allocated for them."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        if self.batch is not None and not 1 <= self.batch <= LARGEST_BATCH:
            raise ModelError(f"expected a batch of 1 to {LARGEST_BATCH:,} in {path}, or a free one, got {self.batch:,}")
        if min(sizes, default=1) < 1 or (self.batch or 1) * math.prod(sizes) > LARGEST_INPUT:
            raise ModelError(f"expected inputs of {LARGEST_INPUT:,} values at most in {path}, got {self._declared()}")
        if self.num_classes is not None and not 2 <= self.num_classes <= LARGEST_CLASSES:
            raise ModelError(f"expected 2 to {LARGEST_CLASSES:,} classes in {path}, got {self.num_classes:,}")

    def _declared(self) -> str:
        return " x ".join(str(size) for size in (self.batch or "b", *self.shape))

    def __identity__(self) -> bytes:
        """What stands for this network in the model hash."""
        return self.digest

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`, in pieces of the file's batch size where that is fixed."""
        rows = x.detach().cpu().numpy().astype(self.dtype)
        batch = self.batch or len(rows)
        scores = []
        for start in range(0, len(rows), batch):
            piece = rows[start : start + batch]
            padded = np.concatenate([piece, np.repeat(piece[:1], batch - len(piece), 0)])
            given = {self.input: np.ascontiguousarray(padded)}
            scores.append(self.session.run([self.output], given, self.options)[0][: len(piece)])
        return torch.from_numpy(np.concatenate(scores)).to(x.device, torch.float32)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnnxNetwork":
        """Itself: a session cannot be copied and holds nothing that changes."""
        return self


def to_torch(path: Path) -> nn.Module:
    """The network of an ONNX file as a PyTorch module with gradients, checked against onnxruntime on random inputs."""
    read = read_onnx(path)
    box = OnnxNetwork(path, read)
    try:
        import onnx.version_converter

        _declare_torchvision_operators()
        from onnx2torch import convert
    except ImportError as error:
        raise MissingExtraError(
            f"gradients of ONNX networks need onnx and onnx2torch: pip install 'anisocert[onnx]' ({error})"
        ) from error
    shape = tuple(size if isinstance(size, int) else 8 for size in box.shape)
    inputs = torch.from_numpy(probe_inputs(shape))
    x = inputs[torch.arange(box.batch or len(inputs)) % len(inputs)]
    try:
        graph = read.graph
        if graph.opset_import[0].version > NEWEST_OPSET:
            graph = onnx.version_converter.convert_version(graph, NEWEST_OPSET)
        model = convert(graph).eval()
        with torch.no_grad():
            converted = model(x)
    except Exception as error:  # conversion and the converted code fail in as many ways as there are operators
        raise ModelError(
            f"expected an ONNX file that onnx2torch converts at {path}, got: {str(error)[:200]}; "
            "without gradients it still works as a black box"
        ) from error
    reference = box(x)
    agree = converted.shape == reference.shape and all(
        alike(reference[group::GROUPS].double(), converted[group::GROUPS].double(), AGREEMENT, AGREEMENT)
        for group in range(min(GROUPS, len(reference)))
    )
    if not agree:
        raise ModelError(f"expected onnx2torch's network to agree with {path}, got different scores")
    model.num_classes = reference.shape[1]
    return model  # type: ignore[no-any-return]


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
