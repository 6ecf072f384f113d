"""What asyncio says goes to the log without the exceptions and arguments that it repeats, and not once per second."""

import asyncio
import errno
import gc
import json
import logging
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from anisocert.errors import AnisocertError
from anisocert.memory.sqlite._file import explained
from anisocert.service import _lines
from anisocert.service._lines import Lines
from anisocert.service._logging import OTHERS, JsonLines, Sparing


def fail(value):
    raise ValueError(f"input {value}")


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (lambda loop: loop.call_soon(fail, 0.625), "Exception in callback fail"),
        (lambda loop: loop.create_future().set_exception(ValueError("0.625")), "Future exception was never retrieved"),
    ],
)
def test_no_value_of_an_input(caplog, callback, words, run):
    async def main():
        callback(asyncio.get_running_loop())
        gc.collect()
        await asyncio.sleep(0)

    run(main())
    (record,) = [one for one in caplog.records if one.name == "asyncio" and one.levelno >= logging.ERROR]
    assert "0.625" in record.getMessage()
    line = JsonLines().format(record)
    assert "0.625" not in line
    assert json.loads(line)["event"] == words
    assert json.loads(line)["error"] == "ValueError"


def test_what_the_system_says_is_told_of_an_error():
    """A full disk is the operator's to mend, and `AnisocertError` does not tell of it."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(AnisocertError) as raised, explained(None):
            db.execute("CREATE TABLE t (x)")
    try:
        raise ValueError("0.625") from OSError(errno.ENOSPC, "0.625")
    except ValueError as error:
        other = error
    for error, said in (
        (raised.value, ("AnisocertError", ["OperationalError SQLITE_FULL"])),
        (other, ("ValueError", ["OSError ENOSPC"])),
        (KeyError("0.625"), ("KeyError", None)),
    ):
        record = logging.LogRecord("anisocert", logging.ERROR, "f", 1, "failed", (), (type(error), error, None))
        line = JsonLines().format(record)
        assert (json.loads(line)["error"], json.loads(line).get("because")) == said
        assert "0.625" not in line


def test_what_the_databases_client_says_is_a_line_too():
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    assert psycopg.connection.logger.name in OTHERS
    said = "error ignored terminating %r: %s", (object(), ValueError("0.625"))
    line = JsonLines().format(logging.LogRecord("psycopg", logging.WARNING, "f", 1, *said, None))
    assert json.loads(line)["event"] == "error ignored terminating"


def test_connections_that_cannot_be_taken_are_told_once_a_minute():
    now, sparing = 0.0, Sparing(lambda: now)

    def passes(text):
        return sparing.filter(logging.LogRecord("asyncio", logging.ERROR, "f", 1, text, (), None))

    full = "socket.accept() out of system resource\nsocket: <asyncio.TransportSocket fd=6>"
    assert [passes(full), passes(full), passes("other"), passes("other")] == [True, False, True, True]
    now = 61.0
    assert [passes(full), passes(full)] == [True, False]
    record = logging.LogRecord("asyncio", logging.ERROR, "f", 1, full, (), None)
    assert json.loads(JsonLines().format(record))["event"] == "socket.accept() out of system resource"


@pytest.fixture
def log():
    """(the handler, the end of its pipe to read from, a function that logs a number)."""
    theirs, ours = os.pipe()
    handler = Lines(ours, most=500)
    handler.setFormatter(JsonLines())

    def say(number):
        handler.handle(logging.makeLogRecord({"msg": "x" * 100, "levelname": "INFO", "facts": {"number": number}}))

    yield handler, theirs, say
    os.close(theirs)
    handler._waiting.join()
    os.close(ours)


def test_who_stops_reading_the_log_stops_nobody(log):
    """Lines that do not fit are counted, none is torn, and the others come in their order."""
    handler, theirs, say = log
    saying = threading.Thread(target=lambda: [say(number) for number in range(3000)], daemon=True)
    saying.start()
    saying.join(20)
    assert not saying.is_alive()
    with os.fdopen(os.dup(theirs)) as file, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(file.readlines)
        handler._waiting.join()
        say(3000)
        handler._waiting.join()
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), handler._file)  # so that the other end is the last
        read = list(map(json.loads, reading.result()))
    numbers = [line["number"] for line in read if "number" in line]
    lost = [line for line in read if line["event"] == "lines lost"]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 3000
    assert sum(line["count"] for line in lost) == 3001 - len(numbers) > 0
    assert {line["level"] for line in lost} == {"warning"}


def test_the_end_does_not_wait_for_who_does_not_read(log, monkeypatch):
    """Neither for the log nor, afterwards, for what others write there."""
    monkeypatch.setattr(_lines, "END", 0.1)
    handler, _, say = log
    for number in range(3000):
        say(number)
    started = time.monotonic()
    handler.flush()
    handler.flush()
    assert os.write(handler._file, bytes(1 << 20)) == 1 << 20
    assert time.monotonic() - started < 5


def test_the_end_waits_for_lines_that_are_read(log):
    handler, theirs, say = log
    for number in range(100):
        say(number)
    handler.flush()
    assert [json.loads(line)["number"] for line in os.read(theirs, 1 << 16).splitlines()] == list(range(100))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), theirs)  # and nobody minds a reader that has gone
    say(100)
    handler.flush()
    assert handler._failed == 1
