"""Tracing of networks whose code decides by the sizes of its maps, which are the same for all inputs of a shape.

torch.fx hands stand-ins to `forward`, and to it `x.shape` is a stand-in as well. Here each one knows what it stands
for, in batches of several sizes and without values: what is the same in all does not depend on the batch, and is told.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from anisocert.engine.rewriting.graph import hooked, of_a_library
from anisocert.engine.rewriting.tracing import Tracer

ROWS = (1, 5, 7, 64, 20_011)  # of a single one much is squeezed; code may cut or pad batches to some size
TOLD = ("ndim", "device")  # attributes; not the type, which is another one where a network is put into bfloat16
UNKNOWN = object()


class Known(fx.Proxy):
    """A stand-in that tells sizes. values: what it stands for in each batch; UNKNOWN: some code does not run so."""

    values: tuple[Any, ...] = (UNKNOWN,) * len(ROWS)

    def __getattr__(self, name: str) -> Any:
        if name == "shape":
            sizes = self._sizes(lambda: super(Known, self).__getattr__(name))
            if sizes is not None:
                return sizes
        value = self._told(name) if name in TOLD else None
        return super().__getattr__(name) if value is None else value

    def size(self, dim: int | None = None) -> Any:
        """See Tensor."""
        sizes = self._sizes(lambda: self.tracer.create_proxy("call_method", "size", (self,), {}))
        if sizes is None:
            return self.tracer.create_proxy("call_method", "size", (self,) if dim is None else (self, dim), {})
        return sizes if dim is None else sizes[dim]

    def dim(self) -> Any:
        """See Tensor."""
        ndim = self._told("ndim")
        return self.tracer.create_proxy("call_method", "dim", (self,), {}) if ndim is None else ndim

    def _told(self, name: str) -> Any:
        """An attribute that is the same in all batches; None if it is not."""
        if not all(isinstance(value, Tensor) for value in self.values):
            return None
        attributes = {getattr(value, name) for value in self.values}
        return attributes.pop() if len(attributes) == 1 else None

    def _sizes(self, stand_in: Callable[[], fx.Proxy]) -> tuple[Any, ...] | None:
        """Numbers where they are known, and parts of a stand-in where they depend on the batch."""
        if self._told("ndim") is None:
            return None
        axes = [set(sizes) for sizes in zip(*(value.shape for value in self.values), strict=True)]
        whole: Any = None if all(len(sizes) == 1 for sizes in axes) else stand_in()
        return tuple(sizes.pop() if len(sizes) == 1 else operator.getitem(whole, i) for i, sizes in enumerate(axes))


class SizesTracer(Tracer):
    """Traces a network for inputs of a sample's shape, in batches of any size. sample: `b x *shape`."""

    def __init__(self, sample: Tensor) -> None:
        from torch._subclasses import FakeTensorMode  # with torch's compiler, which takes a second

        super().__init__()
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        with self._mode:
            self._batches = [torch.empty(rows, *sample.shape[1:], device=sample.device) for rows in ROWS]
        self._running = False  # a part of the network, for what a stand-in stands for: nothing of that is traced

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """See Tracer."""
        return forward(*args, **kwargs) if self._running else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """See Tracer."""
        return attr_val if self._running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """See Tracer."""
        return Known(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *others: Any, **more: Any) -> Any:
        """See Tracer."""
        stand_in = super().create_proxy(kind, target, args, kwargs, *others, **more)
        if isinstance(stand_in, Known):
            stand_in.values = tuple(self._stood_for(at, kind, target, args, kwargs) for at in range(len(ROWS)))
        return stand_in

    def _stood_for(self, at: int, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """What a stand-in stands for in one of the batches."""
        try:
            positional, named = fx.node.map_aggregate((args, kwargs), partial(self._value, at))
            self._running = True
            with torch.no_grad(), self._mode:
                return self._run(kind, target, positional, named, at)
        except Exception:  # code that looks at values, or at what is not known: torch.fx will see
            return UNKNOWN
        finally:
            self._running = False

    def _value(self, at: int, argument: Any) -> Any:
        if isinstance(argument, fx.proxy.Attribute):
            return getattr(self._value(at, argument.root), argument.attr)
        if not isinstance(argument, Known):
            return argument
        if argument.values[at] is UNKNOWN:
            raise ValueError("unknown")
        return argument.values[at]

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any, at: int) -> Any:
        if kind == "placeholder":
            return self._batches[at] if not args else args[0]  # what it is by default: another argument than the batch
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "call_function":
            if not of_a_library(target):  # the user's: it might keep what has no values
                raise ValueError("not run")
            return target(*args, **kwargs)
        assert isinstance(self.root, nn.Module)
        if kind == "get_attr":
            return operator.attrgetter(target)(self.root)
        called = self.root.get_submodule(target)
        if any(hooked(module) or not type(module).__module__.startswith("torch.nn.") for module in called.modules()):
            raise ValueError("not run")
        return called(*args, **kwargs)
