"""The standard streams as commands find them: texts from files cannot control a terminal, and no stream is missing."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from anisocert.plain import plain


class Plain:
    """A stream that writes plain text. What rich draws bypasses it, after the same cleaning: see console.py."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text, cleaned."""
        self.stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # through which bytes would bypass it
            raise AttributeError(name)
        return getattr(self.stream, name)


def unfiltered(stream: TextIO) -> TextIO:
    """The stream behind a plain one."""
    return stream.stream if isinstance(stream, Plain) else stream


@contextmanager
def standard_streams(filtered: bool) -> Iterator[None]:
    """Open what was closed (`>&-`), show unknown characters in ASCII, and end silently if nobody reads."""
    for number in range(3):  # else a file that is opened would take its place, and get what is printed
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    streams = [stream or open(os.devnull, "w") for stream in before]  # noqa: SIM115 (until the process ends)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = [cast(TextIO, Plain(stream)) for stream in streams] if filtered else streams
    try:
        yield
    finally:
        for number, stream in zip((1, 2), streams, strict=True):
            try:
                stream.flush()
            except OSError:  # Python flushes again at exit, and would complain
                with suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        sys.stdout, sys.stderr = before
