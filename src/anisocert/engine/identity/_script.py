"""What a TorchScript module consists of, as it would be saved: code, attributes, tensors; not its origin."""

import copy
import io
import pickletools
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

TYPE = re.compile(rb"__torch__(?:\.\w+)+")
MANGLED = re.compile(rb"\.___torch_mangle_\d+")  # in a type's name: what the process has compiled before
CONSTANTS = re.compile(rb"(?:^ +\S+ : Final\[.*\n)+", re.MULTILINE)  # a class's, in the order of a Python set


def parts_of_script(value: Any) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the parts of a script module or function, the same in every process."""
    if isinstance(value, nn.Module):
        value = copy.deepcopy(value).cpu()
    saved = io.BytesIO()
    torch.jit.save(value, saved)
    with zipfile.ZipFile(saved) as archive:
        contents = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    places: dict[bytes, list[bytes]] = {}  # of types whose names differ only by mangling, in order of appearance

    def renamed(match: re.Match[bytes]) -> bytes:
        place, _, name = match[0].rpartition(b".")
        plain = MANGLED.sub(b"", place)
        alike = places.setdefault(plain, [])
        if place not in alike:
            alike.append(place)
        return b"%s#%d.%s" % (plain, alike.index(place), name)

    parts = []
    for name in sorted(contents, key=lambda name: (name != "data.pkl", name)):  # it has the types from the top down
        if name.endswith(".pkl"):
            operations = [
                (op.name, str(arg).replace(" ", ".") if op.name == "GLOBAL" else str(arg))
                for op, arg, _ in pickletools.genops(contents[name])
            ]
            parts.append((name.encode(), TYPE.sub(renamed, repr(operations).encode())))
        elif name.endswith(".py"):
            code = CONSTANTS.sub(lambda match: b"".join(sorted(match[0].splitlines(keepends=True))), contents[name])
            place = name.removeprefix("code/").replace("/", ".").encode()  # ends with .py, as if that were a type
            parts.append((TYPE.sub(renamed, place), TYPE.sub(renamed, code)))
        elif name.startswith(("data/", "constants/")):
            parts.append((name.encode(), contents[name]))
    yield from ((name.decode(), content) for name, content in sorted(parts))
