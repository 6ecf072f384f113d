"""Image files that look like an array: chosen by position, read only when their pixels are wanted."""

import hashlib
from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError, MissingExtraError

READERS = 8  # files being read at once: a network file system answers each one late


class ImageFiles:
    """Images on disk, `n x c x h x w`, uint8. All have the size of the first.

    resize, crop: scale the shorter side to `resize`, then keep the central square of `crop` pixels, as the field does
    with ImageNet (256, 224); without them images stay as they are.
    """

    def __init__(self, paths: Sequence[Path], resize: int | None = None, crop: int | None = None) -> None:
        self.paths, self.resize, self.crop = tuple(paths), resize, crop
        self._shape: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, keep: NDArray[np.int64]) -> "ImageFiles":
        """The files at these positions, still unread."""
        return ImageFiles([self.paths[i] for i in keep], self.resize, self.crop)

    @property
    def shape(self) -> tuple[int, ...]:
        """`n, c, h, w`; reads the first file."""
        if self._shape is None:
            self._shape = self._read(self.paths[0]).shape
        return (len(self.paths), *self._shape)

    def checksums(self) -> NDArray[np.uint8]:
        """SHA-256 of each file's bytes, `n x 32`; nothing is decoded, and a file is never in memory as a whole."""
        with ThreadPool(min(READERS, len(self.paths))) as pool:
            found = b"".join(pool.imap(_checksum, self.paths, chunksize=16))
        return np.frombuffer(found, np.uint8).reshape(len(self.paths), -1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        images = np.empty(self.shape, np.uint8)
        for i, path in enumerate(self.paths):
            image = self._read(path)
            if image.shape != images.shape[1:]:
                raise ArgumentError(
                    f"expected images of one size, {images.shape[1:]} as the first, got {image.shape} in {path}"
                )
            images[i] = image
        return images if dtype is None else images.astype(dtype)

    def _read(self, path: Path) -> NDArray[np.uint8]:
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError as error:
            raise MissingExtraError("image files need Pillow: pip install 'anisocert[cli]'") from error
        try:
            with Image.open(path) as opened:
                image = opened.convert("L" if opened.mode in ("L", "1", "I;16") else "RGB")
        except (OSError, UnidentifiedImageError) as error:
            raise ArgumentError(f"expected a whole image file at {path}, got: {error}") from error
        if self.resize is not None:
            scale = self.resize / min(image.size)
            # torchvision's rounding, so that pixels agree with the field's
            size = tuple(self.resize if side == min(image.size) else int(scale * side) for side in image.size)
            image = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
        if self.crop is not None:
            left, top = round((image.width - self.crop) / 2), round((image.height - self.crop) / 2)
            image = image.crop((left, top, left + self.crop, top + self.crop))
        array = np.asarray(image, np.uint8)
        return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _checksum(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ArgumentError(f"expected a whole image file at {path}, got: {error}") from error
