"""`anisocert quantize`: a network in 8-bit integers, for processors without bfloat16."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import ArgumentError
from anisocert.options import option
from anisocert.shell import shell_join

if TYPE_CHECKING:
    from torch import Tensor, nn

EPILOG = (
    "Example: anisocert quantize nets/cohen/last.safetensors --data cifar10 --out nets/cohen/int8.onnx\n\n"
    "Then: anisocert certify nets/cohen/int8.onnx --data cifar10 --sigma 0.25 --method fixed --out RUN"
)
OTHERS = 1024  # examples that the two networks are compared on
AT_ONCE = 32


@options.takes(
    "model", "data", "sigma", "norm", "num_classes", "layout", "mean", "std",
    split=option("train", "Which part of the data the examples are from."),
    max=option(512, "Examples whose noisy copies set the ranges of the network's maps."),
    seed=option(0, "Seed of the choice of examples and of their noise."),
)  # fmt: skip
def quantize(
    asked: options.Asked,
    out: Annotated[Path, typer.Option(help="The file to write, .onnx.", dir_okay=False)],
    force: options.Force = False,
    config: ConfigFile = None,
) -> None:
    """Make a network in 8-bit integers of a network, as an ONNX file: quicker votes on a CPU without bfloat16.

    The file is a network of its own, whose answers differ a little. Certify it, and predict and serve with it: its
    certificates are not about the network that it was made from. It has no gradients: --method fixed or isotropic.
    """
    from dataclasses import replace

    import numpy as np
    import torch

    from anisocert.cli.configuring import configured
    from anisocert.cli.console import Console
    from anisocert.data import load
    from anisocert.data.arrays import CHANNELS_FIRST
    from anisocert.durable import claim
    from anisocert.evaluate import percent
    from anisocert.models import quantize as write
    from anisocert.models.normalize import check_units
    from anisocert.runs.loading import load_model
    from anisocert.train.recipe import noise_like

    if out.suffix != ".onnx":
        raise ArgumentError(f"expected --out as an .onnx file, got {out}")
    console = Console()
    c = configured(asked | {"denoise": None}, console.tell)
    claim(out, force)
    layout = c.layout if c.layout == CHANNELS_FIRST else None  # about the data; else about the network
    examples = load(c.data, c.split, layout)
    classes = examples.num_classes if examples.labelled else None
    model, metadata = load_model(replace(c, input_shape=list(examples.shape)), classes=classes)
    check_units(examples.sample(), metadata.get("mean"), metadata.get("std"))
    for note in (*examples.remarks, *metadata.get("notes", ())):
        console.tell(f"note: {note}")
    places = np.random.default_rng(c.seed).permutation(len(examples))[: (c.max or 0) + OTHERS]
    chosen = examples.at(places)
    torch.manual_seed(c.seed)
    x = torch.from_numpy(chosen.x)
    x = x + noise_like(x, c.smoothing())
    ranges, held_out = x[: c.max], x[c.max :]
    with console.status("exporting the network and measuring the ranges of its maps"):
        quantized = write(model, ranges, out)
    console.tell(f"{out}: {c.model} in 8-bit integers, by {len(ranges)} noisy examples")
    if len(held_out):
        votes, quantized_votes = (
            torch.cat([_votes(network, part) for part in torch.split(held_out, AT_ONCE)])
            for network in (model, quantized)
        )
        moved = percent(float((votes != quantized_votes).float().mean()), True, digits=2)
        line = f"of the votes of {len(held_out)} other noisy examples {moved}% moved"
        if examples.labelled:
            y = torch.from_numpy(chosen.y[c.max :])
            before, after = (
                percent(float((answers == y).float().mean()), digits=2) for answers in (votes, quantized_votes)
            )
            line += f"; correct are {after}%, in float32 {before}%"
        console.tell(line)
    noise = ["--norm", c.norm, "--sigma", f"{c.sigma:g}", "--method", "fixed"]
    data = ["--data", c.data, *(["--layout", layout] if layout else [])]
    command = ["anisocert", "certify", str(out), *data, *noise, "--out", "RUN"]
    console.tell(f"It is a network of its own, without gradients. Next:\n{shell_join(command)}")


def _votes(network: "nn.Module", x: "Tensor") -> "Tensor":
    import torch

    with torch.no_grad():
        return network(x).argmax(1)  # type: ignore[no-any-return]
