"""Work in threads: in time or not at all, and no error of it is written to the log by asyncio."""

import asyncio
import gc
import logging
import threading

import pytest

from anisocert.service._threads import Threads


def test_what_is_late_is_dropped_unless_it_has_begun(run):
    threads, gate, done = Threads(1, "one"), threading.Event(), []

    async def ask():
        for name in ("begun", "dropped"):
            with pytest.raises(TimeoutError):
                await threads.run(lambda name=name: gate.wait(30) and done.append(name), 0.05)
        gate.set()
        return await threads.run(lambda: done.append("last"), 30)

    run(ask())
    assert done == ["begun", "last"]
    threads.close()


def test_no_message_of_an_error_reaches_the_log(caplog, run):
    threads, gate = Threads(1, "one"), threading.Event()

    def fail():
        gate.wait(30)
        raise ValueError("input 0.625")

    async def ask():
        with pytest.raises(TimeoutError):
            await threads.run(fail, 0.02)
        gate.set()
        with pytest.raises(ValueError, match=r"0\.625"):
            await threads.run(fail, 30)
        gc.collect()
        await asyncio.sleep(0)

    caplog.set_level(logging.DEBUG, "asyncio")
    run(ask())
    gc.collect()
    assert "0.625" not in caplog.text
    threads.close()
