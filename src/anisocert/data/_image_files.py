"""Image files that look like an array: chosen by position, read only when their pixels are needed."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError, from_extra
from anisocert.inputs import checksum, regular_file

if TYPE_CHECKING:
    from PIL.Image import Image

READERS = 8  # files being read at once: a network file system answers each one late
GREY = ("L", "1")
TRANSPARENT = ("RGBA", "RGBa", "LA", "La", "PA")
ORIENTATION, UPRIGHT = 0x0112, 1  # a field of EXIF, and its value for an image that is seen as it is stored
DEEP = ("I", "F")  # how the names of modes with more than 8 bits begin: Pillow would cut their values off at 255
# A file of a few kilobytes may declare any size. The most pixels of one file, and of one input to the network.
MOST_DECODED, MOST_PIXELS = 1 << 26, 1 << 24
MOST_BYTES = 1 << 29
# Pillow goes by content, not by name: for an EPS file it would run Ghostscript.
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM", "TIFF", "GIF")
END_OF_PNG = b"IEND\xaeB`\x82"


class Look(NamedTuple):
    """What a file says about itself. size: height and width of its image once it is prepared.

    turned, transparent: whether EXIF asks for a rotation, and whether there is transparency. Neither is heeded.
    """

    size: tuple[int, int]
    turned: bool
    transparent: bool


class ImageFiles:
    """Images on disk, `n x c x h x w`, uint8. All have one size.

    channels: 1 or 3; grey images are taken as coloured ones where it is 3. resize, crop: scale the shorter side to
    `resize`, then keep the central square of `crop` pixels, as the field does with ImageNet (256, 224); without them
    images stay as they are. looks: at the beginning of each file, where that was done.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        channels: int = 3,
        resize: int | None = None,
        crop: int | None = None,
        looks: "Sequence[Look] | None" = None,
    ) -> None:
        self.paths, self.channels, self.resize, self.crop = tuple(paths), channels, resize, crop
        self._looks = looks

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, keep: NDArray[np.int64]) -> "ImageFiles":
        """The files at these positions, still unread."""
        looks = None if self._looks is None else [self._looks[i] for i in keep]
        return ImageFiles([self.paths[i] for i in keep], self.channels, self.resize, self.crop, looks)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """`n, c, h, w`; looks at the beginning of every file, once, and is an error if sizes differ."""
        return (len(self.paths), self.channels, *self.looks[0].size)

    @property
    def looks(self) -> "Sequence[Look]":
        """What each file says about itself; looked at once."""
        if self._looks is None:
            with ThreadPool(min(READERS, len(self.paths))) as pool:
                looks = pool.map(self._look, self.paths, chunksize=16)
            for path, look in zip(self.paths, looks, strict=True):
                if look.size != looks[0].size:
                    raise ArgumentError(
                        f"expected images of one size, {_by(looks[0].size)} pixels as {self.paths[0]}, got "
                        f"{_by(look.size)} in {path}: resize them, or put images.json into the folder of classes, as "
                        'in {"resize": 256, "crop": 224}'
                    )
            self._looks = looks
        return self._looks

    def checksums(self) -> NDArray[np.uint8]:
        """SHA-256 of each file's bytes, `n x 32`; nothing is decoded, and a file is never in memory as a whole."""
        with ThreadPool(min(READERS, len(self.paths))) as pool:
            digests = b"".join(pool.imap(_checksum, self.paths, chunksize=16))
        return np.frombuffer(digests, np.uint8).reshape(len(self.paths), -1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        images = np.empty(self.shape, np.uint8)
        for i, path in enumerate(self.paths):
            images[i] = self._read(path)
        return images if dtype is None else images.astype(dtype)

    def _look(self, path: Path) -> "Look":
        with _opened(path) as image:
            if self.channels == 1 and image.mode not in GREY:
                raise ArgumentError(
                    f"expected grey images, as the first of the folder is, got mode {image.mode} in {path}: "
                    "save them all as RGB, or all as grey"
                )
            width, height = self._scaled(image.size, path)
            turned = "exif" in image.info and image.getexif().get(ORIENTATION, UPRIGHT) != UPRIGHT
            transparent = image.mode in TRANSPARENT or "transparency" in image.info
            return Look((self.crop or height, self.crop or width), turned, transparent)

    def _read(self, path: Path) -> NDArray[np.uint8]:
        from PIL import Image

        with _opened(path) as opened:
            size = self._scaled(opened.size, path)
            image = opened.convert("L" if self.channels == 1 else "RGB")
        if size != image.size:
            image = image.resize(size, Image.Resampling.BILINEAR)
        if self.crop is not None:
            left, top = round((image.width - self.crop) / 2), round((image.height - self.crop) / 2)
            image = image.crop((left, top, left + self.crop, top + self.crop))
        array = np.asarray(image, np.uint8)
        array = array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))
        if array.shape[1:] != self.looks[0].size:  # the file has changed since its beginning was looked at
            raise ArgumentError(
                f"expected an image of {_by(self.shape[2:])} pixels at {path}, got {_by(array.shape[1:])}"
            )
        return array

    def _scaled(self, size: tuple[int, int], path: Path) -> tuple[int, int]:
        """Width and height after resizing; an error if that is too large for memory, or less than the crop."""
        shorter = min(size)
        if self.resize is not None and shorter > 0:
            # torchvision's rounding, so that pixels agree with the field's
            width, height = (self.resize if side == shorter else int(self.resize * side / shorter) for side in size)
            size = (width, height)
        if size[0] * size[1] > MOST_PIXELS:
            raise ArgumentError(
                f"expected images of at most {MOST_PIXELS:,} pixels once resized, got {_by(size[::-1])} for {path}"
            )
        if min(size) < (self.crop or 1):
            raise ArgumentError(
                f"expected images of at least {self.crop or 1} pixels on each side, got {_by(size[::-1])} in {path}"
            )
        return size


