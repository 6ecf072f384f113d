"""A training on disk: best and last weights, a log in JSON lines, and the state to resume from.

`best.safetensors`, `last.safetensors`: networks that `load` reads. `log.jsonl`: the configuration, then one line per
epoch. `resume.state`: everything the next epoch depends on. It is written before the first epoch, after the last, and
in between as often as a small part of the time allows, as writing it may take longer than an epoch. The networks are
written after it; when an interrupted training resumes, they and the log are made to agree with it. `training.lock` is
held by the one process at work.
"""

import io
import json
import time
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anisocert.durable import claim, locked, write_whole
from anisocert.errors import AnisocertWarning, ArgumentError, ModelError
from anisocert.models import Denoiser, Normalized
from anisocert.models.weights import check_fit, check_tensors, read_torch, write_safetensors
from anisocert.smoothing import GaussianMixture

Record = dict[str, Any]
Weights = dict[str, Tensor]
BEST, LAST = "best.safetensors", "last.safetensors"
EVERY = 10.0  # seconds from one state to the next at most, or an epoch if that is longer: what an interruption may cost
WRITING = 0.05  # the share of the time that writing may take before that


class Folder:
    """The folder of one training. config: what must be equal for a training to be the same one.

    force: begin anew even if another training, or other files, are in the way; this same one is resumed.
    """

    def __init__(self, path: Path, config: dict[str, Any], force: bool) -> None:
        self.path, self.config = path, json.loads(json.dumps(config))
        self.state, self.log, self.force = path / "resume.state", path / "log.jsonl", force
        self.best: Weights | None = None  # if they are not on disk yet
        self.epochs, self.written, self.took = 0, 0.0, 0.0  # that the state on disk has, when it was written, seconds

    def held(self) -> AbstractContextManager[int]:
        """One process at a time; a second one is refused."""
        busy = f"expected {self.path} to be idle, got a training at work in it: wait for its end, or choose another"
        return locked(self.path / "training.lock", wait=False, busy=f"{busy} folder")

    def resume(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Record]:
        """Restore what was reached, or begin; returns the records of the epochs done."""
        if (state := self._found()) is None:
            for name in (BEST, LAST):
                (self.path / name).unlink(missing_ok=True)
            state = self._write(model, optimizer, [])
        try:
            _check_optimizer(state["optimizer"], optimizer, str(self.state))
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            records: list[Record] = _checked(state["records"])
            if state.get("best") is not None:
                check_fit(state["best"], model, str(self.state))
                _best(records)
            self.best, self.epochs, self.written = state.get("best"), len(records), time.monotonic()
            lines = [json.dumps(line) + "\n" for line in (self.config, *records)]
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, ModelError) as error:
            raise ModelError(
                f"expected the state of this training at {self.state}, got another: choose another folder, or remove "
                "that file and begin anew there with --force"
            ) from error
        if records and self.best is None and not (self.path / BEST).exists():
            warnings.warn(
                f"{self.path / BEST}, of epoch {_best(records)['epoch']}, is gone: it is written again only if a later "
                "epoch is better",
                AnisocertWarning,
                stacklevel=3,
            )
        write_whole(self.log, lambda part: part.write_text("".join(lines)))
        self._write_best(records)
        return records

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> None:
        """After an epoch: a line in the log; if it is time, the state."""
        with self.log.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        if time.monotonic() - self.written >= min(EVERY, self.took / WRITING):
            self._write(model, optimizer, records)
        elif _best(records) is records[-1]:
            self.best = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def finish(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> None:
        """After the last epoch: the state and the last weights."""
        if self.epochs < len(records):
            self._write(model, optimizer, records)
        self._write_weights(LAST, model.state_dict(), records[-1])

    def _found(self) -> dict[str, Any] | None:
        """The state that was reached; None if a training may begin."""
        if not self.state.exists():
            networks = sorted(path.name for path in self.path.glob("*.safetensors"))
            if networks and not self.force:
                raise ArgumentError(
                    f"expected {self.path} without networks to begin a training in, got {networks[0]}: choose another "
                    "folder, or begin there with --force"
                )
            claim(self.log, self.force)
            return None
        try:
            state = read_torch(self.state)
            config, records = dict(state["config"]), state["records"]
        except (ModelError, KeyError, TypeError, ValueError, IndexError) as error:
            if self.force:
                return None
            raise ModelError(f"expected the state of a training at {self.state}, got another file: {error}") from error
        if config.get("noise") == GaussianMixture.former:
            config["noise"] = GaussianMixture.name
        if config == self.config:
            return dict(state)
        if records and not self.force:
            differing = [key for key in self.config if config.get(key) != self.config[key]]
            was, now = ({key: c.get(key) for key in differing} for c in (config, self.config))
            raise ArgumentError(
                f"expected {self.path} to hold this training or none, got one that differs: {was}, here {now}; "
                "choose another folder, or begin anew there with --force"
            )
        return None  # a training that reached nothing loses nothing

    def _write(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> dict[str, Any]:
        """The state, with the best weights if they are not on disk, and then those."""
        if records and _best(records) is records[-1]:
            self.best = model.state_dict()  # in the file they take no room of their own
        state = {
            "config": self.config,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "best": self.best,
            "records": records,
        }
        begun = time.monotonic()
        content = io.BytesIO()  # written by us, as torch does not say why writing failed
        torch.save(state, content)
        write_whole(self.state, lambda part: part.write_bytes(content.getbuffer()))
        self._write_best(records)
        self.epochs, self.written = len(records), time.monotonic()
        self.took = self.written - begun
        return state

    def _write_best(self, records: list[Record]) -> None:
        if self.best is not None:
            self._write_weights(BEST, self.best, _best(records))
            self.best = None

    def _write_weights(self, name: str, weights: Weights, record: Record) -> None:
        reached = {"epoch": record["epoch"], "test_accuracy": record["test_accuracy"]}
        write_safetensors(self.path / name, weights, self.config | reached)


def _checked(records: Any) -> list[Record]:
    """Records as they were written; an error if they are something else."""
    for record in records if isinstance(records, list) else [records]:
        if not isinstance(record["epoch"], int) or not isinstance(record["test_accuracy"], float | int | None):
            raise TypeError(f"expected what an epoch reached, got {record}")
    if len({record["test_accuracy"] is None for record in records}) > 1:
        raise TypeError("expected an accuracy of each epoch or of none, got some")
    return list(records)


def _check_optimizer(state: Any, optimizer: torch.optim.Optimizer, source: str) -> None:
    """An error unless a state is of this optimiser, which would take any: tensors of any size, settings of any type."""
    fresh = optimizer.state_dict()["param_groups"]
    for group in state["param_groups"]:
        if type(group["lr"]) not in (float, int):
            raise TypeError(f"expected a number for the learning rate, got {type(group['lr']).__name__}")
    if _settings(state["param_groups"]) != _settings(fresh):
        raise ValueError("expected the settings of this optimiser, got others")
    every = (parameter for group in optimizer.param_groups for parameter in group["params"])
    parameters = dict(enumerate(every))
    for number, buffers in state["state"].items():
        parameter = parameters[number]
        if set(buffers) != {"momentum_buffer"}:
            raise ValueError(f"expected momentum alone for parameter {number}, got other names")
        if (momentum := buffers["momentum_buffer"]) is None:  # so some versions of torch write that there is none
            continue
        if (momentum.shape, momentum.dtype) != (parameter.shape, parameter.dtype):
            raise ValueError(f"expected momentum of the shape and type of parameter {number}, got another")
        check_tensors({f"momentum {number}": momentum}, source)


def _settings(groups: list[dict[str, Any]]) -> Any:
    """Settings that stay during a training, as plain values; an error for any others, such as tensors."""
    return json.loads(json.dumps([{name: value for name, value in group.items() if name != "lr"} for group in groups]))


def _best(records: list[Record]) -> Record:
    """The first epoch of the highest accuracy; the last one where none is measured."""
    if records[-1]["test_accuracy"] is None:
        return records[-1]
    return max(records, key=lambda record: record["test_accuracy"])


def blueprint(model: nn.Module, num_classes: int) -> dict[str, Any]:
    """What `load` needs to build this network again."""
    if isinstance(model, Denoiser):
        return model.blueprint()
    if not isinstance(model, Normalized) or model.architecture is None:
        raise ArgumentError(
            f"expected a network made by anisocert.models.build to save its training, got {type(model).__name__}: use "
            "--recipe denoiser, which takes any network, or train it in Python without a folder, and save it yourself"
        )
    return {
        "architecture": model.architecture,
        "num_classes": num_classes,
        "mean": model.mean.tolist(),
        "std": model.std.tolist(),
    }
