"""A new recipe is one class and its registration: the command asks it what it needs."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from anisocert.models import load
from anisocert.train import RECIPES, Recipe


@dataclass(frozen=True)
class Pulled(Recipe):
    """Cross-entropy without noise, and the distance from another network's scores."""

    pull: float = 1.0
    other: nn.Module | None = None

    name = "pulled"
    held = ("other",)
    needs_classifier = True

    @classmethod
    def for_sigma(cls, sigma):
        return cls(pull=2 * sigma)

    def prepared(self, task):
        recipe = replace(self, other=load(task.classifier)[0])
        task.tell("pulled by another network")
        return recipe.network(task.architecture, task.data, task.smoothing), recipe, task.data

    def options(self):
        return {"name": self.name, "pull": self.pull, "other": ""}

    def loss(self, model, x, y, smoothing):
        scores = model(x)
        with torch.no_grad():
            wanted = self.other(x)
        return F.cross_entropy(scores, y) + self.pull * F.mse_loss(scores, wanted)


def test_the_command_trains_by_a_recipe_that_it_does_not_know(cli, trained_digits, tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, Pulled.name, Pulled)
    typed = ("train", "--recipe", "pulled", "--data", "digits", "--sigma", "0.25", "--epochs", "1", "--device", "cpu")
    said = cli(*typed, "--classifier", trained_digits, "--out", tmp_path).out
    assert "pulled by another network" in said
    assert f"anisocert certify {tmp_path / 'last.safetensors'} --data digits" in said.replace("\n", " ")
    assert load(tmp_path / "last.safetensors")[1]["recipe"] == {"name": "pulled", "pull": 0.5, "other": ""}
    assert "or distillation or pulled and with no other" in cli(*typed, "--out", tmp_path, code=2).err
    wrong = cli(*typed, "--classifier", trained_digits, "--set", "other=1", "--out", tmp_path, code=2).err
    assert "expected --set of pull with pulled" in wrong
    wrong = cli(*typed, "--classifier", trained_digits, "--told", "theta", "--out", tmp_path, code=2).err
    assert "expected --told with --recipe denoiser and with no other" in wrong
