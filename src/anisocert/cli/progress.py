"""A progress bar with the time left; silent without a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from anisocert.cli.console import Console

Advance = Callable[[int, str], None]


@contextmanager
def progress(console: Console, task: str, total: int, unit: str) -> Iterator[Advance]:
    """Yield advance(steps, note); the bar shows how many of `total` units are done."""
    columns = (
        TextColumn("{task.description:<11}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}  {{task.fields[note]}}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        number = bar.add_task(task, total=total, note="")
        yield lambda steps, note: bar.update(number, advance=steps, note=note)
