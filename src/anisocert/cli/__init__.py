"""The command line: one thin file per command."""

import contextlib
import errno
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NoReturn

from anisocert.cli.terminal import standard_streams
from anisocert.errors import AnisocertError, ArgumentError, MissingExtraError

FAILED, WRONG_USAGE, STOPPED = 1, 2, 3
CTRL_C = 130  # how typer reports it
NOT_READ = 141  # the shell's code for a program whose reader has closed the pipe, as in `| head`
FULL = (errno.ENOSPC, errno.EDQUOT)
NUMBERS = {"int_parsing": "a whole number, as in 100000", "float_parsing": "a number, as in 0.25"}


def main() -> NoReturn:
    """Run the command line and end the process; errors are one readable line, with `--debug` the whole traceback."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    warnings.formatwarning = _warning_lines()
    if (parent := os.environ.pop("ANISOCERT_PARENT", "")).isdecimal():  # reproduce/running.py
        threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
        # by which it is asked to end; a shell's background jobs ignore it, and so would what they start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with standard_streams(filtered="--help" not in sys.argv[1:]):  # help is our own text, and coloured
        if not (sys.stdout.isatty() or "FORCE_COLOR" in os.environ):
            os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"  # else typer colours its help for some build servers
        code = _code(debug)
    sys.exit(code)


def _warning_lines() -> Callable[..., str]:
    """What is printed of warnings: each once, as Python forgets which it has shown whenever filters change."""
    seen = set[str]()

    def line(message: object, *_: object, **__: object) -> str:
        text = f"warning: {message}\n"
        new = text not in seen
        seen.add(text)
        return text if new else ""

    return line


def _code(debug: bool) -> int:
    """The exit code of the command in `sys.argv`, after printing what went wrong."""
    try:
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = CTRL_C
    except SystemExit as end:  # commands do not end like this: a user's function did, or click, for `| head`
        if isinstance(end.__context__, BrokenPipeError):
            return NOT_READ
        _say(f"error: the code that the command called ended it with exit code {end.code}")
        return FAILED
    except BrokenPipeError:
        return NOT_READ
    except Exception as error:
        typed_wrongly = hasattr(error, "format_message")  # click's error, wherever this typer keeps it
        if debug and not typed_wrongly:
            raise
        if line := said(error):
            _say(f"error: {' '.join(line.splitlines())}")
        return WRONG_USAGE if typed_wrongly or isinstance(error, ArgumentError) else FAILED
    if code == CTRL_C:
        _say("stopped")
        return STOPPED
    return code


@contextlib.contextmanager
def keeping(what: str) -> Iterator[None]:
    """Decorates a command: if Ctrl-C stops it, it says what is kept of its work, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        import typer

        _say(f"stopped: {what}")
        raise typer.Exit(STOPPED) from None


def _end_with(parent: int) -> None:
    """Make a stage of `reproduce` end with the process that started it, even if that is killed and cannot end it."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(FAILED)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens
        print(line, file=sys.stderr, flush=True)


def _run() -> int:
    """The exit code of the command in `sys.argv`."""
    try:
        import typer

        command = _commands()
    except ModuleNotFoundError as error:
        extra = "the command line needs typer and rich: pip install 'anisocert[cli]'"
        raise MissingExtraError(f"{extra} ({error.name} is missing)") from error
    for before, typed in pairwise(sys.argv):  # as a path, nothing is the current folder, and of ids all
        name, equals, value = typed.partition("=")
        if not typed or (name.startswith("--") and equals and not value):
            name = name or before
            raise ArgumentError(f"expected a value for {name}, got an empty one: is a variable of the shell not set?")
    try:
        code = command(standalone_mode=False)
    except typer.Abort:  # a question was answered with no
        _say("stopped")
        return FAILED
    return code if isinstance(code, int) else 0


@cache
def _commands() -> Callable[..., Any]:
    """All commands, from typer's declarations, which takes some hundredths of a second."""
    import typer.main

    from anisocert.cli.app import app

    for group in (app, *(registered.typer_instance for registered in app.registered_groups)):
        for command in group.registered_commands if group is not None else ():
            command.help = _flowing(command.callback.__doc__ or "")
    return typer.main.get_command(app)


def _flowing(text: str) -> str:
    """Paragraphs without line ends, as terminals have their own widths."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def said(error: Exception) -> str:
    """An error's message; an unexpected error in one line with its type."""
    if hasattr(error, "format_message"):
        return _usage(error)
    if isinstance(error, AnisocertError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        remedy = ": make room, then give the command again" if error.errno in FULL else ""
        return f"{where}{error.strerror}{remedy}"
    if isinstance(error, MemoryError):
        return "out of memory"
    return f"{type(error).__name__}: {' '.join(str(error).split())} (unexpected: --debug shows where)"


def _usage(error: Any) -> str:
    """One line about a command that was typed wrongly, with the nearest right name and where to look."""
    line = " ".join(error.format_message().split()).rstrip(".")
    if hasattr(error.__cause__, "errors"):  # pydantic's, with which newer typers read values; it knows the value
        problem = error.__cause__.errors()[0]
        if (expected := NUMBERS.get(problem["type"])) is not None:
            line = line.replace(problem["msg"], f"expected {expected}")
        line += f", got {problem['input']!r}"
    if near := getattr(error, "possibilities", None):
        line = f"{error.message}; did you mean {near[0]}?"
    if not line:  # a command without arguments has shown its help instead
        return ""
    context = getattr(error, "ctx", None)
    where = f" ({context.command_path} --help says more)" if context is not None else ""
    return f"{line[0].lower()}{line[1:]}{where}"
