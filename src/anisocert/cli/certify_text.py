"""What `anisocert certify` prints: before, during and at the end."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from anisocert.cli.console import Console
from anisocert.cli.progress import Bar, duration
from anisocert.data.dataset import UNLABELLED
from anisocert.evaluate import average_certified_radius, down, explained, median_certified_radius, percent, results_of
from anisocert.evaluate.protection import SEEN
from anisocert.evaluate.room import REACH, room
from anisocert.memory import INHERITED
from anisocert.runs import Configuration, read_run
from anisocert.work import Job, Outcome

if TYPE_CHECKING:
    from anisocert.evaluate import Results
    from anisocert.runs import StoredRun
    from anisocert.work.forecast import Forecast

MEMORY = {"certified": "before the memory", "after the memory": "after the memory"}


class Reporter:
    """Reports to a terminal, a log file or a program that reads JSON. To be entered while a run is at work."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(stderr=as_json, quiet=quiet)
        self.bar = Bar(self.console, "certify", "inputs")
        self.clock, self.labelled = time.monotonic(), False
        self.evaluated = self.correct = self.done = self.before = self.inputs = 0

    def __enter__(self) -> "Reporter":
        self.bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.__exit__()

    def start(self, job: Job, out: Path, where: str) -> None:
        """Print the first line."""
        self.inputs = len(job.ids)
        self.console.tell(f"{_task(job)} -> {out}, on {where}")

    def begin(self, done: int, of: int) -> None:
        """Show how many of this shard's inputs are done already."""
        self.before = done
        self.bar.begin(of, done)
        if done:
            self.console.print(f"{done} of {of} inputs were done before")
        self.clock = time.monotonic()

    def work(self, rows: int, inputs: float) -> None:
        """Count rows that the network evaluated in this process; they were so many inputs' share of the work."""
        self.evaluated += rows
        self.bar.advance(inputs, self._note())

    def rows(self, rows: Sequence[dict[str, Any]]) -> None:
        """Count inputs that are done."""
        self.done += len(rows)
        self.correct += sum(row["correct"] for row in rows)
        self.labelled = self.labelled or any(row["label"] != UNLABELLED for row in rows)
        self.bar.reach(self.before + self.done, self._note())

    def _note(self) -> str:
        speed = self.evaluated / max(time.monotonic() - self.clock, 1e-6)
        parts = [f"{speed:,.0f} evaluations/s"] if self.evaluated else []
        parts += [f"{percent(self.correct / self.done)}% correct"] if self.done and self.labelled else []
        return "  ".join(parts)

    def remembered(self, count: int) -> None:
        """Count certificates that went through the memory."""
        if self.bar.task != "remember":
            self.bar.begin(self.inputs, 0, "remember")
        self.bar.advance(count)

    def stopped(self, outcome: Outcome, why: str, out: Path) -> None:
        """Say that it ended before all was done."""
        self.console.tell(f"{why}: {outcome.done} of {outcome.of} inputs are done; the same command resumes")
        self._object(out, outcome, why)

    def shard_done(self, outcome: Outcome, out: Path) -> None:
        """Say that this shard is done; the rest is for others."""
        self.console.tell(f"this shard is done, and {outcome.done} of {outcome.of} inputs of the run")
        self._object(out, outcome, "shard done")

    def finished(self, job: Job, out: Path) -> None:
        """Print the summary of a whole run."""
        run, c, shape = read_run(out), job.configuration, job.examples.shape
        phases = {"certified": results_of(run)}
        if run.has_memory:
            phases["after the memory"] = results_of(run, memory=True)
        summary = {name: _summary(results) | {"protects": results.protects} for name, results in phases.items()}
        levels = (run.said("preparation") or {}).get("levels")
        units = "in units of the network's input" + (f" (times {levels}: in pixel units)" if levels else "")
        self.console.print(_table(summary, units, phases["certified"].labelled))
        if run.has_memory and (inherited := int((run.column("memory_note") == INHERITED).sum())):
            line = f"{inherited} of {len(run)} answers are promises that the memory made before, to or around them"
            self.console.tell(line)
        if held := int(c.at_limit(run.column("theta_max"), shape).sum()):
            line = f"theta reached its bound on {held} of {len(run)} inputs (--limit {c.chooser().limit_for(shape):g})"
            self.console.tell(f"{line}: a higher one may certify more")
        if c.trained_on:
            self.console.tell(f"[yellow]{SEEN}[/yellow]", markup=True)
        self._room(job, run, phases["certified"].correct, summary["certified"])
        self.console.tell(f"finished: {len(run)} inputs in {out}")
        self._object(out, Outcome(True, len(run), len(run), 0), "finished", summary)

    def _room(self, job: Job, run: "StoredRun", correct: NDArray[np.bool_], summary: dict[str, Any]) -> None:
        """Tell where the reach bounded regions, and add their sizes inside the domain to the summary.

        correct: of each row; without labels, whether it was answered.
        """
        c = job.configuration
        if not c.bounded_reach and c.domain is None:
            return
        reached, inside = room(run, lambda ids: job.chunk(ids).x, c.domain)
        if c.bounded_reach and reached.any():
            self.console.tell(f"{reached.sum()} of {len(run)} inputs have a region that {REACH}")
        if c.domain is not None:
            summary |= {"ACR~ inside": average_certified_radius(inside, correct)}
            summary |= {"median~ inside": median_certified_radius(inside, correct)}
            self.console.tell(
                f"in the domain, {c.domain[0]:g} to {c.domain[1]:g}: ACR~ {down(summary['ACR~ inside'], 4)}, median~ "
                f"{down(summary['median~ inside'], 4)}, of the parts of regions that are valid inputs; "
                f"{summary['protects']}"
            )

    def forecast(self, job: Job, out: Path | None, found: "Forecast", workers: int) -> None:
        """Print what would be done."""
        seconds = found.seconds / workers
        parts = " + ".join(f"{count:,} {name}" for name, count in found.evaluations.items() if count)
        at_most = "at most " if job.configuration.stop is not None else ""
        self.console.tell(f"would do: {_task(job)}{'' if out is None else f' -> {out}'}")
        if found.inputs < len(job.ids):
            self.console.print(f"{found.inputs} of these inputs are left to do here")
        self.console.tell(f"network evaluations per input: {at_most}{parts}")
        self.console.tell(
            f"{at_most}{found.total:,} in all; at {found.votes_per_second:,.0f} votes/s, measured here: "
            f"{at_most}{duration(seconds)}, plus start-up and writing"
        )
        if self.as_json:
            print(json.dumps({"run": out and str(out), "inputs": found.inputs, "evaluations": found.evaluations,
                              "total": found.total, "seconds": seconds}))  # fmt: skip

    def _object(self, out: Path, outcome: Outcome, state: str, summary: dict[str, Any] | None = None) -> None:
        if self.as_json:
            document = {"run": str(out), "state": state, "done": outcome.done, "of": outcome.of, "summary": summary}
            print(json.dumps(document))