def channels_of(path: Path) -> int:
    """1 for a grey image, else 3."""
    with _opened(path) as image:
        return 1 if image.mode in GREY else 3


@contextmanager
def _opened(path: Path) -> Iterator["Image"]:
    """A file's image, for as long as it is read; whatever is wrong with it is an error that names the file."""
    with from_extra("cli", "image files need Pillow"):
        from PIL import Image, UnidentifiedImageError
    try:
        if (size := regular_file(path).stat().st_size) > MOST_BYTES:
            raise ArgumentError(f"expected at most {MOST_BYTES:,} bytes of an image at {path}, got {size:,}")
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_DECODED:
                got = _by((image.height, image.width))
                raise ArgumentError(f"expected an image of at most {MOST_DECODED:,} pixels at {path}, got {got}")
            if image.mode.startswith(DEEP):
                raise ArgumentError(
                    f"expected an image of 8 bits per channel at {path}, got mode {image.mode}: scale it to 0 to 255, "
                    "or give its values as floats in an .npz"
                )
            if image.format == "PNG":
                _verify_png(path)
            yield image
    except ArgumentError:
        raise
    except UnidentifiedImageError as error:
        raise ArgumentError(f"expected a whole image file at {path}, got none of {', '.join(FORMATS)}") from error
    except Exception as error:  # Pillow's decoders fail in as many ways as there are formats
        raise ArgumentError(f"expected a whole image file at {path}, got: {error}") from error


def _verify_png(path: Path) -> None:
    """Pillow's decoder accepts a file without its end, and its check one without the end's checksum."""
    from PIL import Image

    content = path.read_bytes()
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        image.verify()
    if END_OF_PNG not in content:
        raise OSError("a file without its end")


def _by(size: Sequence[int]) -> str:
    """Height and width, for readers."""
    return " x ".join(map(str, size))


def _checksum(path: Path) -> bytes:
    try:
        return bytes.fromhex(checksum(path))
    except OSError as error:
        raise ArgumentError(f"expected a whole image file at {path}, got: {error}") from error
