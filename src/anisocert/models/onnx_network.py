"""ONNX networks: as a black box by onnxruntime, or converted to PyTorch where gradients are wanted."""

import hashlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.errors import MissingExtraError, ModelError

NEWEST_OPSET = 17  # that onnx2torch knows throughout; newer files are converted down
AGREEMENT = 1e-3  # relative to the largest score, between onnxruntime and the converted network


class OnnxNetwork(nn.Module):
    """The network of an ONNX file, run by onnxruntime in the file's own precision; it gives no gradients.

    One input of shape `b x *shape`; the first output is `b x num_classes`. The file's SHA-256 is a buffer, so that the
    network's hash tells files apart.
    """

    digest: Tensor

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError("ONNX networks need onnxruntime: pip install 'anisocert[onnx]'") from error
        content = path.read_bytes()
        available = onnxruntime.get_available_providers()
        wanted = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
        try:
            self.session = onnxruntime.InferenceSession(content, providers=wanted)
        except Exception as error:  # onnxruntime's own exceptions share no public root
            raise ModelError(f"expected a whole ONNX file at {path}, got: {str(error)[:200]}") from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(inputs) != 1 or len(outputs[0].shape) != 2:
            raise ModelError(
                f"expected one input and scores of shape (b, classes) in {path}, "
                f"got {len(inputs)} inputs and an output of shape {outputs[0].shape}"
            )
        self.input, self.output, shape = inputs[0].name, outputs[0].name, inputs[0].shape
        self.batch = shape[0] if isinstance(shape[0], int) else None
        self.shape = tuple(shape[1:])
        classes = outputs[0].shape[1]
        self.num_classes = classes if isinstance(classes, int) else None
        self.dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}.get(
            inputs[0].type
        )
        if self.dtype is None:
            raise ModelError(f"expected a floating-point input in {path}, got {inputs[0].type}")
        self.register_buffer("digest", torch.frombuffer(bytearray(hashlib.sha256(content).digest()), dtype=torch.uint8))
        self.eval()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`, in pieces of the file's batch size where that is fixed."""
        rows = x.detach().cpu().numpy().astype(self.dtype)
        batch = self.batch or len(rows)
        scores = []
        for start in range(0, len(rows), batch):
            piece = rows[start : start + batch]
            padded = np.concatenate([piece, np.repeat(piece[:1], batch - len(piece), 0)])
            scores.append(self.session.run([self.output], {self.input: np.ascontiguousarray(padded)})[0][: len(piece)])
        return torch.from_numpy(np.concatenate(scores)).to(x.device, torch.float32)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnnxNetwork":
        """Itself: a session cannot be copied and holds nothing that changes."""
        return self


def to_torch(path: Path) -> nn.Module:
    """The network of an ONNX file as a PyTorch module with gradients, checked against onnxruntime on random inputs."""
    box = OnnxNetwork(path)
    try:
        import onnx
        import onnx.version_converter

        _declare_torchvision_operators()
        from onnx2torch import convert
    except ImportError as error:
        raise MissingExtraError(
            f"gradients of ONNX networks need onnx and onnx2torch: pip install 'anisocert[onnx]' ({error})"
        ) from error
    shape = tuple(size if isinstance(size, int) else 8 for size in box.shape)
    x = torch.rand(box.batch or 4, *shape, generator=torch.Generator().manual_seed(0))
    try:
        graph = onnx.load(str(path))
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
    difference = float((converted.float() - reference).abs().max() / reference.abs().max().clamp_min(1e-6))
    if not difference <= AGREEMENT:
        raise ModelError(f"expected onnx2torch's network to agree with {path}, got scores that differ by {difference}")
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
