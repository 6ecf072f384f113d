"""Stages as processes: several at once, each done once; what was under way when time was up resumes next time.

A stage ends with the process that started it, however that ends, and holds a lock until then: whoever comes next, or at
the same time, waits for it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anisocert
from anisocert.durable import BusyError, locked, refuse_link
from anisocert.errors import ArgumentError
from anisocert.inputs import NO_LINK
from anisocert.reproduce.marks import hash_of, is_done, mark, marks_of, place
from anisocert.reproduce.stages import Stage

STOPPED = 3  # exit code of a command that will resume where it stopped
GRACE = 30.0  # seconds that a stage gets to end by itself
TICK = 0.1
PARENT = "ANISOCERT_PARENT"
"""Tells a stage which process it must not outlive."""


@dataclass(frozen=True)
class Outcome:
    """Names of stages. left: those that time, or a failure before them, did not let run.

    missing: what those left need that is neither done nor was to be run.
    """

    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Running:
    """A stage at work, the lock that it and this process hold, and when it started (time.monotonic).

    files, needs: the SHA-256 that its files, and the marks of the stages that it needs, had then.
    """

    process: "subprocess.Popen[bytes]"
    lock: ExitStack
    since: float
    files: dict[str, str]
    needs: dict[str, str]


def run_stages(
    stages: Sequence[Stage],
    out: Path,
    *,
    among: Sequence[Stage] = (),
    jobs: int = 1,
    out_of_time: Callable[[], bool] = lambda: False,
    tell: Callable[[str, str], None] = lambda name, what: None,
) -> Outcome:
    """Run what is not done yet, at most `jobs` at once, until `out_of_time()`. tell: gets (stage, what happened).

    among: all stages of the experiment, if those to run may need others that were done before.

    A stage that ends well leaves a mark with its command, and the SHA-256 of the user's files and of the marks of the
    stages that it needs, in `out/stages`; one of which any has changed since then is refused, as its results would not
    match them. Output goes to `out/logs`.
    """
    outcome = Outcome(done=[stage.name for stage in stages if is_done(stage, out)])
    needed = {name for stage in stages for name in stage.needs}
    before = {stage.name for stage in among if stage.name in needed and is_done(stage, out)}
    waiting = [stage for stage in stages if stage.name not in outcome.done]
    running: dict[str, tuple[Stage, Running]] = {}
    elsewhere: set[str] = set()
    try:
        while (waiting or running) and not out_of_time():
            ready = [stage for stage in waiting if set(stage.needs) <= before.union(outcome.done)]
            for stage in ready:
                if len(running) >= jobs:
                    break
                started = _start(stage, out)
                if isinstance(started, Running):
                    waiting.remove(stage)
                    running[stage.name] = (stage, started)
                    tell(stage.name, "started")
                elif started == "done":
                    waiting.remove(stage)
                    outcome.done.append(stage.name)
                elif stage.name not in elsewhere:
                    elsewhere.add(stage.name)
                    tell(stage.name, "another process is doing it; waiting for it to end")
            ended = [name for name, (_, job) in running.items() if job.process.poll() is not None]
            for name in ended:
                stage, job = running.pop(name)
                with job.lock:
                    _end(stage, job, out, outcome, tell)
            if not running and not any(set(stage.needs) <= before.union(outcome.done) for stage in waiting):
                break  # what is left needs something that failed or is not to be run
            if not ended:
                time.sleep(TICK)
    finally:
        asked = [name for name, (_, job) in running.items() if job.process.poll() is None]
        for name in asked:
            _ask(running[name][1].process)
        for name, (stage, job) in running.items():
            with job.lock:
                _wait(job.process)
                _end(stage, job, out, outcome, tell, asked=name in asked)
    outcome.left.extend(stage.name for stage in waiting)
    outcome.missing.extend(_missing(waiting, stages, among, out))
    return outcome


def _missing(waiting: Sequence[Stage], stages: Sequence[Stage], among: Sequence[Stage], out: Path) -> list[str]:
    """What stages need that is not done and not among those to be run, and what that needs in turn."""
    left_out = {stage.name: stage for stage in among if stage not in stages}
    needed, missing = [name for stage in waiting for name in stage.needs], dict[str, Stage]()
    while needed:
        name = needed.pop()
        if name in left_out and name not in missing and not is_done(left_out[name], out):
            missing[name] = left_out[name]
            needed.extend(left_out[name].needs)
    return [name for name in left_out if name in missing]


def _start(stage: Stage, out: Path) -> "Running | Literal['busy', 'done']":
    """The stage at work, unless another process is doing it, or has just done it."""
    files, needs, lock = {file: hash_of(file) for file in stage.files}, marks_of(stage, out), ExitStack()
    try:
        descriptor = lock.enter_context(locked(place(out, "stages", stage, ".lock"), wait=False))
    except BusyError:
        return "busy"
    if is_done(stage, out):
        lock.close()
        return "done"
    for folder in ("memories", "networks", "runs"):
        refuse_link(out / folder)
    (out / "memories").mkdir(exist_ok=True)
    # What lies in the folder is data: -P, and no relative path, keep Python from importing modules there.
    paths = [str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sources = os.pathsep.join([str(Path(anisocert.__file__).parents[1]), *paths])
    log = os.open(place(out, "logs", stage, ".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK, 0o666)
    with os.fdopen(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "anisocert", *stage.command], stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, cwd=out, env=os.environ | {"PYTHONPATH": sources, PARENT: str(os.getpid())},
            **_apart(descriptor),
        )  # fmt: skip
    return Running(process, lock, time.monotonic(), files, needs)


def _apart(lock: int) -> dict[str, Any]:
    """A stage holds its lock too, and has a group of its own: Ctrl-C is for this process, which ends its stages."""
    if sys.platform == "win32":  # which passes no descriptors on
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"pass_fds": (lock,), "process_group": 0}


def _end(
    stage: Stage, job: Running, out: Path, outcome: Outcome, tell: Callable[[str, str], None], asked: bool = False
) -> None:
    """Note how a stage ended. asked: it was, so that whatever else than done it says, it is to resume."""
    code, seconds = job.process.returncode, time.monotonic() - job.since
    if code == 0 and (changed := [file for file, before in job.files.items() if not _is_still(file, before)]):
        outcome.failed.append(stage.name)
        tell(stage.name, f"failed: {changed[0]} changed while it ran: remove what it made, and run it again")
    elif code == 0:
        mark(stage, seconds, job.files, job.needs, out)
        outcome.done.append(stage.name)
        tell(stage.name, f"done in {seconds:.0f} s")
    elif asked or code == STOPPED:
        outcome.left.append(stage.name)
        tell(stage.name, "stopped; resumes next time")
    else:
        outcome.failed.append(stage.name)
        lines = place(out, "logs", stage, ".log").read_text(errors="replace").strip().splitlines()
        tell(stage.name, f"failed: {lines[-1] if lines else f'exit code {code}'}")


def _is_still(file: str, before: str) -> bool:
    try:
        return hash_of(file) == before
    except ArgumentError:
        return False  # it is gone


def _ask(process: "subprocess.Popen[bytes]") -> None:
    """Ask a stage to end. Every command can be killed at any moment; asked first, it loses less."""
    if sys.platform == "win32":
        process.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        process.send_signal(signal.SIGINT)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a stage that was asked to end; then insist."""
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
