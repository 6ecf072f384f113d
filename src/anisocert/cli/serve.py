"""`anisocert serve`: a network's answers with certificates, over HTTP."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from anisocert.cli import options
from anisocert.cli.config import ConfigFile
from anisocert.errors import ArgumentError
from anisocert.options import option

EPILOG = (
    "Example: anisocert serve nets/cohen/last.safetensors --sigma 0.25 --memory promises.sqlite --keys keys.json "
    "--shape 3,32,32\n\n"
    "SIGTERM or Ctrl-C: nothing new is taken, what was begun is finished. Logs are lines of JSON on standard error."
)
OF_EXAMPLES = {"split", "skip", "max", "ids", "simultaneous", "seed"}  # the other options of a run are a service's, too
place = partial(typer.Option, rich_help_panel="Where, who and how much")


@options.takes(
    *(options.DECLARED.keys() - OF_EXAMPLES),
    data=option(None, "Examples for the page at /, which also tell the shape of inputs and the classes' names."),
    memory=option(None, "Where promises are kept, a file or URL. Default: they end with the process.", metavar="PLACE"),
)  # fmt: skip
def serve(
    asked: options.Asked,
    keys: Annotated[Path, place(help="Who may ask: a file that `anisocert keys add` writes.", metavar="FILE")],
    port: Annotated[int, place(help="The port; 0: any that is free.", min=0, max=65535)] = 8000,
    host: Annotated[str, place(help="The address to listen on; 0.0.0.0: all.")] = "127.0.0.1",
    name: Annotated[str | None, place(help="The model's name in addresses. Default: that of its file.")] = None,
    shape: Annotated[
        str | None, place(help="Shape of one input, as in 3,32,32; not needed where data, memory or file tell.")
    ] = None,
    secret: Annotated[
        Path | None, place(help="File with the key of all noise, mode 600. Default: ANISOCERT_SECRET, else random.")
    ] = None,
    attempts: Annotated[int, place(help="How often votes are drawn about one input.", min=1)] = 1,
    time_limit: Annotated[float, place(help="Seconds within which a request is answered.", min=0.1)] = 60.0,
    waiting: Annotated[int, place(help="Inputs that may wait; more get 429, or 413 in one request.", min=1)] = 1024,
    at_once: Annotated[int, place(help="Inputs that are certified together.", min=1)] = 64,
    tls_certificate: Annotated[Path | None, place(help="For https: the certificate, PEM.", exists=True)] = None,
    tls_key: Annotated[Path | None, place(help="For https: its key, PEM.", exists=True)] = None,
    device: options.Device = "auto",
    config: ConfigFile = None,
) -> None:
    """Serve a network: each answer is a class and the promise that goes with it, kept from then on.

    The Open Inference Protocol v2, JSON and binary; a page for people at /, the protocol at /docs, metrics at /metrics.
    """
    from anisocert.cli.configuring import configured
    from anisocert.data import load
    from anisocert.engine.devices import devices_of
    from anisocert.runs.loading import open_memory
    from anisocert.service import KeyFile
    from anisocert.service.limits import Limits
    from anisocert.service.opening import open_service, open_system, settled
    from anisocert.service.secret import secret_of
    from anisocert.service.serving import Address
    from anisocert.service.serving import serve as serve_until_told

    data = asked.pop("data")
    tell = partial(typer.echo, err=True)
    configuration = configured(asked, tell, data=data or "", input_shape=_shape(shape))
    address = Address(host, port, tls_certificate, tls_key)
    holders, limits = KeyFile(keys), Limits(waiting=waiting, at_once=at_once, seconds=time_limit)
    options.checked()
    address.listening().close()  # known before a large memory is read
    examples = None if data is None else load(data, configuration.split, configuration.layout)
    if configuration.memory is None:
        tell("promises end with this process: --memory PLACE keeps them")
    with open_memory(configuration) as memory:
        c = settled(configuration, memory, examples)
        system = open_system(c, memory, secret_of(secret), devices_of(device)[0], attempts, examples, tell)
        tell("preparing the network")
        service = open_service(
            system, holders, name=name or _name(c.model), shape=tuple(c.input_shape or ()) or None,
            domain=None if c.domain is None else (c.domain[0], c.domain[1]), limits=limits, examples=examples,
        )  # fmt: skip
        announcement = f"serving {service.name}, {len(memory)} promises, at"
        serve_until_told(service, address, lambda port: tell(f"{announcement} {address.url(port)}"))


def _name(model: str) -> str:
    """A network's name from that of its file or function, as an address can hold it."""
    import re

    last = model.rpartition(":")[2] if ":" in model and not Path(model).exists() else Path(model).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._")[:100] or "classifier"


def _shape(text: str | None) -> list[int] | None:
    parts = [] if text is None else text.split(",")
    if not all(part.isascii() and part.isdecimal() and 0 < int(part) < 1 << 20 for part in parts):
        raise ArgumentError(f"expected --shape as in 3,32,32, got {text!r}")
    return list(map(int, parts)) or None
