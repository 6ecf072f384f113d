"""What is known of a stage that was done: the command that did it, and which files of the user's it read."""

import json
from functools import lru_cache
from pathlib import Path

from anisocert.durable import refuse_link, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import checksum, read_regular, regular_file
from anisocert.options import fits
from anisocert.reproduce.stages import Stage, file_name
from anisocert.shell import shell_join

LARGEST = 1 << 20  # bytes of a mark


def command_line(stage: Stage) -> str:
    """A stage's command, to be typed in the experiment's folder."""
    return shell_join(("anisocert", *stage.command))


def is_done(stage: Stage, out: Path) -> bool:
    """Whether a stage has ended well; an error if its command or a file of the user's was another, or its run is gone.

    A trained network may be gone: it is large, and its runs stay what they are.
    """
    path = place(out, "stages", stage, ".json")
    if not path.exists():
        return False
    command, files = _read(path)
    remedy = f"use another --out, or remove {path} and what it made"
    if (before := command) != (now := command_line(stage)):
        raise ArgumentError(f"{stage.name} was done by a different command: {remedy}; then: {before}; now: {now}")
    for file in stage.files:
        noted = files.get(file)  # a mark from before files were noted knows of none
        if noted is not None and noted != (now := hash_of(file)):
            raise ArgumentError(
                f"{stage.name} was done with another {file}: {remedy}, or put that file back; then: SHA-256 {noted}; "
                f"now: {now}"
            )
    if stage.command[0] != "train" and "--out" in stage.command:
        run = out / stage.command[stage.command.index("--out") + 1]
        if not (run / "run.json").exists():
            raise ArgumentError(f"{stage.name} was done, and {run} is gone: put it back, or remove {path}")
    return True


def _read(path: Path) -> tuple[str, dict[str, str]]:
    """The command of a mark, and the SHA-256 of each file that it read."""
    try:
        content = json.loads(read_regular(path, LARGEST))
        command, files = content["command"], content.get("files", {})
        if fits(command, str) and fits(files, dict) and all(fits(text, str) for pair in files.items() for text in pair):
            return command, files
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise ArgumentError(f"expected what is known of a stage in {path}, got something else: remove it and what it made")


def mark(stage: Stage, seconds: float, files: dict[str, str], out: Path) -> None:
    """Note that a stage has ended well. files: the SHA-256 that each of its files had when it began."""
    path = place(out, "stages", stage, ".json")
    text = json.dumps({"command": command_line(stage), "seconds": round(seconds, 1), "files": files}) + "\n"
    write_whole(path, lambda part: part.write_text(text))


def hash_of(file: str) -> str:
    """SHA-256 of a file, which is read again only once it has changed: many stages have the same files."""
    now = regular_file(file).stat()
    return _hash(file, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache
def _hash(file: str, *_: int) -> str:
    return checksum(Path(file))


def place(out: Path, kind: str, stage: Stage, suffix: str) -> Path:
    """Where a file of a stage is, in a folder that is there."""
    folder = out / kind
    refuse_link(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / (file_name(stage.name) + suffix)
