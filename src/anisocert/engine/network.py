"""A classifier as the engine runs it: frozen, checked, in one precision, on one device, one batch shape a run."""

import copy
import hashlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from anisocert.engine.fold import fold
from anisocert.engine.numerics import Numerics, keep_large_blocks, native_precision
from anisocert.errors import ArgumentError, ModelError

log = logging.getLogger(__name__)

Classifier = nn.Module | Callable[[Tensor], Tensor]

ROWS = (20_000, 4_000, 800, 160, 32)  # multiples of 32 that divide the usual 100,000 votes: no padding
CACHE_BYTES = 2_600_000


class Network:
    """Votes of `model` on noisy rows.

    model: maps `b x *shape` to `b x num_classes` scores (logits or probabilities: votes only ask which is largest).
    model_id: stands for the model in hashes; required when the model is not an `nn.Module`, whose weights can be read.
    """

    def __init__(
        self,
        model: Classifier,
        num_classes: int,
        device: torch.device | str | None = None,
        numerics: Numerics | None = None,
        model_id: str | None = None,
    ) -> None:
        if num_classes < 2:
            raise ArgumentError(f"expected num_classes >= 2, got {num_classes}")
        if isinstance(model, nn.Module):
            training = [name or type(model).__name__ for name, m in model.named_modules() if m.training]
            if training:
                raise ModelError(
                    f"expected a model in evaluation mode, got training mode in {training[0]}: call model.eval()"
                )
        elif model_id is None:
            raise ArgumentError(f"expected model_id with a bare callable (its weights cannot be hashed), got {model!r}")
        self.device = _home(model) if device is None else _indexed(torch.device(device))
        if isinstance(model, nn.Module) and _home(model) != self.device:
            model = copy.deepcopy(model).to(self.device)  # the caller's model stays where it is
        self.model, self.num_classes = model, num_classes
        numerics = numerics or Numerics()
        self.numerics = replace(numerics, precision=numerics.precision or native_precision(self.device))
        self.hash = model_id or _hash(model, self.numerics)
        self._run: Callable[[Tensor], Tensor] | None = None
        self.compile_seconds = 0.0
        if self.device.type == "cpu":
            keep_large_blocks()

    def scores(self, x: Tensor) -> Tensor:
        """Scores of a batch in this network's numerics. x: `b x *shape` -> `b x num_classes`."""
        run = self.model if self._run is None else self._run
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, self.numerics.precision == "bfloat16"):
            return run(x)

    def fit(self, shape: tuple[int, ...], votes: int) -> int:
        """Settle, once and before the first counted vote, how this network runs; the rows a call.

        shape: of one input; votes: how many are planned. Checks the network on one batch, finds the largest batch of
        the ladder that fits into memory, rewrites the network and, where the votes repay it, compiles it.
        """
        while self._run is None:
            rows = self.numerics.rows or self._first_rung(shape)
            sample = torch.rand(rows, *shape, generator=torch.Generator().manual_seed(0)).to(self.device)
            self.numerics = replace(self.numerics, rows=rows)
            try:
                self._check(self.scores(sample), rows)
                self._rewrite(sample, votes)
            except RuntimeError as error:
                self.shrink(error)
        assert self.numerics.rows is not None
        return self.numerics.rows

    def shrink(self, error: RuntimeError) -> None:
        """Go down to a smaller batch after running out of memory; any other error is raised again."""
        if not out_of_memory(error):
            raise error
        smaller = [rows for rows in ROWS if rows < (self.numerics.rows or 0)]
        if not smaller:
            raise ModelError(f"out of memory even with {self.numerics.rows} inputs a call on {self.device}") from error
        log.warning("out of memory with %s rows a call; going on with %s", self.numerics.rows, smaller[0])
        self.numerics = replace(self.numerics, rows=smaller[0])
        self._run = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _first_rung(self, shape: tuple[int, ...]) -> int:
        """The batch to try first: on a CPU what stays near its caches, else the largest."""
        if self.device.type != "cpu":
            return ROWS[0]
        return next((rows for rows in ROWS if 4 * rows * math.prod(shape) <= CACHE_BYTES), ROWS[-1])

    def _rewrite(self, sample: Tensor, votes: int) -> None:
        if not isinstance(self.model, nn.Module):
            self._run = self.model
            return
        folded = fold(self.model, sample[:1], self.numerics.precision == "bfloat16")
        if sample.dim() == 4:
            folded = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._run = folded
        if self.numerics.compile is None:
            self.numerics = replace(self.numerics, compile=self._pays(sample, votes))
        if self.numerics.compile:
            self._compile(folded, sample)

    def _pays(self, sample: Tensor, votes: int) -> bool:
        """Whether compiling is expected to save more than it takes, from the measured time of plain calls."""
        self.scores(sample)
        plain = self._seconds(sample)
        expected_seconds, expected_saving = 40.0, 0.3  # of a ResNet18 on 2 cores and on an H200
        return plain * votes / len(sample) * expected_saving > expected_seconds

    def _compile(self, folded: nn.Module, sample: Tensor) -> None:
        started, plain = time.perf_counter(), self._seconds(sample)
        # freezing: weights become constants that the compiler may lay out and cast once
        self._run = torch.compile(folded, dynamic=False, options={"freezing": True})
        try:
            self.scores(sample)
            compiled = self._seconds(sample)
        except Exception as reason:
            if out_of_memory(reason):
                raise
            # no C++ compiler, an operator it cannot lower: the plain network is the same function
            log.warning("torch.compile failed, going on without: %s", str(reason).splitlines()[0])
            compiled = float("inf")
        self.compile_seconds = time.perf_counter() - started
        log.info("compiled in %.1f s: %.4f s a call, plain %.4f s", self.compile_seconds, compiled, plain)
        if compiled >= plain:
            self._run = folded
            self.numerics = replace(self.numerics, compile=False)

    def _seconds(self, sample: Tensor) -> float:
        """Seconds a call, best of three."""
        best = float("inf")
        for _ in range(3):
            self._wait()
            started = time.perf_counter()
            self.scores(sample)
            self._wait()
            best = min(best, time.perf_counter() - started)
        return best

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _check(self, scores: Tensor, rows: int) -> None:
        if not isinstance(scores, Tensor) or tuple(scores.shape) != (rows, self.num_classes):
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise ModelError(f"expected the model to return scores of shape {(rows, self.num_classes)}, got {got}")
        if bool(scores.isnan().any()):
            raise ModelError("expected finite scores, got NaN from the model")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch's says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _home(model: Classifier) -> torch.device:
    """The device a model's weights are on."""
    if isinstance(model, nn.Module):
        for tensor in [*model.parameters(), *model.buffers()]:
            return tensor.device
    return torch.device("cpu")


def _indexed(device: torch.device) -> torch.device:
    """ "cuda" as the card it means now, so that devices compare."""
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


def _hash(model: Classifier, numerics: Numerics) -> str:
    """SHA-256 of class name, state, buffers and precision: what must be equal for votes to mean the same classifier."""
    assert isinstance(model, nn.Module)
    digest = hashlib.sha256(f"{type(model).__qualname__} {numerics.precision}".encode())
    for name, tensor in sorted((dict(model.named_buffers()) | dict(model.state_dict())).items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
