"""From what was typed to the configuration of a run, and to what it names."""

from collections.abc import Callable
from typing import Any

import typer

from anisocert.cli.options import COMPUTING, Asked
from anisocert.engine import Numerics
from anisocert.errors import ArgumentError
from anisocert.models import Codebook
from anisocert.optimize import FOR_EVERYONE, Cascade
from anisocert.runs import Configuration
from anisocert.runs.loading import trained_sigma
from anisocert.work import Job, load_job


def configured(asked: Asked, tell: Callable[[str], None] = typer.echo, **known: Any) -> Configuration:
    """The configuration of what was typed; sigma defaults to what the network was trained with, which is reported."""
    if asked.get("sigma", 0) is None and asked.get("codebook") is not None:
        book, first = Codebook.load(asked["codebook"]), asked.get("method") == Cascade.name
        asked = asked | {"sigma": book.cascade_sigma if first else book.sigma}
        whose = "largest noise" if first else "noise of the selector"
        tell(f"sigma {asked['sigma']:g}, the {whose} of {asked['codebook']}")
    if asked.get("sigma", 0) is None:
        sigma = trained_sigma(asked["model"], asked["norm"], asked["denoise"])
        tell(f"sigma {sigma:g}, which {asked['model']} was trained with")
        asked = asked | {"sigma": sigma}
    numerics = Numerics(**{name: asked[name] for name in COMPUTING if name in asked})
    known |= {name: value for name, value in asked.items() if name not in COMPUTING}
    configuration = Configuration(**known, numerics=numerics)
    # Of what is asked for now: earlier versions took them, and their runs still open.
    for name, unset in (("paper", False), ("iterations", None), ("limit", None)):
        if configuration.method in FOR_EVERYONE and getattr(configuration, name) != unset:
            raise ArgumentError(
                f"expected no --{name} with --method {configuration.method}, which searches for no theta, got one"
            )
    return configuration


def loaded(configuration: Configuration, tell: Callable[[str], None]) -> Job:
    """What a configuration names, with a line about whatever was done to the network to make it fit."""
    job = load_job(configuration)
    for note in (*job.examples.remarks, *job.metadata.get("notes", ())):
        tell(f"note: {note}")
    return job
