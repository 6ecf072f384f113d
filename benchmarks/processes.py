"""Measurements in processes of their own, so that no settings of one help another: they get ready, compiled and warm,
several at a time, and are timed one after the other.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def processor_time(process: int) -> float:
    """Seconds of processor time of a process so far; NaN where it has ended, or the system is not Linux."""
    try:
        parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def ready() -> None:
    """In a measuring process: say so, and wait for the turn."""
    print("ready", flush=True)
    sys.stdin.readline()


def tell(found: Mapping[str, Any]) -> None:
    """In a measuring process: hand over what was found."""
    print(json.dumps(found), flush=True)


def measured(commands: Iterable[tuple[str, ...]], at_a_time: int) -> Iterator[dict[str, Any]]:
    """What each command finds, in order; nothing where one fails, which ends this process after the last result, for
    whoever asks for another. commands: a script and its arguments.
    """
    left, failed = list(commands), list[str]()
    while left:
        group, left = left[:at_a_time], left[at_a_time:]
        processes = [
            subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for command in group
        ]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process, command in zip(processes, group, strict=True):
            out, _ = process.communicate("go\n")
            failed += [" ".join(command)] if process.returncode else []
            yield json.loads(out) if out else {}
    if failed:
        raise SystemExit(f"failed: {'; '.join(failed)}")
