"""Files that are complete or absent, and locks that end with their process."""

import multiprocessing
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anisocert.durable import ABANDONED, BusyError, claim, locked, write_whole
from anisocert.errors import ArgumentError


def put(path: Path, text: str, **options: bool) -> None:
    write_whole(path, lambda part: part.write_text(text), **options)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_whole_or_not_there(tmp_path):
    put(tmp_path / "a", "one")

    def fails(part: Path) -> None:
        part.write_text("two")
        assert (tmp_path / "a").read_text() == "one"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(tmp_path / "a", fails)
    assert (tmp_path / "a").read_text() == "one"
    put(tmp_path / ("n" * 255), "a name as long as names can be")
    assert names(tmp_path) == {"a", "n" * 255}


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*nowhere/a'"):
        put(tmp_path / "nowhere" / "a", "")

    def full(part: Path) -> None:
        raise OSError(28, "what pyarrow says", str(part))

    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        write_whole(tmp_path / "a", full)


def test_who_may_read_it(tmp_path):
    before = os.umask(0o022)
    try:
        put(tmp_path / "open", "")
        put(tmp_path / "private", "", private=True)
        (tmp_path / "open now").write_text("")
        put(tmp_path / "open now", "", private=True)
        (tmp_path / "kept").write_text("")
        (tmp_path / "kept").chmod(0o440)
        put(tmp_path / "kept", "what only some could read, only they can")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"open": 0o644, "private": 0o600, "open now": 0o600, "kept": 0o440}
    seen = []
    write_whole(tmp_path / "private", lambda part: seen.append(stat.S_IMODE(part.stat().st_mode)), private=True)
    write_whole(tmp_path / "kept", lambda part: seen.append(stat.S_IMODE(part.stat().st_mode)))
    assert seen == [0o600, 0o600]


def test_the_temporary_name_is_another_each_time(tmp_path):
    """A link under a name that can be foreseen would have the file behind it written."""
    seen: list[str] = []
    for _ in range(3):
        write_whole(tmp_path / "report", lambda part: seen.append(part.name))
    assert len(set(seen)) == 3
    assert not any("report" in name for name in seen)


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "fifo", "folder", "socket"])
def test_what_is_not_a_regular_file_is_never_replaced(tmp_path, kind):
    import socket

    path, other = tmp_path / "out", tmp_path / "other"
    other.write_text("not to be touched")
    if kind == "socket":
        opened = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(tmp_path)  # names of sockets are short
        opened.bind("out")
        os.chdir(here)
        opened.close()
    else:
        {
            "link": lambda: path.symlink_to(other), "dangling": lambda: path.symlink_to(tmp_path / "nothing"),
            "loop": lambda: path.symlink_to(path), "fifo": lambda: os.mkfifo(path), "folder": path.mkdir,
        }[kind]()  # fmt: skip
    before = path.lstat()
    for write in (put, lambda path, _: claim(path), lambda path, _: claim(path, force=True)):
        with pytest.raises(ArgumentError, match=r"expected a regular file, or nothing, at .*/out, got a "):
            write(path, "")
    assert path.lstat().st_mode == before.st_mode
    assert names(tmp_path) == {"out", "other"}
    assert other.read_text() == "not to be touched"


def test_devices_are_never_replaced():
    with pytest.raises(ArgumentError, match="got a device"):
        claim(Path("/dev/null"), force=True)
    with pytest.raises(ArgumentError, match="got a device"):
        put(Path("/dev/null"), "")


def test_a_file_that_is_not_ours_needs_force(tmp_path):
    for mine in ("my thesis", "uid,label,answer\n", "about anisocert memory", "x" * 10_000):
        (tmp_path / "a").write_text(mine)
        with pytest.raises(ArgumentError, match=r"expected nothing at .*/a, .* or replace it with --force"):
            claim(tmp_path / "a")
        claim(tmp_path / "a", force=True)
    for ours in ("", "id,label,answer\n0,1,1\n", "x" * 9000 + '<meta name="generator" content="anisocert 1">'):
        (tmp_path / "a").write_text(ours)
        claim(tmp_path / "a")
    claim(tmp_path / "nothing")


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path):
    old, young, living = (tmp_path / f".anisocert-{name}.part" for name in ("old", "young", "living"))
    for path in (old, young, living):
        path.write_text("half")
    for path in (old, living):
        os.utime(path, (0, time.time() - ABANDONED - 10))
    with locked(living):
        put(tmp_path / "a", "")
    assert names(tmp_path) == {"a", young.name, living.name}


