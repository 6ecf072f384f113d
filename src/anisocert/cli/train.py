"""`anisocert train`: a base classifier, trained for the noise that will smooth it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.options import option

if TYPE_CHECKING:
    from anisocert.data import Dataset
    from anisocert.models import Codebook
    from anisocert.smoothing import Smoothing
    from anisocert.train import Recipe, Sgd

GIVEN = ("values", "classifier", "denoiser")  # of recipes, not by --set
OWN = {"denoise": "distillation", "told": "denoiser", "levels": "denoiser", "worth": "selector"}  # whose option it is
OF_A_NETWORK = ("selector", "denoiser", "distillation")  # recipes that need --classifier
EPILOG = "Example: anisocert train --data cifar10 --arch resnet18 --sigma 0.25 --out nets/cohen"


@options.takes(
    "data", norm=option("l2", "l2: Gaussian noise; l1: uniform noise (cohen, stability, distillation and denoiser)."),
    seed=option(0, "Seed of weights, order, augmentation and noise."),
)  # fmt: skip
def train(
    asked: options.Asked,
    out: Annotated[Path, typer.Option(help="Folder for weights and log; an interrupted training resumes.")],
    sigma: Annotated[
        float | None, typer.Option(help="Noise level: standard deviation, or with --norm l1 the half-width.")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            help="small-cnn, resnet18[-paper|-imagenet], resnet20|50|110, wrn-40-2, efficientnet-lite0|1|2; with "
            "--recipe denoiser: denoiser or denoiser-small. Default: by size; with --recipe distillation the "
            "classifier's."
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="cohen, smoothadv, macer, stability, consistency, distillation, selector or denoiser.")
    ] = "cohen",
    codebook: Annotated[
        Path | None, typer.Option(help="Instead of --sigma: noise drawn from its codes; for a selector, its own.")
    ] = None,
    classifier: Annotated[
        Path | None,
        typer.Option(
            help="The network whose noise a selector is to choose, or a denoiser to remove, or that is to learn by "
            "distillation to say under noise what it says without."
        ),
    ] = None,
    denoise: Annotated[
        Path | None, typer.Option(help="With --recipe distillation: a denoiser that stays in front of it, as it is.")
    ] = None,
    told: Annotated[
        str | None,
        typer.Option(help="With --recipe denoiser, what it is told: theta (the default), or scalar, its mean."),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="With --recipe denoiser: LOW,HIGH of the noise. Default: a quarter of, to twice --sigma."),
    ] = None,
    worth: Annotated[
        str | None,
        typer.Option(
            help="With --recipe selector, what a code is chosen for: radius or volume.", show_default="radius"
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 60,
    batch_size: Annotated[
        int | None, typer.Option(help="Default: 256; 64 for macer and below 10,000 examples.")
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Highest learning rate. Default: 0.1; below 10,000 examples 0.05; macer and distillation 0.01."
        ),
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Of SGD.")] = 5e-4,
    schedule: Annotated[str, typer.Option(help="one-cycle, cosine or step.")] = "one-cycle",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="An option of the recipe, as in epsilon=0.5; repeatable. Of denoiser: low, high, reconstruct, answer, "
            "weight and keep; --set help lists those of any recipe.",
        ),
    ] = None,
    crop: Annotated[
        int | None,
        typer.Option(
            help="Random crops after padding by this many pixels. Default: CIFAR-10 4, Tiny-ImageNet 8, others 0.",
            min=0,
        ),
    ] = None,
    flip: Annotated[
        bool | None,
        typer.Option(help="Random mirroring. Default: on for CIFAR-10, Tiny-ImageNet and ImageNet."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16. Default: what suits the device.")] = None,
    compile: Annotated[bool, typer.Option(help="Use torch.compile; measure whether it pays.")] = False,
    force: options.Force = False,
    config: ConfigFile = None,
) -> None:
    """Train a network that will be smoothed: best.safetensors and last.safetensors in --out, and log.jsonl.

    best is the epoch of highest noisy accuracy on the test examples, and so was chosen with their help; last is not.
    The same command resumes an interrupted training, with the same result.
    """
    import dataclasses

    import torch

    from anisocert.cli.console import Console
    from anisocert.cli.progress import progress
    from anisocert.data import load, splits
    from anisocert.engine import Numerics, Stage, Stream
    from anisocert.engine.devices import devices_of
    from anisocert.models import build, suited, suited_denoiser
    from anisocert.models.normalize import warn_of_units
    from anisocert.train import Denoising, denoiser, distilled, selector_data, with_classifier
    from anisocert.train import train as run

    console, data, norm, seed = Console(), asked["data"], asked["norm"], asked["seed"]
    book, smoothing = _noise(norm, sigma, codebook, classifier, recipe)
    _expect_own(recipe, arch, denoise=denoise, told=told, levels=levels, worth=worth)
    sigma = float(smoothing.theta.mean()) if sigma is None else sigma
    chosen = _recipe(recipe, sigma, [*_levels(levels), *(changes or [])])
    chosen.check(smoothing)
    numerics = Numerics(precision=precision)  # type: ignore[arg-type]  # it checks the name
    where = torch.device(devices_of(device)[0])
    given = {"batch_size": batch_size, "learning_rate": lr, "weight_decay": weight_decay, "schedule": schedule}

    def sgd(size: int) -> "Sgd":
        return dataclasses.replace(chosen.sgd(size, epochs), **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]

    # Errors now, not once the data is read.
    sgd(1)
    Stream(seed, Stage.ESTIMATE, 0)
    with torch.device("meta"):
        if isinstance(chosen, Denoising):
            denoiser(arch or "denoiser", (1, 4, 4), [0.0], [1.0], chosen, smoothing, told or "theta")
        elif arch is not None:
            build(arch, 2, [0.0], [1.0])
    options.checked()
    _expect_there(classifier)
    examples = load(data, "train")
    for note in examples.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if arch is None and recipe != "distillation":
        arch = (suited_denoiser if isinstance(chosen, Denoising) else suited)(examples.shape)
        console.print(f"--arch {arch}, for inputs of {' x '.join(map(str, examples.shape))}")
    warn_of_units(sigma, examples.std, images=len(examples.shape) > 1)
    test = load(data, "test") if splits(data) and recipe != "selector" else None
    test = test if test is not None and test.labelled else None
    if recipe == "selector":
        assert book is not None
        assert classifier is not None
        values = _code_values(console, examples, book, classifier, norm, worth or "radius", where, seed)
        chosen, examples = dataclasses.replace(chosen, values=values), selector_data(examples)  # type: ignore[type-var]
    torch.manual_seed(seed)
    model: Any
    if recipe == "distillation":
        assert classifier is not None
        model, chosen = distilled(classifier, denoise, examples)
    elif isinstance(chosen, Denoising):
        assert classifier is not None
        assert arch is not None
        chosen = with_classifier(chosen, classifier, examples)
        model = denoiser(arch, examples.shape, examples.mean, examples.std, chosen, smoothing, told or "theta")
    else:
        assert arch is not None
        model = build(arch, chosen.classes(examples), examples.mean, examples.std)
    with progress(console, "training", epochs, "epochs") as advance:
        shown = 0

        def tell(record: dict[str, Any]) -> None:
            nonlocal shown
            advance(record["epoch"] - shown, _line(record))  # a resumed training begins in the middle
            shown = record["epoch"]
            if not console.is_terminal:
                console.print(f"epoch {record['epoch']}/{epochs}  {_line(record)}", soft_wrap=True)

        records = run(
            model, examples, chosen, smoothing, sgd=sgd(len(examples)), test=test, folder=out, crop=crop, flip=flip,
            seed=seed, device=where, precision=numerics.precision, compile=compile, on_epoch=tell, force=force,
        )  # fmt: skip
    if recipe == "selector":
        console.print(f"{out}/last.safetensors is the selector for --codebook {codebook}", soft_wrap=True)
        return
    last = str(out / "last.safetensors")
    network = [last] if denoise is None else [last, "--denoise", str(denoise)]
    if isinstance(chosen, Denoising):
        network = [str(classifier), "--denoise", last]
    _tell_result(console, out, records, [*network, "--data", data, "--norm", norm, "--sigma", f"{sigma:g}"])


def _noise(
    norm: str, sigma: float | None, codebook: Path | None, classifier: Path | None, recipe: str
) -> "tuple[Codebook | None, Smoothing]":
    """The codebook, if any, and the noise to train with: of one level, or drawn from the codes."""
    from anisocert.errors import ArgumentError
    from anisocert.models import Codebook
    from anisocert.smoothing import GaussianMixture, usual

    if (recipe in OF_A_NETWORK) != (classifier is not None):
        raise ArgumentError(
            f"expected --classifier, a network, with --recipe {' or '.join(OF_A_NETWORK)} and with no other"
        )
    if (sigma is None) != (codebook is not None) or (recipe == "selector" and codebook is None):
        needed = "--codebook with --recipe selector" if recipe == "selector" else "one of --sigma and --codebook"
        raise ArgumentError(f"expected {needed}, got {'both' if sigma and codebook else 'none'}")
    if codebook is None:
        return None, usual(norm).of(sigma)  # type: ignore[arg-type]  # one of the two is there
    book = Codebook.load(codebook)
    if recipe == "selector":
        return book, usual(norm).of(book.sigma)
    if norm != "l2":
        raise ArgumentError("expected --norm l2 with --codebook, whose codes are drawn as a Gaussian mixture, got l1")
    return book, GaussianMixture([1 / len(book)] * len(book), list(book.codes))


def _expect_own(recipe: str, arch: str | None, **given: Path | str | None) -> None:
    """An error for options that the recipe does not have."""
    from anisocert.errors import ArgumentError

    for name, value in given.items():
        if value is not None and recipe != OWN[name]:
            raise ArgumentError(f"expected --{name} with --recipe {OWN[name]} and with no other, got {str(value)!r}")
    if given["worth"] not in (None, "radius", "volume"):
        raise ArgumentError(f"expected --worth radius or volume, got {given['worth']!r}")
    if arch is not None and recipe == "distillation":
        raise ArgumentError(f"expected no --arch with --recipe distillation, which trains the classifier, got {arch!r}")


def _expect_there(classifier: Path | None) -> None:
    from anisocert.errors import ArgumentError
    from anisocert.models.loading import is_function

    if classifier is not None and not is_function(str(classifier)) and not classifier.exists():
        raise ArgumentError(
            "expected --classifier, a network file or package.module:function, got "
            f"{classifier.absolute()}, where nothing is"
        )


def _code_values(
    console: Any, examples: "Dataset", book: "Codebook", classifier: Path, norm: str, worth: str, where: Any, seed: int
) -> Any:
    """What each code would certify about each example, as a tensor."""
    import numpy as np
    import torch

    from anisocert.bounds import Plan
    from anisocert.engine import Network
    from anisocert.models import load
    from anisocert.smoothing import usual
    from anisocert.train import code_values

    model, _ = load(classifier, num_classes=examples.num_classes)
    network = Network(model, examples.num_classes, where)
    with console.status("certifying the training examples with every code, from few votes"):
        values = code_values(network, examples, book, usual(norm), Plan(), worth, seed=seed)  # type: ignore[arg-type]
    shares = np.bincount(values.argmax(1), minlength=len(book)) / len(examples)
    console.print("best code of the training examples: " + ", ".join(f"{k}: {s:.1%}" for k, s in enumerate(shares)))
    return torch.from_numpy(values.astype(np.float32))


def _recipe(name: str, sigma: float, options: list[str]) -> "Recipe":
    """The recipe of that name, with the paper's options for this noise level, changed by KEY=VALUE texts."""
    import dataclasses

    from anisocert.errors import ArgumentError
    from anisocert.train import MACER, RECIPES, Consistency, Denoising

    if name not in RECIPES:
        raise ArgumentError(f"expected --recipe to be one of {', '.join(RECIPES)}, got {name!r}")
    suited = {one.name: one.for_sigma for one in (MACER, Consistency, Denoising)}
    recipe = suited[name](sigma) if name in suited else RECIPES[name]()
    changes: dict[str, float | int] = {}
    fields = {key: type(value) for key, value in recipe.options().items() if key not in ("name", *GIVEN)}
    for text in options:
        key, _, value = text.partition("=")
        if key not in fields:
            raise ArgumentError(f"expected --set of {', '.join(fields) or 'nothing'} with {name}, got {text!r}")
        try:
            changes[key] = fields[key](value)
        except ValueError as error:
            raise ArgumentError(f"expected --set {key} as {fields[key].__name__}, got {value!r}") from error
    return dataclasses.replace(recipe, **changes)  # type: ignore[type-var]


def _levels(levels: str | None) -> list[str]:
    """The levels of a denoiser's noise, as its options."""
    from anisocert.errors import ArgumentError

    found = options.numbers("--levels", levels)
    if found is None:
        return []
    if len(found) != 2:
        raise ArgumentError(f"expected --levels LOW,HIGH, got {levels!r}")
    return [f"low={found[0]}", f"high={found[1]}"]


def _line(record: dict[str, Any]) -> str:
    from anisocert.evaluate import percent

    accuracy = record["test_accuracy"]
    shown = "" if accuracy is None else f"  noisy test accuracy {percent(accuracy)}%"
    return f"loss {record['loss']:.4f}{shown}  {record['seconds']:.1f} s"


def _tell_result(console: Any, out: Path, records: list[dict[str, Any]], certified: list[str]) -> None:
    """What was reached, and how to certify it. certified: the network and what else the command names."""
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
    command = ["anisocert", "certify", *certified, "--out", "RUN"]
    console.print(
        f"{out}/best.safetensors, last.safetensors and log.jsonl are written. Next:\n{shlex.join(command)}",
        soft_wrap=True,
    )
