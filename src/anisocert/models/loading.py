"""`load`: a network from whatever the user has: our files, other people's checkpoints, ONNX, their own function."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anisocert.engine.first_call import taking
from anisocert.engine.given import home, own_copy
from anisocert.engine.told import beside, is_told
from anisocert.errors import ArgumentError, ModelError, expect_one_of
from anisocert.inputs import regular_file
from anisocert.models.adapters import Declared, adapt
from anisocert.models.architectures import ARCHITECTURES, build, recognize
from anisocert.models.checkpoint import from_metadata, load_denoiser
from anisocert.models.coded import PerCode
from anisocert.models.denoised import Denoised
from anisocert.models.denoiser import STEP, Denoiser, takes
from anisocert.models.foreign import WHOSE, Foreign, Layout, normalization, take_apart
from anisocert.models.functions import from_function
from anisocert.models.normalize import Normalized, per_channel
from anisocert.models.weights import put, read_safetensors, read_torch
from anisocert.shell import shell_quote

Scale = tuple[Sequence[float], Sequence[float]]  # mean and std
ADDED = ("denoise", "denoiser", "notes")  # to what is known of a network, and so in the words of no file
FEW = 32  # rows per call, below which a network is slow


def load(
    source: str | Path,
    *,
    architecture: str | None = None,
    num_classes: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    layout: Layout | None = None,
    gradients: bool = False,
    denoise: str | None = None,
    shape: Sequence[int] | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
    """A network in evaluation mode that takes inputs in the data's own units, and what is known about it.

    source: a `.safetensors` file (ours, or plain weights), a `.pt`/`.pth`/`.tar` checkpoint, an `.onnx` file, or
    `package.module:function`, a function without arguments that returns an `nn.Module`, or one itself.
    architecture: needed only where the weights fit none of our networks by name and shape.
    num_classes: what the data has; a different number in the file is an error.
    mean, std: one per channel, if the file has no normalisation. ONNX networks and functions get one only if given.
    layout: whose checkpoint it is ("cohen", "salman", "macer"), which settles the normalisation; or how an ONNX network
        or a function takes images ("flat", "channels-last").
    gradients: convert an ONNX network to PyTorch (by onnx2torch) instead of running it as a black box.
    denoise: a denoiser to put in front of the network: a file of `train --recipe denoiser`, or
        `package.module:function`, a function without arguments that returns an `nn.Module`.
    shape: of an input. The network is then tried on such inputs and, where it takes the same values in another shape,
        or returns its scores among other things, made to fit. What is known has `notes` that say so.
    """
    if not isinstance(source, str | Path):
        raise ArgumentError(
            f"expected the path of a network, or package.module:function, got {type(source).__name__}: what is a "
            "network already needs no loading"
        )
    like = None if shape is None else tuple(shape)
    if (mean is None) != (std is None):
        raise ArgumentError(f"expected both mean and std or neither, got mean {mean!r} and std {std!r}")
    scale = None if mean is None or std is None else (mean, std)
    if scale is not None:
        per_channel(*scale)
    text = str(source)
    if is_function(text) or expect_network_file(text).suffix == ".onnx":
        model, metadata = _adapted(text, num_classes, scale, layout, gradients, like)
    else:
        model, metadata = _from_weights(Path(source), architecture, num_classes, scale, layout)
    if denoise is None:
        return model, metadata
    # What the network was trained with says nothing about the two together.
    combined = {name: value for name, value in metadata.items() if name not in ("noise", "norm", "sigma")}
    denoiser, notes = _own_denoiser(denoise, like) if is_function(denoise) else _stored_denoiser(denoise, like)
    if isinstance(denoiser, Denoiser):
        combined |= {"denoiser": {"noise": denoiser.noise, "levels": denoiser.levels}}
    combined |= {"denoise": denoise, "notes": (*combined.get("notes", ()), *notes)}
    if isinstance(model, PerCode):
        return PerCode([Denoised(network, denoiser) for network in model.networks]).eval(), combined
    return Denoised(model, denoiser).eval(), combined


def _own_denoiser(source: str, shape: tuple[int, ...] | None) -> tuple[nn.Module, tuple[str, ...]]:
    """A denoiser from the user's own code; an error unless it gives inputs of that shape back."""
    denoiser, notes = from_function(source)
    if shape is not None:
        x = torch.zeros(1, *shape, device=home(denoiser))
        trial = own_copy(denoiser.eval())  # what it keeps of a call is not part of it
        with torch.no_grad(), taking(shape, trial):
            back = trial(beside(x, torch.ones_like(x)) if is_told(trial) else x)
        if not isinstance(back, Tensor) or back.shape != x.shape:
            got = tuple(back.shape[1:]) if isinstance(back, Tensor) else type(back).__name__
            raise ModelError(f"expected a denoiser, which gives inputs of shape {shape} back, at {source}, got {got}")
    return denoiser, notes


