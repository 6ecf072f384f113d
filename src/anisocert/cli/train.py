"""`anisocert train`: a base classifier, trained for the noise that will smooth it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import expect_one_of
from anisocert.options import READING, flags, option
from anisocert.shell import shell_join, shell_quote

EPILOG = "Example: anisocert train --data cifar10 --arch resnet18 --sigma 0.25 --out nets/cohen"


@dataclass(frozen=True)
class Training:
    """What a training is asked for, besides options that runs have too."""

    out: Path = option(help="Folder for weights and log; an interrupted training resumes.", file_okay=False)
    sigma: float | None = option(None, "Noise level: standard deviation, or with --norm l1 the half-width.")
    arch: str | None = option(
        None,
        "small-cnn, resnet18[-paper|-imagenet], resnet20|50|110, wrn-40-2, efficientnet-lite0|1|2; with --recipe "
        "denoiser: denoiser or denoiser-small. Default: by size; with --recipe distillation the classifier's.",
    )
    recipe: str = option(
        "cohen", "cohen, smoothadv, macer, stability, consistency, distillation, selector or denoiser."
    )
    codebook: Path | None = option(None, "Instead of --sigma: noise drawn from its codes; for a selector, its own.")
    classifier: Path | None = option(
        None,
        "The network whose noise a selector is to choose, or a denoiser to remove, or that is to learn by distillation "
        "to say under noise what it says without.",
    )
    denoise: Path | None = option(None, "With --recipe distillation: a denoiser that stays in front of it, as it is.")
    told: str | None = option(
        None, "With --recipe denoiser, what it is told: theta (the default), or scalar, its mean."
    )
    levels: str | None = option(
        None, "With --recipe denoiser: LOW,HIGH of the noise. Default: a quarter of, to twice --sigma."
    )
    worth: str | None = option(
        None, "With --recipe selector, what a code is chosen for: radius or volume.", show_default="radius"
    )
    epochs: int = option(60, "Passes over the data.")
    batch_size: int | None = option(None, "Default: 256; 64 for macer and below 10,000 examples.")
    lr: float | None = option(
        None, "Highest learning rate. Default: 0.1; below 10,000 examples 0.05; macer and distillation 0.01."
    )
    weight_decay: float = option(5e-4, "Of SGD.")
    schedule: str = option("one-cycle", "one-cycle, cosine or step.")
    changes: list[str] | None = option(
        None,
        "An option of the recipe, as in epsilon=0.5; repeatable. Of denoiser: reconstruct, answer, weight and keep; a "
        "name that a recipe lacks lists its own.",
        flag="--set",
    )
    crop: int | None = option(
        None, "Random crops after padding by this many pixels. Default: CIFAR-10 4, Tiny-ImageNet 8, others 0.", min=0
    )
    flip: bool | None = option(None, "Random mirroring. Default: on for CIFAR-10, Tiny-ImageNet and ImageNet.")
    device: str = option("auto", "auto, cpu, cuda, cuda:1, ...")
    precision: str | None = option(None, "float32 or bfloat16. Default: what suits the device.")
    compile: bool = option(False, "Use torch.compile; measure whether it pays.", flag="--compile/--no-compile")

    @property
    def own(self) -> dict[str, Path | str]:
        """What was asked for of the options that only some recipes have."""
        values = {"denoise": self.denoise, "told": self.told, "levels": self.levels, "worth": self.worth}
        return {name: value for name, value in values.items() if value is not None}


@options.takes(
    "data", "mean", "std",
    layout=option(None, "Of --classifier: whose checkpoint (cohen, salman, macer), or flat, channels-last."),
    norm=option("l2", "l2: Gaussian noise; l1: uniform noise (cohen, stability, distillation and denoiser)."),
    seed=option(0, "Seed of weights, order, augmentation and noise."),
)  # fmt: skip
@options.declared("training", Training)
def train(
    asked: options.Asked,
    training: Training,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace another training, or other files, in --out; the same training resumes."),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Train a network that will be smoothed: best.safetensors and last.safetensors in --out, and log.jsonl.

    best is the epoch of highest noisy accuracy on the test examples, and so was chosen with their help; last is not.
    The same command resumes an interrupted training, with the same result.
    """
    import dataclasses

    import torch

    from anisocert.cli import STOPPED
    from anisocert.cli import train_setup as setup
    from anisocert.cli.console import Console
    from anisocert.cli.progress import Bar
    from anisocert.data import load, splits
    from anisocert.engine import Numerics, Stage, Stream
    from anisocert.engine.devices import devices_of
    from anisocert.models.normalize import warn_of_units
    from anisocert.train import RECIPES, Sgd, Task
    from anisocert.train import train as run

    expect_one_of("--recipe", training.recipe, RECIPES)
    console, kind, epochs, out = Console(), RECIPES[training.recipe], training.epochs, training.out
    data, norm, seed, classifier, arch = asked["data"], asked["norm"], asked["seed"], training.classifier, training.arch
    reading = {name: asked[name] for name in READING if asked[name] is not None}
    setup.expect_taken(kind, classifier, arch, training.own, reading)
    book, smoothing = setup.noise_of(kind, norm, training.sigma, training.codebook)
    sigma = float(smoothing.theta.mean()) if training.sigma is None else training.sigma
    recipe = setup.recipe_of(kind, sigma, training.own, training.changes or [])
    recipe.check(smoothing)
    numerics = Numerics(precision=training.precision)  # type: ignore[arg-type]  # it checks the name
    where = torch.device(devices_of(training.device)[0])
    overrides = {
        "batch_size": training.batch_size, "learning_rate": training.lr, "weight_decay": training.weight_decay,
        "schedule": training.schedule,
    }  # fmt: skip

    def sgd(size: int) -> Sgd:
        return dataclasses.replace(recipe.sgd(size, epochs), **{k: v for k, v in overrides.items() if v is not None})  # type: ignore[arg-type]

    # Errors now, not once the data is read.
    sgd(1)
    Stream(seed, Stage.ESTIMATE, 0)
    if kind.fresh:
        setup.expect_network(recipe, arch, smoothing)
    options.checked()
    setup.expect_there(classifier)
    examples = load(data, "train")
    for note in (*examples.remarks, *(setup.label_notes(examples) if recipe.labelled else ())):
        console.tell(f"note: {note}")
    if arch is None and kind.fresh:
        arch = recipe.suited(examples.shape)
        console.print(f"--arch {arch}, for inputs of {' x '.join(map(str, examples.shape))}")
    warn_of_units(sigma, examples.std, images=len(examples.shape) > 1)
    test = load(data, "test") if splits(data) and kind.answers else None
    test = test if test is not None and test.labelled else None
    torch.manual_seed(seed)
    task = Task(
        examples, smoothing, architecture=arch or "", classifier=classifier, reading=reading, denoise=training.denoise,
        codebook=book, seed=seed, device=where, tell=console.print, busy=console.status,
    )  # fmt: skip
    model, recipe, examples = recipe.prepared(task)
    with Bar(console, "training", "epochs", epochs) as bar:

        def resumed(kept: int) -> None:
            bar.begin(epochs, kept)
            console.tell(f"resuming after epoch {kept} of {epochs}")

        def tell(record: dict[str, Any]) -> None:
            bar.reach(record["epoch"], _line(record))
            if not console.is_terminal:
                console.tell(f"epoch {record['epoch']}/{epochs}  {_line(record)}")

        try:
            records = run(
                model, examples, recipe, smoothing, sgd=sgd(len(examples)), test=test, folder=out, crop=training.crop,
                flip=training.flip, seed=seed, device=where, precision=numerics.precision, compile=training.compile,
                on_epoch=tell, on_resume=resumed, force=force,
            )  # fmt: skip
        except KeyboardInterrupt:
            console.tell(f"interrupted in epoch {int(bar.done) + 1} of {epochs}; the same command resumes")
            raise typer.Exit(STOPPED) from None
    if not kind.answers:
        console.tell(f"{out}/last.safetensors is the {kind.name} for --codebook {shell_quote(str(training.codebook))}")
        return
    last = str(out / "last.safetensors")
    network, front = (str(classifier), last) if kind.in_front else (last, training.denoise and str(training.denoise))
    certified = [network, *(["--denoise", front] if front else []), *(flags(reading) if kind.in_front else [])]
    certified += ["--data", data if splits(data) else "OTHERS.npz", "--norm", norm, "--sigma", f"{sigma:g}"]
    _tell_result(console, out, records, not splits(data), certified)


