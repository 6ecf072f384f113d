"""ONNX networks as a black box, by onnxruntime."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anisocert.engine.probe import probe_inputs
from anisocert.errors import ModelError, from_extra
from anisocert.models.onnx_file import OnnxFile, read_onnx

FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
FATAL = 4  # onnxruntime's highest level of severity
# What files may declare: more than any network has, and less than memory holds.
LARGEST_BATCH, LARGEST_INPUT, LARGEST_CLASSES = 1 << 16, 1 << 28, 1 << 20
NEWER = ("Unsupported model IR version", "is under development")  # how onnxruntime calls versions after its own
LARGEST_TRIAL = 1 << 24  # values of an input with which the batch is tried
LONGEST_REASON = 2000  # characters
BOTH = (
    "for two classes, export one that returns torch.stack([-z, z], 1) of a score z, or torch.stack([1 - p, p], 1) of a "
    "probability p"
)
OLDEST = 7  # of operator sets that onnxruntime promises to run; it still has some operators of older ones


class OnnxNetwork(nn.Module):
    """The network of an ONNX file, run by onnxruntime in the file's own precision; without gradients.

    One input of shape `b x *shape`, one output of `b x num_classes`. In the model hash it stands for the bytes of
    the file and of the files that it keeps data in. like: the shape of an input, for sizes that the file leaves open.
    """

    def __init__(self, path: Path, read: OnnxFile | None = None, like: tuple[int, ...] | None = None) -> None:
        super().__init__()
        with from_extra("onnx", "ONNX networks need onnxruntime"):
            import onnxruntime
        read = read or read_onnx(path)
        self.digest = read.digest
        available = onnxruntime.get_available_providers()
        providers = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
        # its log would write names from the file to the terminal unescaped; what matters comes as an exception
        onnxruntime.set_default_logger_severity(FATAL)
        options, self.options = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
        options.log_severity_level = self.options.log_severity_level = FATAL
        options.intra_op_num_threads = torch.get_num_threads()  # its own default: all cores
        try:
            self.session = onnxruntime.InferenceSession(read.content, options, providers=providers)
        except Exception as error:  # onnxruntime's own exceptions share no public root
            raise ModelError(_refused(one_line(error), read, path)) from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        scores = _scores(outputs, path)
        self.chosen = scores.name if len(outputs) > 1 else None  # the output that was taken for the scores
        if len(inputs) != 1:
            names = ", ".join(repr(argument.name[:50]) for argument in inputs[:8]) or "none"
            raise ModelError(f"expected one input in {path}, got {names}: export a graph with the others as constants")
        if len(scores.shape) != 2:
            raise ModelError(
                f"expected scores of shape (b, classes) in {path}, got an output of shape {scores.shape}"
                f"{_reshaping(len(scores.shape), scores.type)}"
            )
        self.input, self.output, shape = inputs[0].name, scores.name, inputs[0].shape
        self.batch = shape[0] if shape and isinstance(shape[0], int) else None
        self.shape = tuple(shape[1:])
        classes = scores.shape[1]
        self.num_classes = classes if isinstance(classes, int) else None
        self._refuse_sizes(path)
        self.dtype = FLOATS.get(inputs[0].type)
        if self.dtype is None:
            raise ModelError(
                f"expected a floating-point input in {path}, got {inputs[0].type}: export the graph without the cast "
                "at its beginning, so that it takes floats, to which noise is added"
            )
        self.eval()
        sizes = _open_sizes(like, len(self.shape))
        self.trial_shape = tuple(
            size if isinstance(size, int) else fallback for size, fallback in zip(self.shape, sizes, strict=True)
        )
        if self.batch is None and math.prod(self.trial_shape) <= LARGEST_TRIAL and not self._takes(2):
            self.batch = 1 if self._takes(1) else None

    def _takes(self, rows: int) -> bool:
        """Whether it answers each of so many rows: a file may declare a free batch and have 1 baked in."""
        try:
            return len(self(torch.from_numpy(probe_inputs(self.trial_shape)[:rows]))) == rows
        except Exception:  # onnxruntime's own exceptions share no public root
            return False

    def _refuse_sizes(self, path: Path) -> None:
        """Check sizes that the file declares, before memory is allocated for them."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        if self.batch is not None and not 1 <= self.batch <= LARGEST_BATCH:
            raise ModelError(f"expected a batch of 1 to {LARGEST_BATCH:,} in {path}, or a free one, got {self.batch:,}")
        if min(sizes, default=1) < 1 or (self.batch or 1) * math.prod(sizes) > LARGEST_INPUT:
            raise ModelError(f"expected inputs of {LARGEST_INPUT:,} values at most in {path}, got {self._declared()}")
        if self.num_classes is not None and not 2 <= self.num_classes <= LARGEST_CLASSES:
            raise ModelError(
                f"expected 2 to {LARGEST_CLASSES:,} classes in {path}, got {self.num_classes:,}"
                f"{f': {BOTH}' if self.num_classes == 1 else ''}"
            )

    def _declared(self) -> str:
        return " x ".join(str(size) for size in (self.batch or "b", *self.shape))

    def __identity__(self) -> bytes:
        """What stands for this network in the model hash."""
        return self.digest

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        """Scores of `x`, in pieces of the file's batch size where that is fixed."""
        rows = np.ascontiguousarray(x.detach().cpu().numpy(), self.dtype)
        if self.batch is None:
            return torch.from_numpy(self._scores(rows)).to(x.device, torch.float32)
        scores = []
        for start in range(0, len(rows), self.batch):
            piece = rows[start : start + self.batch]
            padded = np.concatenate([piece, np.repeat(piece[:1], self.batch - len(piece), 0)])
            scores.append(self._scores(padded)[: len(piece)])
        return torch.from_numpy(np.concatenate(scores)).to(x.device, torch.float32)

    def _scores(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        scores: NDArray[np.floating] = self.session.run([self.output], {self.input: rows}, self.options)[0]
        return scores

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnnxNetwork":
        """Itself: a session cannot be copied and holds nothing that changes."""
        return self


def _refused(reason: str, read: OnnxFile, path: Path) -> str:
    """Why onnxruntime does not run a file."""
    if "NOT_IMPLEMENTED" in reason and read.opset is not None and read.opset < OLDEST:
        return (
            f"expected operator set {OLDEST} or later, as onnxruntime runs, in {path}, got {read.opset} ({reason}): "
            "export the network again (best with opset 17), or give package.module:function and --method isotropic"
        )
    if any(word in reason for word in NEWER):
        return (
            f"expected a version of ONNX that this onnxruntime knows in {path}, got: {reason}: update onnxruntime, or "
            "export the network again (best with opset 17), by an onnx of its age"
        )
    if "NOT_IMPLEMENTED" in reason:
        return (
            f"expected operators that onnxruntime computes, most of them in float32 alone, in {path}, got: {reason}: "
            "call model.float() before the export, or give package.module:function"
        )
    return f"expected a whole ONNX file at {path}, got: {reason}"


def _reshaping(rank: int, kind: str) -> str:
    """How to export scores that have another rank than 2."""
    if rank > 2:
        return ": export one that returns scores.flatten(1)"
    labels = "" if kind in FLOATS else ": these are labels, which have no scores: export the scores they are taken from"
    return labels or f": {BOTH}"


def _open_sizes(like: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Sizes to try a network of so many axes with, where its file leaves them open: an input's, or its row's."""
    if like is not None and len(like) == rank:
        return like
    return (math.prod(like),) if like is not None and rank == 1 else (8,) * rank


def _scores(outputs: list[Any], path: Path) -> Any:
    """The output that is the scores: the only one, or the only one of floats per class, as beside predicted labels."""
    fit = [output for output in outputs if output.type in FLOATS and len(output.shape) == 2]
    if len(outputs) != 1 and len(fit) != 1:
        names = ", ".join(f"{output.name[:50]!r} {output.type} {output.shape}" for output in outputs[:8]) or "none"
        mapped = any(output.type.startswith("seq(map") for output in outputs)
        remedy = "; of scikit-learn, with options={'zipmap': False}" if mapped else ""
        raise ModelError(
            f"expected one output, the scores, in {path}, got {names}: export the graph with the scores alone{remedy}"
        )
    return outputs[0] if len(outputs) == 1 else fit[0]


def one_line(error: Exception) -> str:
    """A library's reason in one line, of which the beginning if it has no end."""
    return " ".join(str(error).split())[:LONGEST_REASON] or repr(error)
