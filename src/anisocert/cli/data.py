"""`anisocert data`: list data sets, fetch them, and inspect them."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List, fetch and inspect data sets.")


@app.command("list", epilog="Example: anisocert data list")
def list_() -> None:
    """List the named data sets, whether each is on this machine, and the folder they are kept in."""
    from rich.table import Table

    from anisocert.cli.console import Console
    from anisocert.data import CATALOG, cache

    table = Table("name", "what it is", "here", box=None)
    for entry in CATALOG.values():
        missing = "no: anisocert data fetch " + entry.name if entry.fetch else "no: needs your folder"
        table.add_row(entry.name, entry.title, "yes" if entry.present() else missing)
    console = Console()
    console.print(table)
    console.print(
        f"\nKept in {cache.root()} (set ${cache.VARIABLE} for another folder). Wherever a name works, so does the path "
        "of an .npz or .npy file, of a folder with one folder of images per class (resize, crop, labels and "
        "num_classes in its images.json, if wanted), and of torchvision's folders.",
        soft_wrap=True,
    )


@app.command("fetch", epilog="Example: anisocert data fetch cifar10")
def fetch(name: Annotated[str, typer.Argument(help="A name of `anisocert data list`.")]) -> None:
    """Download a data set, checked by SHA-256; does nothing if it is already here."""
    from anisocert.cli.console import Console
    from anisocert.data import cache
    from anisocert.data import fetch as fetch_data

    console = Console()
    with console.status(f"fetching {name}"):
        new = fetch_data(name, lambda line: console.print(line, soft_wrap=True))
    console.print(f"{name} is {'now' if new else 'already'} here ({cache.root()})", soft_wrap=True)


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
        columns[split if splits(name) else "all"] = {
            "examples": f"{len(data):,}",
            "ids": f"{data.ids.min()} to {data.ids.max()}",
            **({"files": f"{data.names[0]} (id {data.ids[0]}), ..."} if data.names else {}),
            "shape": " x ".join(map(str, data.shape)),
            "classes": "unknown, as there are no labels"
            if counts is None
            else f"{data.num_classes}, with {counts.min():,} to {counts.max():,} examples",
            "class names": ", ".join(data.class_names[:10]) + (", ..." if len(data.class_names) > 10 else ""),
            "mean": " ".join(f"{value:.4g}" for value in data.mean),
            "std": " ".join(f"{value:.4g}" for value in data.std),
        }
    table = Table("", *columns, box=None)
    for key in next(iter(columns.values())):
        table.add_row(key, *(column[key] for column in columns.values()))
    Console().print(table)
