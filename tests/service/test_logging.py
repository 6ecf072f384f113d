"""What asyncio says goes to the log without the exceptions and arguments that it repeats, and not once per second."""

import asyncio
import gc
import json
import logging

import pytest

from anisocert.service._logging import JsonLines, Sparing


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
