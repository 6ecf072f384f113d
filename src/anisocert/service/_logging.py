"""Logs as lines of JSON. They hold no input, no key, no path that a client made up, and no text of an exception."""

import errno
import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from anisocert.service._lines import Lines

LOGGER = logging.getLogger("anisocert.service")
PAUSE = 60.0  # seconds
STANDARD_ERROR = 2
OTHERS = ("uvicorn", "asyncio", "psycopg", "py.warnings")
CAUSES = 5  # of an error that are told, at most


class JsonLines(logging.Formatter):
    """One JSON object per record. Of an exception the type, what caused it and where: its message may hold an input."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry: dict[str, Any] = {"time": _time(record.created), "level": record.levelname.lower()}
        facts = getattr(record, "facts", None)
        entry |= {"event": record.msg, **facts} if facts is not None else {"event": _event(record)}
        if record.exc_info and record.exc_info[1] is not None:
            entry["error"], *causes = _kinds(record.exc_info[1])
            entry |= {"because": causes} if causes else {}
            frames = traceback.extract_tb(record.exc_info[2])
            entry["at"] = [f"{frame.name}:{frame.lineno}" for frame in frames[-5:]]
        return json.dumps(entry)


def _event(record: logging.LogRecord) -> str:
    """What happened. asyncio and psycopg describe futures, callbacks and connections, with exceptions they hold."""
    if record.name == "psycopg":
        return str(record.msg).partition("%")[0].strip(" :")
    message = record.getMessage()
    return re.split(r"\((?!\))|<|\n", message)[0].strip() if record.name == "asyncio" else message


def _kinds(error: BaseException | None) -> Iterator[str]:
    """Types of an error and of its causes, with the system's name: a full disk must be told."""
    for _ in range(1 + CAUSES):
        if error is None:
            return
        code = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
        code = getattr(error, "sqlite_errorname", code)
        yield f"{type(error).__name__} {code}" if code else type(error).__name__
        error = error.__cause__


class Sparing(logging.Filter):
    """Lets records of asyncio about connections that it cannot accept pass only once in a while: it repeats them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._next = clock, 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if not record.getMessage().startswith("socket.accept()"):
            return True
        now = self._clock()
        if passes := now >= self._next:
            self._next = now + PAUSE
        return passes


def _time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def log(event: str, level: int = logging.INFO, error: BaseException | None = None, **facts: Any) -> None:
    """Write a line."""
    info = None if error is None else (type(error), error, error.__traceback__)
    LOGGER.log(level, event, extra={"facts": facts}, exc_info=info)


def start_logging() -> Lines:
    """Send the records of the service and of what it runs on to standard error, as lines of JSON."""
    logging.captureWarnings(True)
    handler = Lines(STANDARD_ERROR)
    handler.setFormatter(JsonLines())
    for name, level in (("anisocert", logging.INFO), *((name, logging.WARNING) for name in OTHERS)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("asyncio").addFilter(Sparing())
    return handler
