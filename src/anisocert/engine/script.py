"""What a TorchScript module consists of, as it would be saved: code, attributes, tensors; not where it came from."""

import copy
import io
import pickletools
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

# names of types, numbered by what the process has compiled before
MANGLED = re.compile(rb"___torch_mangle_(\d+)")
CONSTANTS = re.compile(rb"(?:^ +\S+ : Final\[.*\n)+", re.MULTILINE)  # a class's, in the order of a Python set


def parts_of_script(value: Any) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the parts of a script module or function, the same in every process."""
    if isinstance(value, nn.Module):
        value = copy.deepcopy(value).cpu()
    saved = io.BytesIO()
    torch.jit.save(value, saved)
    with zipfile.ZipFile(saved) as archive:
        found = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    numbers: dict[bytes, int] = {}

    def plain(text: bytes) -> bytes:
        return MANGLED.sub(lambda one: b"type_%d" % numbers.setdefault(one[1], len(numbers)), text)

    parts = []
    for name in sorted(found, key=lambda name: (name != "data.pkl", name)):  # it numbers the types, from the top down
        if name.endswith(".pkl"):
            operations = [(op.name, op.arg is not None and str(arg)) for op, arg, _ in pickletools.genops(found[name])]
            parts.append((name, plain(repr(operations).encode())))
        elif name.endswith(".py"):
            code = CONSTANTS.sub(lambda one: b"".join(sorted(one[0].splitlines(keepends=True))), found[name])
            parts.append((plain(name.encode()).decode(), plain(code)))
        elif name.startswith(("data/", "constants/")):
            parts.append((name, found[name]))
    yield from sorted(parts)
