"""The file: what is in it, what is refused, what is dropped."""

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
from contextlib import closing, nullcontext
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from anisocert.errors import AnisocertError, ArgumentError
from anisocert.geometry import Region
from anisocert.memory import BrokenMemoryError, Memory
from anisocert.memory._admitting import admit
from anisocert.memory.sqlite import _file as sqlite_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.sqlite"


def test_every_field_survives(path, proposal):
    proposals = [
        proposal(0, 0, [[0.1, 1 / 3]], [[0.7, 2.0]]),
        proposal(1, 1, np.float32([[9, 0.1]]), 1 / 3),
        proposal(2, 2, [[-9, 1e-200]], [[1e-3, 1e5]]),
    ]
    with Memory.open(path) as memory:
        answers = memory.admit_all(proposals)
    with Memory.open(path) as memory:
        for answer, stored in zip(answers, memory.entries(), strict=True):
            for field in fields(stored):
                before, after = getattr(answer, field.name), getattr(stored, field.name)
                if field.name == "theta":
                    assert np.array_equal(before, after)
                    assert before.dtype == after.dtype
                elif field.name != "x":
                    assert before == after, field.name
    with sqlite3.connect(path) as db:
        row = db.execute("SELECT id, prediction, votes, alpha, method, model_hash, note, time FROM entries").fetchone()
        assert row[:7] == (0, 0, 1000, 0.001, "anisotropic", "model", "kept")
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_one_coordinate_and_two(proposal):
    # Lengths at which semi-axes and a ball's radius are told apart by their bytes.
    for d in (1, 2):
        for unit in (0.5, 1 / 3):
            memory = Memory()
            wanted = [
                memory.admit(proposal(0, 0, np.full(d, unit), 1 / 7)),
                memory.admit(proposal(1, 0, np.ones(d), 2.0)),
            ]
            assert [c.region for c in memory.entries()] == [c.region for c in wanted]


def test_only_the_owner_may_read(path, proposal):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0


def test_reset_drops_the_raw_inputs(path, proposal):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((20, 500)).astype(np.float32)
    with Memory.open(path) as memory:
        for i, x in enumerate(inputs):
            memory.admit(proposal(i, 0, x, 1.0))
        found = b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert inputs[3].tobytes()[:64] in found
        memory.reset()
        assert len(memory) == 0
        for file in path.parent.iterdir():
            assert not any(x.tobytes()[:64] in file.read_bytes() for x in inputs)
        assert memory.admit(proposal(0, 0, [1.0], [1.0], model_hash="next")).note == "kept"


def test_reset_says_when_a_reader_keeps_the_raw_inputs(path, proposal, monkeypatch):
    monkeypatch.setattr(sqlite_file, "WAIT_SECONDS", 0.1)
    x = np.arange(500.0)
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, x, 1.0))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM entries").fetchone()
            with pytest.raises(AnisocertError, match="its old content may still be in it, or in its log"):
                memory.reset()
        assert len(memory) == 0
        memory.reset()
        assert not any(x.astype("<f4").tobytes()[:64] in file.read_bytes() for file in path.parent.iterdir())


def test_policy_stays_with_the_promises(path, proposal):
    with Memory.open(path, "abstain") as memory:
        assert memory.policy == "abstain"
    with Memory.open(path) as memory:
        assert memory.policy == "abstain"
    with Memory.open(path, "inherit") as first:  # nothing promised yet
        first.admit(proposal(0, 0, [0, 0], [1, 1]))
        with pytest.raises(ArgumentError, match=r"'inherit'.*got 'abstain'.*reset"):
            Memory.open(path, "abstain")
        first.reset()
        with Memory.open(path, "worst-case") as second:
            assert second.policy == "worst-case"
            with pytest.raises(ArgumentError, match="open it again"):
                first.lookup([0.0, 0.0])


