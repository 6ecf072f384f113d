"""Tensors of the Open Inference Protocol v2, as JSON or as raw bytes behind the JSON (the binary data extension)."""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
BYTES: Final = "BYTES"
DATATYPES: Final = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT64": "<i8"}
NAMES: Final = {np.dtype(kind): name for name, kind in DATATYPES.items()}
WHOLE: Final = 1 << 53  # up to which float64 holds every whole number
MOST_JSON: Final = 8 << 20  # bytes: parsed, JSON takes many times as much
NUMBER: Final = 25  # bytes of a number in JSON and its comma, at most
PIECE: Final = 4096  # numbers that are written to JSON at once, while no other thread runs
Array = NDArray[Any]


class TensorError(ValueError):
    """Bytes or JSON that are not what they say; the message names no value of theirs."""


def split(body: bytes, header_length: str | None) -> tuple[dict[str, Any], bytes]:
    """(the JSON object, the raw bytes behind it). header_length: what the header of that name says."""
    length = len(body)
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdecimal() and len(header_length) < 12):
            raise TensorError(f"expected {HEADER_LENGTH} as a whole number, got something else")
        length = int(header_length)
        if length > len(body):
            raise TensorError(f"expected {HEADER_LENGTH} <= {len(body)}, the length of the body, got {length}")
    if length > MOST_JSON:
        raise TensorError(f"expected at most {MOST_JSON} bytes of JSON, got {length}: send tensors as binary data")
    try:
        head = json.loads(body[:length].decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TensorError("expected a JSON object, got something else") from error
    if not isinstance(head, dict):
        raise TensorError(f"expected a JSON object, got {type(head).__name__}")
    return head, body[length:]


def _no_constant(name: str) -> float:
    raise ValueError(name)  # NaN and Infinity, which JSON does not have


def from_json(data: Any, datatype: str, shape: Sequence[int]) -> Array:
    """A tensor from its `data`, nested or flat. Numbers are not rounded: floats stay float64.

    Every value is looked at before numpy is: of texts, for one, it would make an array as wide as the longest.
    """
    mismatch = TensorError(f"expected data as {math.prod(shape)} numbers, flat or nested as the shape says, got others")
    if type(data) is not list or not data:
        raise mismatch
    if type(data[0]) is list:
        for length in shape[1:]:
            if set(map(type, data)) != {list} or {len(row) for row in data} != {length}:
                raise mismatch
            data = list(chain.from_iterable(data))
    if len(data) != math.prod(shape) or not set(map(type, data)) <= {int, float}:
        raise mismatch
    try:
        if datatype == "INT64":
            return np.array(data, np.int64).reshape(shape)
        if any(type(number) is int and abs(number) > WHOLE and int(float(number)) != number for number in data):
            raise TensorError("expected whole numbers that float64 holds exactly, got others")
        return np.array(data, np.float64).reshape(shape)
    except OverflowError as error:
        raise mismatch from error


def from_bytes(raw: bytes, datatype: str, shape: Sequence[int]) -> Array:
    """A tensor of numbers from its bytes."""
    kind = np.dtype(DATATYPES[datatype])
    if len(raw) != math.prod(shape) * kind.itemsize:
        raise TensorError(
            f"expected {math.prod(shape) * kind.itemsize} bytes for {datatype} of this shape, got {len(raw)}"
        )
    return np.frombuffer(raw, kind).reshape(shape)


def texts_from_bytes(raw: bytes) -> list[str]:
    """A tensor of texts from its bytes, each behind its length."""
    texts, at = list[str](), 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        texts.append(raw[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return texts


def joined(
    head: Mapping[str, Any], tensors: Mapping[str, Array | list[str]], raw: Mapping[str, bool], place: str
) -> tuple[bytes, int | None]:
    """(body, length of its JSON part, or None if that is all) of a message with tensors.

    tensors: numbers, or a list of texts. raw: which of them go as bytes. place: "inputs" or "outputs".
    """
    parts, described = list[bytes](), list[str]()
    for name, tensor in tensors.items():
        fields = _written({"name": name} | _described(tensor))
        if raw[name]:
            parts.append(_texts(tensor) if isinstance(tensor, list) else np.ascontiguousarray(tensor).tobytes())
            fields |= _written({"parameters": {"binary_data_size": len(parts[-1])}})
        else:
            fields["data"] = _data(tensor)
        described.append(_object(fields))
    text = _object(_written(head) | {place: f"[{','.join(described)}]"}).encode()
    return b"".join((text, *parts)), len(text) if parts else None


_json = json.JSONEncoder(separators=(",", ":")).encode


def _written(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: _json(value) for name, value in fields.items()}


def _object(fields: Mapping[str, str]) -> str:
    """A JSON object of values that are JSON already."""
    return "{" + ",".join(f"{_json(name)}:{value}" for name, value in fields.items()) + "}"


def _data(tensor: Array | list[str]) -> str:
    """Values as JSON, in pieces: all at once, an answer of many would stop the whole service meanwhile."""
    if isinstance(tensor, list):
        return _json(tensor)
    flat = tensor.reshape(-1)
    pieces = (_json(flat[at : at + PIECE].tolist())[1:-1] for at in range(0, len(flat), PIECE))
    return f"[{','.join(pieces)}]"


def _described(tensor: Array | list[str]) -> dict[str, Any]:
    if isinstance(tensor, list):
        return {"shape": [len(tensor)], "datatype": BYTES}
    return {"shape": list(tensor.shape), "datatype": NAMES[tensor.dtype]}


def _texts(texts: list[str]) -> bytes:
    return b"".join(struct.pack("<I", len(encoded)) + encoded for encoded in (text.encode() for text in texts))
