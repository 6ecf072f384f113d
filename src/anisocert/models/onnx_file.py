"""An ONNX file, read whole: the graph and the data it keeps in files beside it, so that what is hashed is what runs."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from anisocert.errors import ModelError, from_extra
from anisocert.inputs import FileError, read_regular

LARGEST = (1 << 31) - 1  # bytes of one graph with all its data: what the format itself can hold in one piece
# Operators of the standard and those that every onnxruntime has; any other would be someone's own code.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
LOOPS = ("Loop", "Scan")
MOST_NODES = 50_000  # once each function of the file stands where it is called, as onnxruntime puts it there


@dataclass(frozen=True)
class OnnxFile:
    """A network with all its data in one piece, as bytes and as onnx's ModelProto.

    digest: of the file and of each file that it takes data from. locations: of these, beside the file.
    """

    content: bytes = field(repr=False)
    graph: Any = field(repr=False)
    digest: bytes
    locations: tuple[str, ...]

    @property
    def opset(self) -> int | None:
        """The number of its set of standard operators, if it names one."""
        return next((opset.version for opset in self.graph.opset_import if opset.domain in DOMAINS[:2]), None)


def read_onnx(path: Path) -> OnnxFile:
    """Read a file and its external data, which must lie in its folder or below."""
    with from_extra("onnx", "ONNX networks need onnx"):
        import onnx
    content = _bytes(path, LARGEST)
    try:
        graph = onnx.load_model_from_string(content)
        tensors, nodes = list(_every(onnx.TensorProto, graph)), list(_every(onnx.NodeProto, graph))
    except Exception as error:  # protobuf's own exceptions
        raise ModelError(f"expected a whole ONNX file at {path}, got: {str(error)[:200]}") from error
    _refuse_operators(nodes, graph, path)
    _refuse_growth(onnx.NodeProto, graph, path)
    digest, data, room = hashlib.sha256(content), dict[str, bytes](), LARGEST - len(content)
    left = room  # for tensors, several of which may take the same bytes of a file
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        external = {entry.key: entry.value for entry in tensor.external_data}
        location = external.get("location", "")
        if location not in data:
            data[location] = _bytes(_beside(path, location), room)
            room -= len(data[location])
            digest.update(hashlib.sha256(location.encode()).digest() + hashlib.sha256(data[location]).digest())
        part = _part(data[location], external, tensor.name, path)
        if (left := left - len(part)) < 0:
            raise ModelError(f"expected tensors of at most {LARGEST:,} bytes together in {path}, got more")
        tensor.raw_data = part
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return OnnxFile(graph.SerializeToString() if data else content, graph, digest.digest(), tuple(data))


def _bytes(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except FileError as error:
        raise ModelError(str(error)) from error


def _beside(path: Path, location: str) -> Path:
    """Where external data is: in the folder of the file, whatever the current folder is, and never outside it."""
    if "\0" in location:
        raise ModelError(f"expected external data in the folder of {path}, got {location!r}")
    folder = path.resolve().parent
    target = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not target.is_relative_to(folder) or target == folder:
        raise ModelError(f"expected external data in the folder of {path}, got {location!r}")
    return target


def _part(data: bytes, external: dict[str, str], name: str, path: Path) -> bytes:
    try:
        offset = int(external.get("offset", 0))
        length = int(external.get("length", len(data) - offset))
    except ValueError as error:
        raise ModelError(f"expected offset and length as numbers for {name!r} in {path}, got {external}") from error
    if not (offset >= 0 and length >= 0 and offset + length <= len(data)):
        place = external["location"]
        raise ModelError(f"expected bytes {offset} to {offset + length} of {place} for {name!r}, got {len(data)} in it")
    return data[offset : offset + length]


def _every(kind: type, message: Any) -> Iterator[Any]:
    """All messages of a kind inside another, wherever the format has a place for them: lists of places get old."""
    for _, value in message.ListFields():
        for inner in value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,):
            if hasattr(inner, "ListFields"):
                if isinstance(inner, kind):
                    yield inner
                yield from _every(kind, inner)


def _refuse_operators(nodes: list[Any], model: Any, path: Path) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    # Which body then runs is onnxruntime's choice, and what is checked below would be another.
    if len(functions) < len(model.functions):
        raise ModelError(
            f"expected each function of {path} once, got one that is defined again: export without overloads"
        )
    if clashes := [name for domain, name in functions if domain in DOMAINS]:
        raise ModelError(
            f"expected functions of {path} in domains of their own, got {min(clashes)[:100]!r} in that of standard "
            "operators: inline functions when exporting"
        )
    for node in nodes:
        if (node.domain, node.op_type) in functions:
            continue
        if node.domain not in DOMAINS:
            raise ModelError(
                f"expected an ONNX network of standard operators in {path}, got {node.domain}::{node.op_type}, "
                "which is custom and would need code from elsewhere"
            )
        if node.op_type in LOOPS:
            raise ModelError(
                f"expected an ONNX network without loops in {path}, got {node.op_type}, whose number of rounds the "
                "file may set to any number, so that a call need not end: unroll loops when exporting"
            )


def _refuse_growth(kind: type, model: Any, path: Path) -> None:
    """An error if functions that call functions make a network of any size from a small file."""
    calls = {
        (function.domain, function.name): [(node.domain, node.op_type) for node in _every(kind, function)]
        for function in model.functions
    }
    sizes: dict[tuple[str, str], int] = {}
    try:
        for name in TopologicalSorter({name: calls.keys() & {*inner} for name, inner in calls.items()}).static_order():
            sizes[name] = sum(sizes.get(callee, 1) for callee in calls[name])
    except CycleError as error:
        raise ModelError(f"expected functions that do not call themselves in {path}, got some that do") from error
    total = sum(sizes.get((node.domain, node.op_type), 1) for node in _every(kind, model.graph))
    if total > MOST_NODES:
        raise ModelError(f"expected at most {MOST_NODES:,} nodes in {path}, got more, by functions that call functions")
