"""Reading tensors from files, and putting them into a network: by name, never by position, never by running code."""

import hashlib
import io
import json
import pickle
import pickletools
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from anisocert.durable import write_whole
from anisocert.errors import AnisocertError, ArgumentError, ModelError, from_extra
from anisocert.inputs import check_archive, regular_file

OWN = (
    "for an architecture of your own, write a function that builds it and loads the weights, "
    "and give package.module:function"
)
# Functions that torch calls, which make much of a number or a few letters. No file of today names classes of tensors.
GROWING = re.compile(r"(bytearray|encode|\wTensor)$")
CHANGING = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "BUILD")  # a pickle's ways to put more into a value that it has
PLAIN, MARK = 0, -1
ZIP = b"PK\x03\x04"  # with which torch tells the files of torch.save from bare pickles
BARE = 5  # pickles one after the other, as torch reads them where there is no zip file
FEW_VALUES = 1 << 20  # of a pickle, besides its tensors': so many take no time, however small the file is
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def read_safetensors(path: Path, weights: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file and its metadata. weights: False leaves the tensors unread."""
    with from_extra("cli", "loading networks needs safetensors"):
        from safetensors import safe_open
    try:
        with safe_open(regular_file(path), framework="pt") as file:
            names = file.keys() if weights else ()
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except ArgumentError:
        raise
    except Exception as error:  # damage shows itself to safetensors or to torch
        raise ModelError(f"expected a whole safetensors file at {path}, got: {str(error)[:200]}") from error


def write_safetensors(path: str | Path, state: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and metadata (under the key `anisocert`, as JSON), completely or not at all."""
    with from_extra("cli", "saving networks needs safetensors"):
        from safetensors.torch import save
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # clone: tensors that share memory are refused by the format
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    content = save(plain, {"anisocert": json.dumps(metadata)})
    write_whole(path, lambda part: part.write_bytes(content))


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote, as far as it is tensors and plain values; files that need code to be run are refused."""
    try:
        if zipfile.is_zipfile(regular_file(path)):
            check_archive(path)
            _refuse_programs(path)
        _refuse_growth(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except AnisocertError:
        raise
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"expected tensors and plain values in {path}, got a file that is corrupt or holds other Python objects, "
            f"which could run any code and are not loaded: save its state_dict() instead; {OWN}"
        ) from error
    except Exception as error:  # damage shows itself to the unpickler or to torch, in their own ways
        got = f"{type(error).__name__}: {str(error)[:200]}"
        raise ModelError(
            f"expected a whole file written by torch.save at {path}, got a damaged one, or of another kind ({got}): "
            f"save the network's state_dict() by torch.save, or as .safetensors; {OWN}"
        ) from error


def _refuse_programs(path: Path) -> None:
    """An error that names the remedy if a file holds a program and its weights, whose loading could run code."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any("/data/aotinductor/" in name for name in names):
        kind = "machine code of AOTInductor, which"
        how = "an nn.Module that calls torch._inductor.aoti_load_package of it"
        also = " and, as nothing of it can be hashed, --model-id NAME"
    elif any(name.endswith("/archive_format") for name in names):
        kind, how = "a program of torch.export, which torch unpickles and", "torch.export.load of it, .module()"
        also = ""
    elif any(name.endswith("/constants.pkl") for name in names):
        kind, how, also = "TorchScript, which is code and", "torch.jit.load of it", ""
    else:
        return
    raise ModelError(
        f"expected tensors and plain values in {path}, got {kind} is not loaded: write a function that returns {how}, "
        f"and give package.module:function{also}"
    )


def _refuse_growth(path: Path) -> None:
    """An error if a file asks for what torch makes, or works on, out of proportion to the file."""
    # As torch.load decides and reads: zipfile may see other members (the last of a name, letters in another case,
    # another directory), and a zip file behind a pickle, which torch takes for the pickle.
    with path.open("rb") as file:
        zipped, most = file.read(len(ZIP)) == ZIP, max(FEW_VALUES, path.stat().st_size)
        file.seek(0)
        if zipped:
            excess = _growth(io.BytesIO(torch._C.PyTorchFileReader(file).get_record("data.pkl")), most)
        else:
            excess = next(filter(None, (_growth(file, most) for _ in range(BARE))), None)
    if excess is not None:
        raise ModelError(f"expected tensors and plain values in {path}, got {excess}: save its state_dict() instead")


def _growth(file: IO[bytes], most: int) -> str | None:
    """What the pickle that begins here makes more than so many values of; None if nothing. Damage is left to torch.

    A list that holds another one twice, which holds one twice, and so on, takes a few hundred bytes, and torch for ever
    where it hashes it, copies it or puts it into a message.
    """
    parts: dict[int, list[int]] = {PLAIN: []}  # of each value; one that has none is PLAIN
    stack, memo = list[int](), dict[Any, int]()
    with suppress(ValueError, LookupError):
        for code, argument, _ in pickletools.genops(file):
            if code.name == "GLOBAL" and GROWING.search(name := str(argument)):
                return f"bytes or other Python objects, made by {name.split()[-1]}"
            if code.name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif code.name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif code.name == "MARK":
                stack.append(MARK)
            else:
                operands = list[int]()
                for slot in reversed(code.stack_before):
                    while slot is pickletools.stackslice and stack[-1] != MARK:  # all down to the mark
                        operands.append(stack.pop())
                    if slot is not pickletools.stackslice:
                        operands.append(stack.pop())
                if code.name in CHANGING:
                    into = operands.pop()
                elif operands or code.name.startswith("EMPTY"):
                    into = len(parts)
                else:
                    into = PLAIN
                if into != PLAIN:
                    parts.setdefault(into, []).extend(part for part in operands if part != MARK)
                stack += [into] * len(code.stack_after)
            if max(len(parts), len(stack)) > most:
                break
    try:
        more = len(stack) > most or _has_more(parts, most)
    except CycleError:
        return "a value that holds itself"
    return f"more than {most:,} values, counted where each is held" if more else None


def _has_more(parts: dict[int, list[int]], most: int) -> bool:
    """Whether some value is made of more than so many, each counted wherever it is held."""
    sizes = dict[int, int]()
    for value in TopologicalSorter(parts).static_order():
        sizes[value] = 1 + sum(sizes[part] for part in parts[value])
        if sizes[value] > most:
            return True
    return len(parts) > most


def check_tensors(state: Mapping[str, Tensor], source: str) -> None:
    """An error unless every value of every tensor is in the file: a shape alone may claim any number of them."""
    for name, tensor in state.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized or tensor.is_nested:
            raise ModelError(f"expected plain tensors in {source}, got {str(tensor.layout)[6:]} in {name[:100]}")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            got = f"{name[:100]} of shape {tuple(tensor.shape)} with {tensor.untyped_storage().nbytes()} bytes"
            raise ModelError(f"expected tensors with a value of their own for each element in {source}, got {got}")


def check_fit(state: Mapping[str, Tensor], network: nn.Module, source: str) -> None:
    """An error unless names, shapes and types are those of the network, which may be on the device "meta"."""
    check_tensors(state, source)
    expected = network.state_dict()
    counters = {name for name in expected if name.endswith("num_batches_tracked")}
    missing = sorted(expected.keys() - state.keys() - counters)
    unknown = sorted(state.keys() - expected.keys())
    if missing or unknown:
        raise ModelError(
            f"expected the weights of {type(network).__name__} in {source}, got "
            f"{len(missing)} missing ({', '.join(missing[:3])}) and {len(unknown)} unknown "
            f"({', '.join(unknown[:3])[:200]})"
        )
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            shapes = f"{tuple(expected[name].shape)} for {name} in {source}, got {tuple(tensor.shape)}"
            raise ModelError(f"expected shape {shapes}")
        if expected[name].is_floating_point() and tensor.dtype not in FLOATS:
            raise ModelError(f"expected floats of 16, 32 or 64 bits in {source}, got {tensor.dtype} in {name}")
        if not expected[name].is_floating_point() and (tensor.is_floating_point() or tensor.is_complex()):
            raise ModelError(f"expected whole numbers for {name} in {source}, got {tensor.dtype}")


def put(state: Mapping[str, Tensor], network: nn.Module, source: str) -> None:
    """Load weights by name, cast to the network's own types (so bfloat16 files work); the names must agree."""
    check_fit(state, network, source)
    expected = network.state_dict()
    cast = {name: tensor.to(expected[name].dtype) for name, tensor in state.items()}
    for name, tensor in cast.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(f"expected finite weights in {source}, got NaN or infinity in {name}")
    network.load_state_dict({**expected, **cast})


def weights_hash(network: nn.Module) -> str:
    """SHA-256 of a network's weights and buffers, which tells it from others of its architecture."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        values = plain.float()
        digest.update(name.encode() + values.numpy().tobytes())
        count = not plain.is_floating_point() and torch.equal(values.to(plain.dtype), plain)
        if plain.dtype != torch.float32 and not count:  # files hold hashes of float32 networks, counters included
            digest.update(str(plain.dtype).encode() + plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
