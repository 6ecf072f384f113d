"""A training on disk: best and last weights, a log in JSON lines, and the state to go on from after a kill.

`best.safetensors`, `last.safetensors`: networks that `load` reads. `log.jsonl`: the configuration, then a line an
epoch. `resume.state`: everything the next epoch depends on; written whole or not at all, after the epoch's other files,
so that a kill at any moment costs at most the epoch under way.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anisocert.errors import ArgumentError
from anisocert.models import Normalized, save
from anisocert.models.weights import read_torch

Record = dict[str, Any]


class Folder:
    """The folder of one training. config: what must be equal for a training to be the same one."""

    def __init__(self, path: Path, config: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.path, self.config, self.metadata = path, json.loads(json.dumps(config)), metadata
        self.state, self.log = path / "resume.state", path / "log.jsonl"

    def resume(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Record]:
        """Put back what was reached, if anything; the records of the epochs done."""
        self.path.mkdir(parents=True, exist_ok=True)
        records: list[Record] = []
        if self.state.exists():
            state = read_torch(self.state)
            if state["config"] != self.config:
                differing = [key for key in self.config if state["config"].get(key) != self.config[key]]
                was, now = ({key: c.get(key) for key in differing} for c in (state["config"], self.config))
                raise ArgumentError(
                    f"expected {self.path} to hold this training or none, got one that differs: {was}, here {now}; "
                    "choose another folder, or remove that one"
                )
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            records = state["records"]
        elif any(self.path.glob("*.safetensors")):
            raise ArgumentError(f"expected {self.path} without networks to begin a training in, got some: remove them")
        # lines of an epoch that was logged but not finished would come twice
        self.log.write_text("".join(json.dumps(line) + "\n" for line in [self.config, *records]))
        return records

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, records: list[Record]) -> None:
        """After an epoch: its line, the best weights if they are this epoch's, and the state."""
        record = records[-1]
        with self.log.open("a") as file:
            file.write(json.dumps(record) + "\n")
        scores = [one["test_accuracy"] for one in records]
        if record["test_accuracy"] is None or record["test_accuracy"] > max([*scores[:-1], -1.0]):
            self._weights(model, "best.safetensors", record)
        part = self.state.with_suffix(".part")
        torch.save(
            {
                "config": self.config,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "records": records,
            },
            part,
        )
        part.replace(self.state)

    def finish(self, model: nn.Module, records: list[Record]) -> None:
        """The last weights."""
        self._weights(model, "last.safetensors", records[-1])

    def _weights(self, model: nn.Module, name: str, record: Record) -> None:
        reached = {"epoch": record["epoch"], "test_accuracy": record["test_accuracy"]}
        save(model, self.path / name, self.metadata | reached)


def describe(model: nn.Module, num_classes: int) -> dict[str, Any]:
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