def _stored_denoiser(path: str, shape: tuple[int, ...] | None) -> tuple[nn.Module, tuple[str, ...]]:
    """The denoiser of a file, for inputs of a shape, and what it was trained for."""
    if Path(path).suffix != ".safetensors" or not Path(path).exists():
        raise ArgumentError(
            f"expected a denoiser, a .safetensors file of `anisocert train --recipe denoiser` or "
            f"package.module:function, got {path!r}"
        )
    denoiser, _ = load_denoiser(path)
    if shape is not None and not takes(denoiser.shape[0], shape):
        required = f"({denoiser.shape[0]}, height, width), both multiples of {STEP}"
        raise ArgumentError(f"expected inputs of shape {required}, for the denoiser {path}, got {shape}")
    low, high = denoiser.levels
    quantity = "theta" if denoiser.told == "theta" else "the mean of theta"
    return denoiser, (
        f"its denoiser is told {quantity}, and was trained for {denoiser.noise} noise of {low:g} to {high:g}",
    )


def _adapted(
    text: str,
    num_classes: int | None,
    scale: Scale | None,
    layout: Layout | None,
    gradients: bool,
    shape: tuple[int, ...] | None,
) -> tuple[nn.Module, dict[str, Any]]:
    """A function's network or an ONNX file's, made to fit; scale: mean and std, if it has none."""
    if layout in WHOSE:
        raise ArgumentError(
            f"expected layout flat or channels-last for {text}, got {layout!r}, which says how the inputs of a "
            "checkpoint are normalised: give mean and std (--mean, --std)"
        )
    mean, std = scale or (None, None)
    metadata: dict[str, Any] = {"architecture": text, "num_classes": None, "mean": mean, "std": std}
    if is_function(text):
        (model, notes), takes = from_function(text), None
    else:
        model, takes, notes = _onnx(Path(text), gradients, shape)
        metadata["num_classes"] = getattr(model, "num_classes", None)
    _check_classes(metadata["num_classes"], num_classes, text)
    if is_told(model) and (scale is not None or layout is not None):
        got = f"mean {mean!r}" if scale is not None else f"layout {layout!r}"
        raise ArgumentError(
            f"expected no mean, std and layout for {text}, which is told theta beside its inputs, got {got}: do that "
            "inside the network"
        )
    if shape is not None and not is_told(model):
        adapted = adapt(model.eval(), shape, layout, takes, num_classes)
        _check_classes(adapted.num_classes, num_classes, text)
        model, notes = adapted.model, (*notes, *adapted.notes)
        metadata["num_classes"] = metadata["num_classes"] or adapted.num_classes
    if scale is not None:
        model = Normalized(model, *scale)
    return model.eval(), metadata | {"notes": notes}


