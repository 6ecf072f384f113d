"""Commands as text to be pasted into a shell, which then gets exactly the arguments that are meant.

Needs nothing but the standard library.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path


def shell_join(arguments: Iterable[str | Path]) -> str:
    """A command line of these arguments."""
    return " ".join(shell_quote(argument) for argument in arguments)


def shell_quote(argument: str | Path) -> str:
    """An argument in quotes, where it needs any. What a terminal or a page would obey, hide or cut out is spelled out.

    That is as bytes, which shells know in every locale, and in which a name on disk need not be text.
    """
    text = str(argument)
    return shlex.quote(text) if text.isprintable() else f"$'{''.join(map(_spelled, text))}'"


def _spelled(character: str) -> str:
    r"""A character between $' and '. A quote is \x27, by which no search for the closing one is misled."""
    if character == "\\":
        return r"\\"
    if character.isprintable() and character != "'":
        return character
    undecoded = "\udc80" <= character <= "\udcff"  # how Python holds a byte of a name that is not text
    spelled = character.encode(errors="surrogateescape" if undecoded else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in spelled)
