"""A training on disk: best and last weights, a log in JSON lines, and the state to resume from.

`best.safetensors`, `last.safetensors`: networks that `load` reads. `log.jsonl`: the configuration, then one line per
epoch. `resume.state`: everything the next epoch depends on. It is written first, before the first epoch and after each,
and the other files follow from it; what is missing after an interruption is made when the training resumes.
`training.lock` is held by the one process at work.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anisocert.durable import BusyError, claim, locked, write_whole
from anisocert.errors import ArgumentError, ModelError
from anisocert.models import Normalized, save
from anisocert.models.weights import read_torch

Record = dict[str, Any]
BEST, LAST = "best.safetensors", "last.safetensors"


class Folder:
    """The folder of one training. config: what must be equal for a training to be the same one.

    force: begin anew even if another training, or other files, are in the way.
    """

    def __init__(self, path: Path, config: dict[str, Any], force: bool = False) -> None:
        self.path, self.config = path, json.loads(json.dumps(config))
        self.state, self.log, self.force = path / "resume.state", path / "log.jsonl", force

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time; a second one is refused."""
        try:
            with locked(self.path / "training.lock", wait=False):
                yield
        except BusyError as error:
            raise BusyError(
                f"expected {self.path} to be idle, got a training at work in it: wait for its end, or choose another "
                "folder"
            ) from error

    def resume(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Record]:
        """Restore what was reached, or begin; returns the records of the epochs done."""
        if (state := self._found()) is None:
            for name in (BEST, LAST):
                (self.path / name).unlink(missing_ok=True)
            state = self._keep(model, optimizer, [])
        try:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            records: list[Record] = state["records"]
            lines = [json.dumps(line) + "\n" for line in (self.config, *records)]
        except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"expected the state of this training at {self.state}, got another") from error
        write_whole(self.log, lambda part: part.write_text("".join(lines)))
        self._best(model, records)
        return records

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> None:
        """After an epoch: the state, then what follows from it."""
        self._keep(model, optimizer, records)
        self._best(model, records)
        with self.log.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")

    def finish(self, model: nn.Module, records: list[Record]) -> None:
        """The last weights."""
        self._weights(model, LAST, records[-1])

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
            config, records = state["config"], state["records"]
        except (ModelError, KeyError, TypeError, IndexError) as error:
            if self.force:
                return None
            raise ModelError(f"expected the state of a training at {self.state}, got another file: {error}") from error
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

    def _keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> dict[str, Any]:
        state = {
            "config": self.config,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "records": records,
        }
        content = io.BytesIO()  # written by us, as torch does not say why writing failed
        torch.save(state, content)
        write_whole(self.state, lambda part: part.write_bytes(content.getbuffer()))
        return state

    def _best(self, model: nn.Module, records: list[Record]) -> None:
        """The best weights, if they are those of the last epoch."""
        scores = [record["test_accuracy"] for record in records]
        if records and (scores[-1] is None or scores[-1] > max([*scores[:-1], -1.0])):
            self._weights(model, BEST, records[-1])

    def _weights(self, model: nn.Module, name: str, record: Record) -> None:
        reached = {"epoch": record["epoch"], "test_accuracy": record["test_accuracy"]}
        save(model, self.path / name, self.config | reached)


def blueprint(model: nn.Module, num_classes: int) -> dict[str, Any]:
    """What `load` needs to build this network again."""
    if not isinstance(model, Normalized) or model.architecture is None:
        raise ArgumentError(
            f"expected a network made by anisocert.models.build to save its training, got {type(model).__name__}; "
            "train without a folder, and save your own weights"
        )
    return {
        "architecture": model.architecture,
        "num_classes": num_classes,
        "mean": model.mean.tolist(),
        "std": model.std.tolist(),
    }