def _onnx(path: Path, gradients: bool, shape: tuple[int, ...] | None) -> tuple[nn.Module, Declared, tuple[str, ...]]:
    """(network, the shape that it declares, what is worth knowing)."""
    from anisocert.models.onnx_file import read_onnx
    from anisocert.models.onnx_network import OnnxNetwork

    file = read_onnx(path)
    box = OnnxNetwork(path, file, shape)
    notes = (f"its scores are the output {box.chosen!r}",) if box.chosen is not None else ()
    if gradients:
        from anisocert.models.onnx_torch import to_torch

        return to_torch(path, file, box), box.shape, notes
    note = (
        f"its graph has a batch of {box.batch} baked in, so it runs {box.batch} at a time: a free batch is far quicker"
    )
    return box, box.shape, (*notes, note) if box.batch is not None and box.batch < FEW else notes


def _from_weights(
    path: Path, architecture: str | None, num_classes: int | None, scale: Scale | None, layout: Layout | None
) -> tuple[nn.Module, dict[str, Any]]:
    more: dict[str, Any] = {}
    if path.suffix == ".safetensors":
        state, header = read_safetensors(path)
        if "anisocert" in header:
            model, metadata = from_metadata(state, header["anisocert"], path)
            _check_classes(metadata["num_classes"], num_classes, str(path))
            if scale is not None:
                raise ArgumentError(f"expected no mean and std for {path}, which has its own, got mean {scale[0]!r}")
            if layout is not None:
                raise ArgumentError(f"expected no layout for {path}, which anisocert wrote, got {layout!r}")
            return model.eval(), {name: value for name, value in metadata.items() if name not in ADDED}
        foreign = take_apart(state, str(path), layout)
        if scale is None and {"normalize_mean", "normalize_std"} <= header.keys():
            scale = _numbers(header["normalize_mean"], path), _numbers(header["normalize_std"], path)
        more = {"said": dict(header)} if header else {}
    else:
        foreign = take_apart(read_torch(path), str(path), layout)
    name, classes, channels = _architecture(foreign, architecture, path)
    _check_classes(classes, num_classes, str(path))
    mean, std = scale or normalization(foreign, name, str(path))
    if len(mean) != channels:
        raise ArgumentError(f"expected mean and std of {channels} channels for {path}, got {len(mean)}")
    model = build(name, classes, mean, std)
    put(foreign.state, model.network, str(path))
    metadata = {"architecture": name, "num_classes": classes, "mean": tuple(mean), "std": tuple(std)}
    return model.eval(), metadata | more | ({"notes": foreign.notes} if foreign.notes else {})


def _architecture(foreign: Foreign, architecture: str | None, path: Path) -> tuple[str, int, int]:
    """Name, classes and channels; what the user or the file says about the name must agree with the weights."""
    recognized, classes, channels = recognize(foreign.state)
    for name in (architecture, foreign.architecture):
        if name is not None and name != recognized:
            expect_one_of("architecture", name, ARCHITECTURES)
            raise ModelError(f"expected the weights of {name} in {path}, got those of {recognized}")
    return recognized, classes, channels


def _check_classes(actual: int | None, expected: int | None, source: str) -> None:
    if expected is not None and actual is not None and actual != expected:
        raise ArgumentError(f"expected a network with {expected} classes in {source}, got {actual}")


def _numbers(text: str, path: Path) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ModelError(f"expected numbers separated by commas as normalisation in {path}, got {text!r}") from error


def is_function(text: str) -> bool:
    """Whether a text names a function, `package.module:function`, which loading would call."""
    module, colon, function = text.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def expect_network_file(source: str) -> Path:
    """The path of a file that may hold a network; an error that says what is there instead."""
    path = Path(source)
    if path.suffix in (".npz", ".npy"):
        raise ArgumentError(
            f"expected a network, got {source}, a file of data: name the network first, then --data "
            f"{shell_quote(source)}"
        )
    if not path.exists():
        raise ArgumentError(
            f"expected a network file, or package.module:function, at {path.absolute()}, got nothing there"
        )
    if path.is_dir():
        files = sorted(file.name for file in path.glob("*.safetensors"))
        remedy = f": name the file in it, {' or '.join(files)}" if files else ""
        raise ArgumentError(f"expected a network file, or package.module:function, got the folder {source}{remedy}")
    return regular_file(path)
