"""Data sets from numpy files: `.npz` with both splits or one, `.npy` with its labels beside it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.data.dataset import FIRST_TRAIN_ID, UNLABELLED, Dataset, Split
from anisocert.data.numpy_files import npz_names, read_npy, read_npz
from anisocert.errors import ArgumentError

EXAMPLES = ("x", "x_train", "x_test")
LABELS = ("y", "y_train", "y_test")
NUMBERS = (*LABELS, "ids", "ids_train", "ids_test")
DARK = 32  # images of uint8 that stay below this hardly have 256 levels
CHANNELS_FIRST: Final = "channels-first"
Array = NDArray[np.uint8] | NDArray[np.float32]
LAYOUT = (
    "x_train, y_train, x_test, y_test (or x and y alone, or x_test and y_test to certify; ids, ids_train, ids_test if "
    "wanted; without labels: x alone) in an .npz, or NAME.npy and NAME_labels.npy"
)


def load(path: Path, split: Split, layout: str | None = None) -> Dataset:
    """A split of a file; a file with one set of examples, x, gives it for either split.

    Images are uint8, or float32 in the data's own units; `n x h x w x c` and `n x h x w` are brought to
    `n x c x h x w`, but a row of values, as in `n x 784 x 1`, stays as it is. Mean and standard deviation are those of
    the training examples, where there are some. Without labels, everything but accuracy can be found out.
    layout: "channels-first" where images are `n x c x h x w`, or signals `n x c x t`, whatever their shape looks like.
    """
    arrays = read(path)
    suffix = f"_{split}" if has_splits(arrays) else ""
    labelled = any(name in arrays for name in LABELS)
    if f"x{suffix}" not in arrays or (labelled and f"y{suffix}" not in arrays):
        raise ArgumentError(f"expected {LAYOUT}, got {', '.join(_names(path)) or 'nothing'} in {path}")
    x = channels_first(arrays[f"x{suffix}"], path, layout)
    y = arrays.get(f"y{suffix}", np.full(len(x), UNLABELLED))
    for name in set(arrays) - set(EXAMPLES):
        if arrays[name].ndim != 1 or not np.issubdtype(arrays[name].dtype, np.integer):
            got = f"{arrays[name].dtype} of shape {arrays[name].shape} in {name}{_remedy(name, arrays[name])}"
            raise ArgumentError(f"expected one whole number per label and id in {path}, got {got}")
    reference = channels_first(arrays["x_train"], path, layout) if suffix and "x_train" in arrays else x
    mean, std = statistics(reference)
    ids = arrays.get(f"ids{suffix}", np.arange(len(x)) + (FIRST_TRAIN_ID if suffix == "_train" else 0))
    classes = 1 + max((int(arrays[name].max(initial=0)) for name in LABELS if name in arrays), default=1)
    notes = _moved(arrays[f"x{suffix}"].shape[1:], x.shape[1:], path)
    if x.dtype == np.uint8 and x.ndim < 4:
        notes += (
            f"values of 0 to 255 in {path.name} become 0 to 1, as pixels: if they are none, save them as float32",
        )
    elif x.dtype == np.uint8 and 0 < (peak := int(x.max())) < DARK:
        notes += (
            f"pixels of 0 to {peak} in {path.name} become 0 to {peak / 255:.3g}, as uint8 is 0 to 255: if they are to "
            f"become 0 to 1, save (x / {peak}).astype('float32')",
        )
    numbers = y.astype(np.int64), ids.astype(np.int64)
    return Dataset(path.stem, x, *numbers, max(classes, 2), mean, std, notes=notes)


def _moved(before: tuple[int, ...], after: tuple[int, ...], path: Path) -> tuple[str, ...]:
    """A line about axes that are not where they were."""
    if before == after:
        return ()
    old, new = (" x ".join(map(str, shape)) for shape in (before, after))
    return (f"images of {old} in {path.name} are taken as {new}, channels first",)


def _remedy(name: str, values: NDArray[Any]) -> str:
    """How to save labels that are whole numbers in another form, or one-hot, or names; or ids."""
    names = values.dtype.kind in "US" and not all(str(value).isdecimal() for value in values.ravel()[:100].tolist())
    fractional = values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == values.round()).all())
    if name.startswith("ids") and (names or fractional or (values.ndim > 1 and values.size > len(values))):
        return f": ids are whole numbers: save numpy.arange(len({name})), and keep the names yourself"
    if values.ndim == 0:
        return f": for one example save x[None] and {name}[None]"
    if values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "iufb":
        return f": save {name}.argmax(1)"
    if values.ndim > 1 and values.size == len(values):
        return f": save {name}.ravel().astype(int)"
    if names:
        return f": save numpy.unique({name}, return_inverse=True)[1], if the network's classes are in that order"
    if fractional:
        return ", not all whole: a class is a number from 0 on, and a regression has none"
    return f": save {name}.astype(int)" if values.dtype.kind in "fUSb" else ""


def has_splits(names: Collection[str]) -> bool:
    """Whether a file separates training from test examples; it may hold the latter alone."""
    return "x_test" in names and ("x_train" in names or "x" not in names)


def split_names(path: Path) -> tuple[Split, ...]:
    """The splits of a file; none if it holds one set of examples for both."""
    names = _names(path)
    splits: tuple[Split, ...] = ("train", "test") if "x_train" in names else ("test",)
    return splits if has_splits(names) else ()


def channels_first(x: NDArray[np.generic], path: Path, layout: str | None) -> Array:
    """Examples as the networks take them: uint8 or float32; images `n x c x h x w`."""
    if x.ndim > 1 and x.size == 0:
        raise ArgumentError(f"expected at least one example in {path}, got an array of shape {x.shape}")
    if x.ndim < 2 or not (x.dtype == np.uint8 or np.issubdtype(x.dtype, np.floating)):
        raise ArgumentError(
            f"expected examples as uint8 or floats in {path}, got {x.dtype} of shape {x.shape}{_as_numbers(x)}"
        )
    if x.dtype != np.uint8:
        with np.errstate(over="ignore"):
            x = x.astype(np.float32)
        if not (finite := np.isfinite(x).reshape(len(x), -1).all(1)).all():
            raise ArgumentError(
                f"expected finite examples in {path}, got NaN, infinity or more than float32 holds in row "
                f"{int(finite.argmin())} (from 0)"
            )
    if layout == CHANNELS_FIRST:
        pass
    elif x.ndim == 3 and 1 not in x.shape[1:]:  # else a row of values, not an image
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[2] > 3:
        raise ArgumentError(
            f"expected a shape that distinguishes channels from pixels in {path}, got {x.shape}: if its channels come "
            "first, say --layout channels-first (layout='channels-first'); if last, save x.transpose(0, 3, 1, 2)"
        )
    return x  # type: ignore[return-value]


def _as_numbers(x: NDArray[np.generic]) -> str:
    """How to save examples so that their unit is clear."""
    if x.ndim < 2:
        return ": one row per example"
    if x.dtype.kind in "iu" and int(x.min()) >= 0 and 1 < int(x.max()) <= 255:
        return (
            ": save pixels of 0 to 255 as x.astype('uint8'), which become 0 to 1, other numbers as x.astype('float32')"
        )
    if x.dtype == np.uint16:
        return ": save pixels of 16 bits as (x / 65535).astype('float32'), other numbers as x.astype('float32')"
    return ": save x.astype('float32')" if x.dtype.kind in "iub" else ": save numbers, as float32 or float64"


def statistics(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel (dimension 1), in the units that networks see."""
    mean, std = [], []
    for channel in range(x.shape[1]) if x.ndim == 4 else [slice(None)]:
        values = x[:, channel]
        if x.dtype == np.uint8:  # by counting values: exact, and no copy of the images as floats
            counts = np.bincount(values.reshape(-1), minlength=256) / values.size
            levels = np.arange(256) / 255
            center = float(counts @ levels)
            spread = float(np.sqrt(counts @ (levels - center) ** 2))
        else:
            center, spread = float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))
        mean.append(center)
        std.append(spread if spread > 0 else 1.0)
    return tuple(mean), tuple(std)


def read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file that are part of a data set, or an .npy file and its labels."""
    if path.suffix == ".npz":
        return read_npz(path, (*EXAMPLES, *NUMBERS))
    labels = path.with_name(f"{path.stem}_labels.npy")
    if not labels.exists():
        raise ArgumentError(
            f"expected the labels of {path} in {labels}, got no such file: if there are none, save it as an .npz, with "
            f"numpy.savez('{path.stem}.npz', x=x)"
        )
    return {"x": read_npy(path), "y": read_npy(labels)}


def _names(path: Path) -> list[str]:
    return npz_names(path) if path.suffix == ".npz" else []
