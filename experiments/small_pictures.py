"""Pictures for pages in a third of the bytes: each is drawn anew with every run, and a clone brings all of them."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from anisocert.durable import write_whole

COLOURS = 256  # of lines, bands and letters on white, with their edges


def make_small(files: Iterable[Path]) -> None:
    """Replace each PNG by the same in as many colours, with the mark by which a later run may replace it."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    mark = PngInfo()
    mark.add_text("Software", "anisocert")
    for file in files:
        with Image.open(file) as picture:
            few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        write_whole(file, partial(few.save, format="png", optimize=True, pnginfo=mark))