def _line(record: dict[str, Any]) -> str:
    from anisocert.evaluate import percent

    accuracy = record["test_accuracy"]
    shown = "" if accuracy is None else f"  noisy test accuracy {percent(accuracy)}%"
    return f"loss {record['loss']:.4f}{shown}  {record['seconds']:.1f} s"


def _tell_result(console: Any, out: Path, records: list[dict[str, Any]], all_seen: bool, certified: list[str]) -> None:
    """What was reached, and how to certify it. certified: the network and what else the command names.

    all_seen: whether all examples of the data were trained on.
    """
    from anisocert.evaluate import percent

    last = records[-1]["test_accuracy"]
    if last is None:
        console.print("the data has no separate test examples, so accuracy was not measured; best is the last epoch")
    else:
        best = max(record["test_accuracy"] for record in records)
        console.print(
            f"noisy test accuracy: best {percent(best, digits=2)}%, last {percent(last, digits=2)}% "
            "(one draw of the noise per example)"
        )
    if all_seen:
        console.print(
            "all of these examples were trained on, and accuracy on them says nothing about others: certify others"
        )
    command = ["anisocert", "certify", *certified, "--out", "RUN"]
    networks = [name for name in ("best.safetensors", "last.safetensors") if (out / name).exists()]
    console.tell(f"{out}/{', '.join(networks)} and log.jsonl are written. Next:\n{shell_join(command)}")
