"""The console that commands print with: text is text, wherever it comes from."""

import sys
from collections.abc import Iterable

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from anisocert.cli.terminal import unfiltered
from anisocert.plain import plain


class Console(rich.console.Console):
    """rich's, but text is markup only if a call says so, and its control characters are not written."""

    def __init__(self, stderr: bool = False, quiet: bool = False) -> None:
        stream = unfiltered(sys.stderr if stderr else sys.stdout)
        super().__init__(file=stream, stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich draws, with its own control codes intact."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)

    def tell(self, text: str, markup: bool = False) -> None:
        """Print a line that only the terminal wraps, so that what is copied from it, a command say, is in one piece."""
        self.print(text, markup=markup, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to the end of the program, as with any other way of printing."""
        raise BrokenPipeError
