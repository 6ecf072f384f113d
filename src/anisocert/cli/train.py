"""`anisocert train`: a base classifier, trained for the noise that will smooth it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import expect_one_of
from anisocert.options import READING, flags, option
from anisocert.shell import shell_join, shell_quote

EPILOG = "Example: anisocert train --data cifar10 --arch resnet18 --sigma 0.25 --out nets/cohen"


@options.takes(
    "data", "mean", "std",
    layout=option(None, "Of --classifier: whose checkpoint (cohen, salman, macer), or flat, channels-last."),
    norm=option("l2", "l2: Gaussian noise; l1: uniform noise (cohen, stability, distillation and denoiser)."),
    seed=option(0, "Seed of weights, order, augmentation and noise."),
)  # fmt: skip
def train(
    asked: options.Asked,
    out: Annotated[
        Path, typer.Option(help="Folder for weights and log; an interrupted training resumes.", file_okay=False)
    ],
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
            help="An option of the recipe, as in epsilon=0.5; repeatable. Of denoiser: reconstruct, answer, weight "
            "and keep; a name that a recipe lacks lists its own.",
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

    expect_one_of("--recipe", recipe, RECIPES)
    console, data, norm, seed, kind = Console(), asked["data"], asked["norm"], asked["seed"], RECIPES[recipe]
    own = {"denoise": denoise, "told": told, "levels": levels, "worth": worth}
    own = {name: value for name, value in own.items() if value is not None}
    reading = {name: asked[name] for name in READING if asked[name] is not None}
    setup.expect_taken(kind, classifier, arch, own, reading)
    book, smoothing = setup.noise_of(kind, norm, sigma, codebook)
    sigma = float(smoothing.theta.mean()) if sigma is None else sigma
    chosen = setup.recipe_of(kind, sigma, own, changes or [])
    chosen.check(smoothing)
    numerics = Numerics(precision=precision)  # type: ignore[arg-type]  # it checks the name
    where = torch.device(devices_of(device)[0])
    given = {"batch_size": batch_size, "learning_rate": lr, "weight_decay": weight_decay, "schedule": schedule}

    def sgd(size: int) -> Sgd:
        return dataclasses.replace(chosen.sgd(size, epochs), **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]

    # Errors now, not once the data is read.
    sgd(1)
    Stream(seed, Stage.ESTIMATE, 0)
    if kind.fresh:
        setup.expect_network(chosen, arch, smoothing)
    options.checked()
    setup.expect_there(classifier)
    examples = load(data, "train")
    for note in (*examples.remarks, *(setup.label_notes(examples) if chosen.labelled else ())):
        console.tell(f"note: {note}")
    if arch is None and kind.fresh:
        arch = chosen.suited(examples.shape)
        console.print(f"--arch {arch}, for inputs of {' x '.join(map(str, examples.shape))}")
    warn_of_units(sigma, examples.std, images=len(examples.shape) > 1)
    test = load(data, "test") if splits(data) and kind.answers else None
    test = test if test is not None and test.labelled else None
    torch.manual_seed(seed)
    task = Task(
        examples, smoothing, architecture=arch or "", classifier=classifier, reading=reading, denoise=denoise,
        codebook=book, seed=seed, device=where, tell=console.print, busy=console.status,
    )  # fmt: skip
    model, chosen, examples = chosen.prepared(task)
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
                model, examples, chosen, smoothing, sgd=sgd(len(examples)), test=test, folder=out, crop=crop, flip=flip,
                seed=seed, device=where, precision=numerics.precision, compile=compile, on_epoch=tell,
                on_resume=resumed, force=force,
            )  # fmt: skip
        except KeyboardInterrupt:
            console.tell(f"interrupted in epoch {int(bar.done) + 1} of {epochs}; the same command resumes")
            raise typer.Exit(STOPPED) from None
    if not kind.answers:
        console.tell(f"{out}/last.safetensors is the {recipe} for --codebook {shell_quote(str(codebook))}")
        return
    last = str(out / "last.safetensors")
    network, front = (str(classifier), last) if kind.in_front else (last, denoise and str(denoise))
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
    console.tell(f"{out}/best.safetensors, last.safetensors and log.jsonl are written. Next:\n{shell_join(command)}")
