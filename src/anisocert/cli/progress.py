"""Progress: a bar with the time left on a terminal, a line a minute elsewhere, so that a log shows it too."""

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from anisocert.cli.console import Console

SECONDS = 60.0  # between two lines
SPEED_SECONDS = 600.0  # over which the bar's speed is taken


class Bar:
    """How many of `total` units are done, parts of one included. To be entered while the work goes on."""

    def __init__(self, console: Console, task: str, unit: str, total: float | None = None) -> None:
        self.console, self.task, self.unit, self.total, self.note = console, task, unit, total, ""
        self.done = self._done_before = 0.0
        self._began = self._told = time.monotonic()
        columns = (
            TextColumn("{task.description:<11}"), BarColumn(), MofNCompleteColumn(),
            TextColumn(f"{unit}  {{task.fields[note]}}"), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(),
        )  # fmt: skip
        drawn = console.is_terminal and not console.quiet
        self._bar = Progress(*columns, console=console, disable=not drawn, speed_estimate_period=SPEED_SECONDS)
        self._number = self._bar.add_task(task, total=total, note="")

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, total: float, done: float = 0.0, task: str | None = None) -> None:
        """The work begins, or another part of it. done: before."""
        self.total, self.done, self._done_before, self.task, self.note = total, done, done, task or self.task, ""
        self._began = time.monotonic()
        self._bar.update(self._number, description=self.task, total=total, completed=done, note="")

    def reach(self, done: float, note: str | None = None) -> None:
        """So much is done."""
        self.done = done if self.total is None else min(done, self.total)
        self.note = self.note if note is None else note
        self._bar.update(self._number, completed=self.done, note=self.note)
        if self._bar.disable and (now := time.monotonic()) - self._told >= SECONDS:
            self._told = now
            self.console.tell(self._line(now - self._began))

    def advance(self, steps: float = 1, note: str | None = None) -> None:
        """So much more is done."""
        self.reach(self.done + steps, note)

    def _line(self, elapsed: float) -> str:
        here, of = self.done - self._done_before, "" if self.total is None else f" of {self.total:,.0f}"
        left = elapsed * (self.total - self.done) / here if here > 0 and self.total is not None else None
        parts = [f"{self.task.strip()}: {int(self.done):,}{of} {self.unit} after {duration(elapsed)}"]
        parts += [] if left is None else [f"about {duration(left)} left"]
        return ", ".join(parts + ([self.note] if self.note else []))


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
