"""Texts from files, without what a terminal or a page would obey: class names and paths may hold anything."""

import re

CONTROL = re.compile(  # never a quote: without it a printed command could become another
    "\x1b\\[[0-9:;?]*[A-Za-z]"  # colours, cursor movements
    "|\x1b\\][^\x00-\x1f\"'`\\\\\x7f]*(?:\x07|\x1b\\\\)"  # titles, links, the clipboard
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # all but tabs and line ends; reversals of direction
)


def plain(text: str) -> str:
    """A text without escape sequences and control characters."""
    return CONTROL.sub("", text)