def test_refuses_what_is_no_memory(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(ArgumentError, match="another database"):
        Memory.open(path)
    path.write_bytes(b"not a database at all, but longer than its header" * 100)
    with pytest.raises(BrokenMemoryError, match="not a memory"):
        Memory.open(path)
    for error in (OSError, ArgumentError):
        with pytest.raises(error, match=r"a folder that exists, got .*memory\.sqlite: mkdir -p .*nowhere$"):
            Memory.open(path.parent / "nowhere" / "memory.sqlite")


@pytest.mark.parametrize(("version", "what"), [(1, r"format 1: it did not count.*memory add RUN"), (3, "format 3$")])
@pytest.mark.parametrize("read_only", [False, True])
def test_refuses_other_formats(path, version, what, read_only):
    Memory.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(ArgumentError, match=what):
        Memory.open(path, read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_another_layout_of_this_format_has_a_remedy(path, read_only):
    Memory.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE submissions RENAME COLUMN reserved TO slot")
    with pytest.raises(BrokenMemoryError, match=r"table submissions\. .*another version .*memory add RUN --memory NEW"):
        Memory.open(path, read_only=read_only)


@pytest.mark.parametrize("name", ["", ":memory:", "file:x.sqlite", "file::memory:?cache=shared"])
@pytest.mark.parametrize("read_only", [False, True])
def test_refuses_names_that_sqlite_takes_for_something_else(tmp_path, monkeypatch, name, read_only):
    """A memory that acknowledges promises and keeps none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=r"expected (the path of a file|a path or URL) for the memory"):
        Memory.open(name, read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_refuses_what_is_no_file(tmp_path, read_only):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for path, what in ((tmp_path, "a folder"), (tmp_path / "fifo", "a FIFO"), (tmp_path / "link", "a link to nothing")):
        with pytest.raises(ArgumentError, match=what):
            Memory.open(path, read_only=read_only)
    with pytest.raises(ArgumentError, match="a device"):
        Memory.open("/dev/zero", read_only=read_only)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_journal_that_names_another_file_removes_nothing(path, proposal, tmp_path, read_only):
    """SQLite removes what the end of a journal names, as the journal of a transaction over several databases."""
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0.0, 0.0], [1.0, 1.0]))
    victim, magic = tmp_path / "thesis.txt", bytes.fromhex("d9d505f920a163d7")
    victim.write_text("years of work")
    name, page = str(victim).encode(), 16384
    header = magic + struct.pack(">IIIII", 0, 0x1234, path.stat().st_size // page, 512, page)
    trailer = struct.pack(">I", 0x40000000 // page + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(header.ljust(512, b"\0") + trailer)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)  # SQLite looks beside what it leads to
    for opened in (path, link):
        with pytest.raises(ArgumentError, match="got one that names another file, which SQLite would remove"):
            Memory.open(opened, read_only=read_only)
    assert victim.exists()
    journal.write_bytes(journal.read_bytes()[:-1])  # what a transaction that was cut short leaves, or rubbish
    with Memory.open(path) as memory:
        assert (len(memory), victim.exists()) == (1, True)


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_refuses_what_is_no_file_beside_it(path, suffix):
    Memory.open(path).close()
    beside = path.with_name(path.name + suffix)
    beside.unlink(missing_ok=True)
    os.mkfifo(beside)
    with pytest.raises(ArgumentError, match=rf"at .*{suffix}, got a FIFO: remove it"):
        Memory.open(path)


def test_reading_makes_nothing(path):
    with pytest.raises(ArgumentError, match="does not exist"):
        Memory.open(path, read_only=True)
    assert not path.exists()
    path.touch()
    with pytest.raises(ArgumentError, match="expected a certificate memory, got an empty file"):
        Memory.open(path, read_only=True)
    assert path.stat().st_size == 0
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(ArgumentError, match="another database"):
        Memory.open(path, read_only=True)


def test_reading_changes_nothing(path, proposal):
    with Memory.open(path, "abstain") as memory:
        memory.admit(proposal(0, 1, [0, 0], [1, 1]))
    content = path.read_bytes()
    with Memory.open(path, read_only=True) as memory:
        assert (len(memory), memory.lookup([0.5, 0.0]).prediction, memory.policy) == (1, 1, "abstain")
        assert memory.check().ok
        for change in (
            lambda: memory.admit(proposal(0, 1, [0, 0], [1, 1])),
            lambda: memory.reserve([1], 0, [[0.0, 0.0]]),
            memory.reset,
        ):
            with pytest.raises(ArgumentError, match=r"opened for writing, got .* opened read-only"):
                change()
        assert content == path.read_bytes()
        with Memory.open(path) as other:  # and it sees what others store
            other.admit(proposal(1, 0, [9, 0], [1, 1]))
        assert memory.lookup([9.0, 0.0]).prediction == 0
    with pytest.raises(ArgumentError, match="'abstain', under which"):
        Memory.open(path, "inherit", read_only=True)
    with pytest.raises(ArgumentError, match="opened for writing"):
        Memory.open(path, lifetime=0.1, read_only=True)


def as_nobody(work):
    """Do something in a process that may not write where only root may: what it returns, or its error, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setegid(65534)
                os.seteuid(65534)
            told = str(work())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read()


def test_reading_where_nothing_may_be_written(proposal):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # others may enter it, unlike pytest's own
        folder = Path(name)
        path = folder / "memory.sqlite"
        with Memory.open(path) as memory:
            memory.admit(proposal(0, 1, [0, 0], [1, 1]))
        path.chmod(0o444)
        folder.chmod(0o555)

        def look():
            with Memory.open(path, read_only=True) as memory:
                return memory.lookup([0.5, 0.0]).prediction, memory.check().ok, len(list(folder.iterdir()))

        def look_again():
            with Memory.open(path, read_only=True) as memory:
                os.seteuid(os.getuid())
                os.utime(path)
                return memory.lookup([0.5, 0.0])

        assert as_nobody(look) == "(1, True, 1)"
        assert "it needs a user who may write the file, and into its folder" in as_nobody(lambda: Memory.open(path))
        assert "changed while it was open" in as_nobody(look_again)
        folder.chmod(0o755)


def test_who_begins_to_write_as_a_file_is_opened_as_unchanging_ends_the_reading(path, proposal, monkeypatch):
    Memory.open(path).close()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    refuse, writers = sqlite_file.refuse_foreign, []

    def meanwhile(file):
        if not writers:
            writers.append(Memory.open(path))
            writers[0].admit(proposal(0, 0, [0, 0], [1, 1]))
        refuse(file)

    monkeypatch.setattr(sqlite_file, "refuse_foreign", meanwhile)
    with pytest.raises(AnisocertError, match="changed while it was open"), Memory.open(path, read_only=True) as memory:
        memory.lookup([0.0, 0.0])  # which was None, for as long as the log was not written into the file
    with Memory.open(path, read_only=True) as memory:
        assert memory.lookup([0.0, 0.0]).prediction == 0
    writers[0].close()


def test_a_second_name_would_be_a_second_memory(path, proposal, monkeypatch):
    """As of a copy made by cp -l: a log lies beside each name, and both promised one point to two classes."""
    monkeypatch.setattr(sqlite_file, "CREATED_SECONDS", 0.05)
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        path.with_name("second").hardlink_to(path)
        for name in ("memory.sqlite", "second"):
            for options in ({}, {"read_only": True}):
                with pytest.raises(ArgumentError, match=r"with one name, got .*, a file with 2 \(hard links\)"):
                    Memory.open(path.with_name(name), **options)
        assert memory.lookup([0.0, 0.0]).prediction == 0
        path.with_name("second").unlink()
        Memory.open(path).close()


def test_a_file_that_is_mounted_without_its_folder_is_refused(tmp_path, monkeypatch):
    """As into a container: the log lies in the container then, which nobody else sees, and ends with it."""
    path, mounts = tmp_path / "my memory.sqlite", tmp_path / "mounts"
    for mounted, alone in ((tmp_path, False), (path, True)):
        place = str(mounted).replace(" ", "\\040")
        mounts.write_text(f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {place} rw shared:1 - tmpfs none rw\n")
        monkeypatch.setattr(sqlite_file, "MOUNTS", mounts)
        for options in ({}, {"read_only": True}):
            with pytest.raises(ArgumentError, match="mounted alone") if alone else nullcontext():
                Memory.open(path, **options).close()


def test_reading_by_a_link_where_nothing_may_be_written(proposal):
    """What a log holds is read also where the reader may not write beside the link that leads to its memory."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder, data = Path(name), Path(name) / "data"
        folder.chmod(0o755)
        data.mkdir()
        data.chmod(0o777)
        (folder / "link").symlink_to(data / "memory.sqlite")
        if (child := os.fork()) == 0:  # which leaves its log behind
            try:
                Memory.open(data / "memory.sqlite").admit(proposal(0, 1, [0, 0], [1, 1]))
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        for file in data.iterdir():
            file.chmod(0o666)
        assert (data / "memory.sqlite-wal").exists()

        def look():
            with Memory.open(folder / "link", read_only=True) as memory:
                return memory.lookup([0.5, 0.0]).prediction

        assert as_nobody(look) == "1"


def test_notices_that_its_file_is_gone(path, proposal):
    memory = Memory.open(path)
    memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(AnisocertError, match="removed"):
        memory.admit(proposal(1, 0, [5, 0], [1, 1]))
    Memory.open(path).close()
    with pytest.raises(AnisocertError, match="replaced"):
        memory.lookup([0.0, 0.0])


@pytest.mark.parametrize("kept", [True, False])
def test_a_memory_that_was_closed_is_not_called_damaged(path, proposal, kept):
    with Memory.open(path) if kept else Memory() as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    with pytest.raises(AnisocertError, match=r"cannot use the memory .*: it was closed: use one") as raised:
        memory.lookup([0.0, 0.0])
    assert not isinstance(raised.value, BrokenMemoryError)


@pytest.mark.parametrize("name", ["memory.sqlite", "link"])
def test_nothing_is_acknowledged_into_a_log_that_was_removed(path, proposal, name):
    """As where a backup is put in place while the file is in use: who is killed then loses what it acknowledged."""
    path.with_name("link").symlink_to(path)
    Memory.open(path).close()
    with Memory.open(path.with_name(name)) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink()
        for ask in (lambda: memory.admit(proposal(1, 0, [5, 0], [1, 1])), lambda: memory.lookup([0.0, 0.0])):
            with pytest.raises(AnisocertError, match="-wal was removed or replaced while the memory was open"):
                ask()
    with Memory.open(path) as memory:
        assert len(memory) == 1


def test_a_backup_copied_over_a_memory_in_use_is_to_be_copied_again(path, proposal):
    """Whoever has it open writes the log into the backup when they end, which is neither of the two then."""
    backup = path.with_name("backup")
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    shutil.copyfile(path, backup)
    with Memory.open(path) as memory:
        memory.admit(proposal(1, 0, [5, 0], [1, 1]))
        subprocess.run(["cp", backup, path], check=True)  # opened by this process, it would lose SQLite's locks
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink()
        with pytest.raises(AnisocertError, match="if a backup was copied over the memory, copy it there once more"):
            memory.admit(proposal(2, 0, [0, 5], [1, 1]))
    assert path.read_bytes() != backup.read_bytes()
    shutil.copyfile(backup, path)
    with Memory.open(path) as memory:
        assert len(memory) == 1
        assert memory.check().ok


def test_a_file_that_cannot_be_looked_at_is_an_error_of_ours(path):
    """As where its folder may not be entered for a moment: a service tells errors of other kinds as its own failure."""
    inside = path.parent / "folder" / "memory.sqlite"
    inside.parent.mkdir()
    with Memory.open(inside) as memory:
        away = inside.parent.rename(path.parent / "away")
        inside.parent.touch()
        with pytest.raises(AnisocertError, match=r"cannot use the memory .*memory.sqlite: Not a directory"):
            memory.find(0)
        inside.parent.unlink()
        away.rename(inside.parent)
        assert memory.find(0) is None


def test_nothing_is_acknowledged_into_a_file_that_was_replaced_meanwhile(path, proposal, monkeypatch):
    backup = path.with_name("backup")
    Memory.open(backup).close()

    def replacing(*arguments):
        backup.replace(path)
        return admit(*arguments)

    monkeypatch.setattr("anisocert.memory.memory.admit", replacing)
    with Memory.open(path) as memory, pytest.raises(AnisocertError, match="replaced while it was open: put it back"):
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))


def test_says_when_the_file_is_locked(path, proposal, monkeypatch):
    monkeypatch.setattr(sqlite_file, "WAIT_SECONDS", 0.1)
    with Memory.open(path) as memory, sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AnisocertError, match="locked"):
            memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        assert memory.lookup([0.0, 0.0]) is None  # reading does not wait
        other.execute("ROLLBACK")
        assert memory.admit(proposal(0, 0, [0, 0], [1, 1])).note == "kept"


def test_damaged_entry(path, proposal, refit_memory):
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0, 0], [1, 2, 3]))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET axes = x'0011'")
    with pytest.raises(BrokenMemoryError, match="row 1 of its entries is not what was written"):
        Memory.open(path)
    refit_memory(path)
    with pytest.raises(BrokenMemoryError, match="damaged"):
        Memory.open(path)


def test_inputs_are_what_float32_holds(path, proposal):
    """`certify` sees float32: were `lookup` to take what it is given, the two could be about different inputs."""
    with Memory.open(path) as memory:
        good = proposal(0, 1, [0.5, 0.1], [1, 1])
        memory.admit(good)
        assert memory.lookup(np.float32([0.5, 0.1])).prediction == 1
        for call in (memory.lookup, memory.covers, memory.attempts):
            with pytest.raises(ArgumentError, match="float32 holds exactly"):
                call([0.5, 0.1])
            with pytest.raises(ArgumentError, match="integers"):
                call([0, 0])
        inexact = Region([0.5, 0.1], [1, 1], 2)
        with pytest.raises(ArgumentError, match="the centre of certificate 1 that float32 holds exactly"):
            memory.admit(replace(good, id=1, region=inexact))
        with pytest.raises(ArgumentError, match="float32 holds exactly"):
            memory.admit(replace(proposal(2, 0, [0, 0]), x=np.array([0.5, 0.1])))
        assert len(memory) == 1


def test_find_and_covers(path, proposal):
    with Memory.open(path) as memory:
        assert (memory.find(0), memory.covers([0.0, 0.0])) == (None, [])
        memory.admit(proposal(3, 1, [0, 0], [1, 1]))
        memory.admit(proposal(4, 1, [0.5, 0], [1, 2]))
        memory.admit(proposal(5, 0, [2.5, 0], [2, 1]))
        found = memory.find(5)
        assert (found.id, found.note, found.prediction) == (5, "shrunk", 0)
        assert memory.find(6) is None
        first, second = memory.covers([0.25, 0.0])
        assert (first.id, second.id) == (3, 4)
        assert first.region.axes == pytest.approx([0.75, 0.75])
        assert second.region.axes == pytest.approx([0.75, 1.5])
        border, inner = memory.covers([1.0, 0.0])
        assert (border.id, border.region, inner.region.radius) == (3, None, pytest.approx(0.5))
        assert memory.covers([9.0, 9.0]) == []


def test_expects_the_network_that_it_was_made_with(path, proposal):
    probe = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)
    with Memory.open(path) as memory:
        memory.expect("another, before anything was promised", -probe)
        memory.expect("model", probe)
        memory.expect("model", probe + np.float32(1e-5))
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
    for read_only in (False, True):
        with Memory.open(path, read_only=read_only) as memory:
            memory.expect("model", probe)
            for other in (probe[::-1], probe[:2]):
                with pytest.raises(ArgumentError, match="answers differently under the same hash"):
                    memory.expect("model", other)
            with pytest.raises(ArgumentError, match="expected model model"):
                memory.expect("other", probe)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE head SET probe = ?", (probe[::-1].tobytes(),))
    db.close()
    with pytest.raises(BrokenMemoryError, match="its head"):
        Memory.open(path)
    with Memory.open(path.with_name("next")) as memory:
        memory.expect("model", probe)
        memory.reset()
        memory.expect("other", probe[::-1])


def test_export_is_private_and_replaces_only_its_like(path, proposal, tmp_path):
    out = tmp_path / "out.npz"
    with Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0, 0], [1, 1]))
        for _ in range(2):
            assert memory.export(out) == 1
            assert out.stat().st_mode & 0o777 == 0o600
        for content in (b"thesis", b"\0"):
            out.write_bytes(content)
            with pytest.raises(ArgumentError, match=r"anisocert recognises as its own, got another.*--force"):
                memory.export(out)
            assert out.read_bytes() == content
        np.savez(out, x=np.zeros(3))
        with pytest.raises(ArgumentError, match="got another"):
            memory.export(out)
        assert memory.export(out, force=True) == 1
        with np.load(out) as arrays:
            assert "center" in arrays


def test_stats_and_export(path, proposal, tmp_path):
    with Memory.open(path) as memory:
        assert memory.stats().entries == 0
        assert memory.export(tmp_path / "empty.npz") == 0
        memory.admit(proposal(0, 0, [0, 0.5], [1, 1]))
        memory.admit(proposal(1, 2, [1.5, 0.5], [1, 3]))
        memory.admit(proposal(2, 2, [20, 1 / 3], 2.0))
        found = memory.stats()
        assert (found.entries, found.classes, found.notes) == (3, {0: 1, 2: 2}, {"kept": 2, "shrunk": 1})
        assert (found.norm, found.shape, found.model_hash, found.policy) == (2, (2,), "model", "inherit")
        assert found.created <= found.newest
        assert found.file_bytes > 0
        assert found.median_radius == 1.0
        assert (found.submissions, found.lifetime, found.spent) == (3, None, 0.0)
        assert memory.export(tmp_path / "all.npz") == 3
        assert memory.export(tmp_path / "shared.npz", inputs=False) == 3
        stored = list(memory.entries())
    with np.load(tmp_path / "all.npz") as arrays:
        assert np.array_equal(arrays["center"], [c.region.center for c in stored])
        assert np.array_equal(arrays["axes"], [c.region.axes for c in stored])
        assert arrays["prediction"].tolist() == [0, 2, 2]
        assert arrays["note"].tolist() == ["kept", "shrunk", "kept"]
        assert "model" in str(arrays["head"])
    with np.load(tmp_path / "shared.npz") as arrays:
        assert "center" not in arrays


@pytest.mark.parametrize("application", [0, 7])
def test_nothing_appears_beside_a_foreign_database(tmp_path, application):
    """Whoever reads a run opens the file that it names."""
    path = tmp_path / "browser.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {application}")
        db.execute("CREATE TABLE history (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match="expected a certificate memory, got another database"):
        Memory.open(path, read_only=True)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_memory_is_known_while_all_of_it_is_in_its_log(path, proposal):
    with Memory.open(path) as writer:
        writer.admit(proposal(0, 0, [0, 0], [1, 1]))
        with Memory.open(path, read_only=True) as reader:
            assert len(reader) == 1
        # The reader has come and gone without the locks of the writer: nobody else has the file alone.
        alone = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode = DELETE')"
        done = subprocess.run([sys.executable, "-c", alone, str(path)], capture_output=True, text=True, check=False)
        assert "database is locked" in done.stderr
        writer.admit(proposal(1, 1, [9, 0], [1, 1]))
        assert writer.check().ok


def test_no_number_of_a_schema_hides_a_trigger(path, proposal):
    """One that ignores what is inserted would lose promises that were acknowledged."""
    Memory.open(path).close()
    with sqlite3.connect(path) as db:
        for table in ("entries", "submissions", "head"):
            db.execute(f"CREATE TRIGGER no_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
        db.execute("PRAGMA schema_version = -1")
    db.close()
    with pytest.raises(BrokenMemoryError, match="got others: trigger no_entries"), Memory.open(path) as memory:
        memory.admit(proposal(0, 0, [0.0], [1.0]))


def test_bytes_of_an_input_of_imagenets_size(path, proposal):
    """On disk 16 per value (centre 4, theta 4, semi-axes 8), in memory 8; a ball has one number for its semi-axes."""
    rng, shape = np.random.default_rng(0), (3, 224, 224)
    d, count = 150_528, 3
    with Memory.open(path) as memory:
        for i in range(count):
            memory.admit(proposal(i, i, rng.random(shape, np.float32), rng.uniform(0.1, 0.2, shape)))
        shaped = memory.stats()
        memory.admit(proposal(count, 0, rng.random(shape, np.float32) + 1, 0.1))
        ball = memory.stats()
    assert 16 * d * count < path.stat().st_size
    assert path.stat().st_size < 16 * d * count + 8 * d + 2e5
    assert 8 * d * count <= shaped.index_bytes < 8 * d * count + 1e5
    assert ball.index_bytes - shaped.index_bytes < 4 * d + 1e4
    with Memory.open(path, read_only=True) as memory:
        assert memory.lookup(rng.random(shape, np.float32) + 2) is None
        assert memory.find(1).region.center.shape == shape
