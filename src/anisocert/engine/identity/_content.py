"""Plain values, tensors, arrays and containers as bytes for a hash, the same in every process and on every device."""

import hashlib
import struct
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from anisocert.engine.wrapped import is_compiled
from anisocert.errors import ModelError

TENSORS = (Tensor, nn.Parameter, nn.Buffer)
REMEDY = "name the network yourself, with model_id=... (--model-id NAME) that changes whenever the network does"


class Content(ABC):
    """One walk through a graph of values into a hash.

    A mutable object that comes again is recorded by the number of its first visit, which also ends cycles.
    """

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # so that no id is reused
        self.path: list[str] = []

    def read(self, value: Any, at: str) -> None:
        """Hash a value. at: how it is reached from the one before, for the error message if it cannot be read."""
        self.path.append(at)
        if is_compiled(value):
            value = value._orig_mod  # the compiled form computes the same
        if not self._read_content(value):
            if id(value) in self.seen:
                self._put("again", self.seen[id(value)])
            else:
                self.seen[id(value)] = len(self.seen)
                self.alive.append(value)
                self._read_thing(value)
        self.path.pop()

    @abstractmethod
    def _read_object(self, value: Any) -> None:
        """Hash what is neither a plain value nor a container."""

    def _put(self, kind: str, *parts: object) -> None:
        """Each part with its length, so that no two sequences of parts look alike."""
        for part in (kind, *parts):
            self._put_bytes(part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass"))

    def _put_bytes(self, content: Any) -> None:
        self.digest.update(struct.pack("<Q", memoryview(content).nbytes))
        self.digest.update(content)

    def _refuse(self, value: object, reason: object) -> NoReturn:
        raise ModelError(
            f"expected a network whose parts can all be read for its hash, got {''.join(self.path)}, "
            f"{type(value).__name__}, which cannot ({reason}): {REMEDY}"
        )

    def _read_content(self, value: Any) -> bool:
        """Values that are nothing but their content, wherever they stand; False for anything else."""
        kind = type(value)
        if value is None or value is Ellipsis or value is NotImplemented:
            self._put("constant", value)
        elif kind is int:
            self._put("int", hex(value))
        elif kind in (float, complex):
            self._put(kind.__name__, struct.pack("<2d", value.real, value.imag))
        elif kind in (bool, str, bytes, bytearray):
            self._put(kind.__name__, bytes(value) if kind is bytearray else value)
        elif kind in (range, slice):
            self._sequence(kind.__name__, (value.start, value.stop, value.step))
        elif kind in (tuple, torch.Size):
            self._sequence("tuple", value)
        elif kind in (torch.dtype, torch.layout, torch.memory_format):
            self._put("torch", value)
        elif kind is torch.device:  # where it computes does not change what it computes
            self._put("device")
        elif kind in TENSORS and value.layout is torch.strided and not value.is_quantized:
            self._tensor(value)
        elif kind in (np.ndarray, np.memmap) or isinstance(value, np.generic):
            self._array(np.asarray(value))
        elif isinstance(value, torch.TypedStorage | torch.UntypedStorage):
            untyped = value.untyped()
            self._tensor(torch.empty(0, dtype=torch.uint8, device=untyped.device).set_(untyped))
        else:
            return False
        return True

    def _sequence(self, kind: str, values: Iterable[Any]) -> None:
        values = list(values)
        self._put(kind, len(values))
        for i, value in enumerate(values):
            self.read(value, f"[{i}]")

    def _tensor(self, value: Tensor) -> None:
        if value.is_meta:
            self._refuse(value, "it has no data")
        plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        self._put("tensor", plain.dtype, tuple(plain.shape))
        self._put_bytes(plain.reshape(-1).view(torch.uint8).numpy())
        if attributes := vars(value):
            self.read(attributes, ".__dict__")

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        self._put("array", value.dtype.str, value.shape, value.dtype.names)
        if value.dtype.names is not None:  # bytes between fields belong to none
            for name in value.dtype.names:
                self.read(value[name], f"[{name!r}]")
        elif value.dtype.hasobject:
            self._sequence("objects", value.reshape(-1).tolist())
        else:
            self._put_bytes(np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.size else b"")

    def _read_thing(self, value: Any) -> None:
        kind = type(value)
        if kind is list:
            self._sequence("list", value)
        elif kind in (dict, OrderedDict, MappingProxyType):
            self._mapping(value)
        elif kind in (set, frozenset):
            self._set(value)
        else:
            self._read_object(value)

    def _mapping(self, value: Any) -> None:
        """In its own order, which is the order that a Sequential, say, runs in."""
        self._put("mapping", len(value))
        for i, (key, item) in enumerate(value.items()):
            self.read(key, f".keys()[{i}]")
            self.read(item, f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]")

    def _fork(self) -> Self:
        """A separate walk from here."""
        fork = type(self)()
        fork.seen, fork.alive, fork.path = dict(self.seen), self.alive, [*self.path]
        return fork

    def _set(self, value: Iterable[Any]) -> None:
        """Sorted by the elements' own digests: a set's order changes from process to process."""
        digests = []
        for element in value:
            fork = self._fork()
            fork.read(element, "{...}")
            digests.append(fork.digest.digest())
        self._put("set", *sorted(digests))
