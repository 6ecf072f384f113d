"""`anisocert data`: list data sets, fetch or prepare them, and inspect them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List, fetch, prepare and inspect data sets.")


@app.command("list", epilog="Example: anisocert data list")
def list_() -> None:
    """List the named data sets, whether each is on this machine, and the folder they are kept in."""
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.data import CATALOG, cache

    table = Table("name", "what it is", "here", box=None)
    for entry in CATALOG.values():
        missing = f"no: anisocert data {f'fetch {entry.name}' if entry.fetch else f'prepare {entry.name} FOLDER'}"
        table.add_row(entry.name, entry.title, "yes" if entry.present() else missing)
    console = Console()
    console.print(table)
    console.tell(
        f"\nKept in {cache.root()} (set ${cache.VARIABLE} for another folder). Wherever a name works, so does the path "
        "of an .npz or .npy file, of a folder with one folder of images per class (resize, crop, labels and "
        "num_classes in its images.json, if wanted), and of torchvision's folders."
    )


@app.command("fetch", epilog="Example: anisocert data fetch cifar10")
def fetch(name: Annotated[str, typer.Argument(help="A name of `anisocert data list`.")]) -> None:
    """Download a data set, checked by SHA-256; does nothing if it is already here."""
    from anisocert.cli.console import Console
    from anisocert.data import cache
    from anisocert.data import fetch as fetch_data

    console = Console()
    with console.status(f"fetching {name}"):
        new = fetch_data(name, console.tell)
    console.tell(f"{name} is {f'now here ({cache.root()})' if new else 'already here'}")


@app.command("prepare", epilog="Example: anisocert data prepare tiny-imagenet tiny-imagenet-200")
def prepare(
    name: Annotated[str, typer.Argument(help="tiny-imagenet or imagenet.")],
    folder: Annotated[Path, typer.Argument(help="The folder of images, as it was published.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the arrays go. Default: where the name finds them (`data list`).")
    ] = None,
    resize: Annotated[int | None, typer.Option(help="Of imagenet: the shorter side in pixels. Default: 256.")] = None,
    crop: Annotated[int | None, typer.Option(help="Of imagenet: the central square's side. Default: 224.")] = None,
    test_every: Annotated[
        int | None, typer.Option(help="Of imagenet: one image in so many is a test image, the others are for training.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what was prepared there before.")] = False,
) -> None:
    """Decode a folder of images once, into arrays from which any command takes single examples quickly."""
    from anisocert.cli.console import Console
    from anisocert.data import prepare as prepare_data
    from anisocert.data import splits
    from anisocert.shell import shell_quote

    console = Console()
    with console.status(f"preparing {name}"):
        place = prepare_data(
            name, folder, out, resize=resize, crop=crop, test_every=test_every, force=force,
            say=console.tell,
        )  # fmt: skip
    console.tell(f"{' and '.join(splits(place))} images are in {place}")
    console.tell(f"use them with --data {shell_quote(name if out is None else place)}")


@app.command("info", epilog="Example: anisocert data info cifar10")
def info(
    name: Annotated[str, typer.Argument(help="A name of `anisocert data list`, or a path.")],
    skip: Annotated[int, typer.Option(help="Every skip-th example.")] = 1,
    most: Annotated[int | None, typer.Option("--max", help="At most this many examples.")] = None,
    ids: Annotated[str | None, typer.Option(help="Only these examples, as in 3,17,100-199.")] = None,
) -> None:
    """Show what a data set consists of, or the subset that the same options select in other commands."""
    from numpy import bincount
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.data import load, parse_ids, splits

    columns = {}
    for split in splits(name) or ("test",):
        data = load(name, split)
        if split == "test":
            data = data.subset(skip, most, parse_ids(ids, data.named) if ids else None)
        counts = bincount(data.y, minlength=data.num_classes) if data.labelled else None
        # Of image files, which are not all read for it, assumed; else of the training examples, if there are any.
        trained = split == "test" and "train" in splits(name)
        assumed = " (assumed, not measured)" if data.names else " (train's)" if trained else ""
        columns[split if splits(name) else "all"] = {
            "examples": f"{len(data):,}",
            "ids": f"{data.ids.min()} to {data.ids.max()}",
            **({"files": f"{data.names[0]} (id {data.ids[0]}), ..."} if data.names else {}),
            "shape": " x ".join(map(str, data.shape)),
            "classes": "unknown, as there are no labels"
            if counts is None
            else f"{data.num_classes}, with {counts.min():,} to {counts.max():,} examples",
            "class names": ", ".join(data.class_names[:10]) + (", ..." if len(data.class_names) > 10 else ""),
            "mean": _measured(data.mean) + assumed,
            "std": _measured(data.std) + assumed,
        }
    table = Table("", *columns, box=None)
    for key in next(iter(columns.values())):
        table.add_row(key, *(column[key] for column in columns.values()))
    Console().print(table)


def _measured(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)