def write_often(path: Path, letter: str) -> None:
    for _ in range(60):
        put(path, letter * 5000)


def test_many_writers_of_one_file(tmp_path):
    """The last one wins, with a whole file."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_often, args=(tmp_path / "a", letter)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / "a").exists():
            found = (tmp_path / "a").read_text()
            assert len(found) == 5000
            assert len(set(found)) == 1
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert names(tmp_path) == {"a"}


HOLD = """
import sys, time
from pathlib import Path
from anisocert.durable import locked
with locked(Path(sys.argv[1])) as number:
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_ends_with_its_process(tmp_path):
    path = tmp_path / "new" / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BusyError, match=r"expected .*lock to be free"), locked(path, wait=False):
        pass
    with pytest.raises(BusyError, match=r"^not now$"), locked(path, wait=False, busy="not now"):
        pass
    holder.kill()
    with locked(path):
        holder.wait()


def test_a_lock_that_is_removed_while_it_is_awaited(tmp_path):
    """The old file's lock is nobody's any more: who comes later would hold that of a new one."""
    path = tmp_path / "lock"
    with locked(path):
        waiting = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        path.unlink()
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "held\n"
    with pytest.raises(BusyError), locked(path, wait=False):
        pass
    waiting.kill()
    waiting.wait()


def test_a_child_that_inherits_a_lock_holds_it(tmp_path):
    path = tmp_path / "lock"
    with locked(path) as number:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(number,))
    with pytest.raises(BusyError), locked(path, wait=False):
        pass
    child.kill()
    child.wait()
    with locked(path, wait=False):
        pass


def test_a_lock_is_not_taken_through_a_link(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("not to be touched")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "fifo")
    for name in ("dangling", "link", "fifo"):
        with pytest.raises(ArgumentError, match=f"or nothing, at .*{name}, got a"), locked(tmp_path / name):
            pass
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "file").read_text() == "not to be touched"


def test_a_lock_leaves_what_is_in_its_file(tmp_path):
    (tmp_path / "lock").write_text("somebody's")
    with locked(tmp_path / "lock"):
        pass
    assert (tmp_path / "lock").read_text() == "somebody's"


def test_who_may_hold_a_lock(tmp_path):
    """Whoever may open its file."""
    before = os.umask(0o022)
    try:
        for name, private, mode in (("open", False, 0o644), ("private", True, 0o600), ("open", True, 0o600)):
            with locked(tmp_path / name, private=private) as number:
                assert stat.S_IMODE(os.fstat(number).st_mode) == mode
    finally:
        os.umask(before)


def test_a_lock_is_held_against_other_threads_too(tmp_path):
    with locked(tmp_path / "lock"), pytest.raises(BusyError), locked(tmp_path / "lock", wait=False):
        pass


WITHOUT_POSIX = """
import os, sys
import filelock, pyarrow.parquet, scipy.stats, torch  # these have their own ways for each system
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "fchmod", "getuid", "geteuid", "uname", "fork"):
    delattr(os, name)
os.supports_dir_fd = set()
from pathlib import Path
import anisocert.durable
from anisocert.durable import locked, write_whole
from anisocert.inputs import checksum, opened_regular
from anisocert.runs import files
from anisocert.memory import Memory
from anisocert.reproduce import running
anisocert.durable.WINDOWS = True
folder = Path(sys.argv[1])
for _ in range(2):
    write_whole(folder / "a", lambda part: part.write_text("whole"), private=True)
with locked(folder / "lock"), opened_regular(folder / "a", below=folder) as file:
    print(file.read(), len(checksum(folder / "a")))
with Memory.open(folder / "memory.sqlite") as memory:
    print(len(memory), sorted(path.name for path in folder.iterdir()))
"""


def test_without_what_only_posix_has(tmp_path):
    """As far as one can tell on another system: names that Windows lacks are not needed."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX, str(tmp_path)], capture_output=True, text=True)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "b'whole' 64"
    assert second.startswith("0 ['a', 'lock', 'memory.sqlite'")
