"""What is known of a stage that was done: its command, the user's files that it read, and the stages that it needed."""

import json
from functools import lru_cache
from pathlib import Path

from anisocert.durable import refuse_link, write_whole
from anisocert.errors import ArgumentError
from anisocert.inputs import checksum, read_regular, regular_file
from anisocert.options import fits
from anisocert.reproduce.stages import Stage, file_name
from anisocert.runs.files import ATTACKED, DESCRIPTION
from anisocert.shell import shell_join

LARGEST = 1 << 20  # bytes of a mark


def command_line(stage: Stage) -> str:
    """A stage's command, to be typed in the experiment's folder."""
    return shell_join(("anisocert", *stage.command))


def is_done(stage: Stage, out: Path) -> bool:
    """Whether a stage has ended well; an error if it was by another command, or with other files of the user's.

    An error too if a stage that it needs was done again since then, or its own run or attack is gone. A trained network
    may be gone: it is large, and its runs stay what they are.
    """
    path = place(out, "stages", stage, ".json")
    if not path.exists():
        return False
    command, files, needs = _read(path)
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
    marks = marks_of(stage, out)
    for need in stage.needs:
        if need in needs and needs[need] != marks.get(need):  # a mark from before these were noted knows of none
            raise ArgumentError(f"{stage.name} was done before {need}, which it needs, was removed or redone: {remedy}")
    made = None
    if stage.command[0] == "attack":
        made = out / stage.command[1] / ATTACKED
    elif stage.command[0] != "train" and "--out" in stage.command:
        made = out / stage.command[stage.command.index("--out") + 1] / DESCRIPTION
    if made is not None and not made.exists():
        raise ArgumentError(f"{stage.name} was done, and {made} is gone: put it back, or remove {path}")
    return True


def _read(path: Path) -> tuple[str, dict[str, str], dict[str, str]]:
    """The command of a mark, and the SHA-256 of each file that it read and of the mark of each stage that it needed."""
    try:
        content = json.loads(read_regular(path, LARGEST))
        command, files, needs = content["command"], content.get("files", {}), content.get("needs", {})
        texts = [command, *files, *files.values(), *needs, *needs.values()]
        if fits(files, dict) and fits(needs, dict) and all(fits(text, str) for text in texts):
            return command, files, needs
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise ArgumentError(f"expected what is known of a stage in {path}, got something else: remove it and what it made")


def mark(stage: Stage, seconds: float, files: dict[str, str], needs: dict[str, str], out: Path) -> None:
    """Note that a stage has ended well. files, needs: the SHA-256 of its files, and `marks_of` it, when it began."""
    path = place(out, "stages", stage, ".json")
    # To all digits, so that a stage that is done again has another mark.
    content = {"command": command_line(stage), "seconds": seconds, "files": files, "needs": needs}
    write_whole(path, lambda part: part.write_text(json.dumps(content) + "\n"))


def marks_of(stage: Stage, out: Path) -> dict[str, str]:
    """The SHA-256 of the mark of each stage that a stage needs, as far as these are done."""
    paths = {need: out / "stages" / f"{file_name(need)}.json" for need in stage.needs}
    return {need: hash_of(str(path)) for need, path in paths.items() if path.exists()}


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