def _whose(c: Configuration) -> str:
    return " for all at once" if c.simultaneous else " for the memory's lifetime" if c.lifetime else ""


def _task(job: Job) -> str:
    c = job.configuration
    how = f"{c.method}, {c.norm}, sigma {c.sigma:g}, n {c.n:,}, alpha {c.alpha:g}{_whose(c)}"
    return f"certify {len(job.ids)} inputs of {job.examples.name} ({how})"


def _summary(results: "Results") -> dict[str, Any]:
    return {
        "accuracy" if results.labelled else "answered": float(results.accuracy(0.0)[0]),
        "abstain": results.abstention,
        "ACR": results.mean(),
        "ACR~": results.mean("proxy_radius"),
        "median": results.median(),
        "median~": results.median("proxy_radius"),
    }


def _table(summary: dict[str, dict[str, Any]], units: str, labelled: bool) -> Table:
    """Shares to a tenth of a percent, radii rounded down; each line says whom its certificates protect."""
    whom = explained(values["protects"] for values in summary.values())
    which = "correct answers" if labelled else "all answers, as the inputs have no labels"
    caption = f"ACR, median: of the radius of {which}, {units}; ~: of the proxy radius. {whom}"
    table = Table(box=None, caption=caption, caption_justify="left")
    table.add_column("")
    shares, radii = ("accuracy" if labelled else "answered", "abstain"), ("ACR", "ACR~", "median", "median~")
    for name in (*shares, *radii):
        table.add_column(name, justify="right", no_wrap=True)
    for name, values in summary.items():
        whose = values["protects"] if len(summary) == 1 else f"{MEMORY[name]}: {values['protects']}"
        percentages = [f"{percent(values[key], key == 'abstain')}%" for key in shares]
        table.add_row(whose, *percentages, *(down(values[key], 4) for key in radii))
    return table
