"""A graph of newer operators spelt out in those of operator set 17, as far as networks of images have them.

onnx2torch knows no newer ones, nor onnx's own conversion every way back: recent exports of networks with attention, or
with GELU, are out of reach of both. What comes out is compared with the file's own scores, so it may fail, but not lie.
"""

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

OPSET = 17  # the operator set that onnx2torch knows throughout
AXES = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2")  # they take their axes as an input from set 18 on


def spelt_out(graph: Any) -> Any:
    """A copy of a ModelProto in terms of operator set 17, or of its own where that is older."""
    graph = copy.deepcopy(graph)
    constants = constants_of(graph)
    renamed = _shared_weights(graph)
    nodes = list[Any]()
    for at, node in enumerate(graph.graph.node):
        if node.op_type == "Identity" and node.output[0] in renamed:
            continue
        for k, name in enumerate(node.input):
            node.input[k] = renamed.get(name, name)
        nodes.extend([node] if node.domain not in ("", "ai.onnx") else _spelt(node, f"spelt_{at}", constants))
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    for opset in graph.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = min(opset.version, OPSET)
    return graph


def constants_of(graph: Any) -> dict[str, Any]:
    """Tensors that the graph holds, by name."""
    constants = {tensor.name: tensor for tensor in graph.graph.initializer}
    for node in graph.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    return constants


def _shared_weights(graph: Any) -> dict[str, str]:
    """Other names of weights: torch's older exporter keeps equal ones, as biases of zero, once."""
    weights, returned = {one.name for one in graph.graph.initializer}, {one.name for one in graph.graph.output}
    aliases = [node for node in graph.graph.node if node.op_type == "Identity" and node.input[0] in weights]
    return {node.output[0]: node.input[0] for node in aliases if node.output[0] not in returned}


def _spelt(node: Any, name: str, constants: dict[str, Any]) -> Iterator[Any]:
    attributes, spelling = {entry.name: entry for entry in node.attribute}, _Spelling(name)
    if node.op_type == "Gelu":
        spelling.gelu(
            node.input[0], node.output[0], "approximate" in attributes and attributes["approximate"].s == b"tanh"
        )
    elif (
        node.op_type == "LayerNormalization"
        and len(node.output) == 1
        and ("axis" not in attributes or attributes["axis"].i == -1)
    ):
        spelling.layer_norm(
            list(node.input), node.output[0], attributes["epsilon"].f if "epsilon" in attributes else 1e-5
        )
    elif node.op_type in AXES and len(node.input) > 1 and node.input[1] in constants:
        from onnx import helper, numpy_helper

        node.attribute.append(helper.make_attribute("axes", numpy_helper.to_array(constants[node.input[1]]).tolist()))
        del node.input[1]
    for attribute in (
        "allowzero",
        "num_outputs",
    ):  # of Reshape, about empty maps; of Split, which parts its outputs tell
        if attribute in attributes:
            node.attribute.remove(attributes[attribute])
    yield from spelling.nodes or [node]


class _Spelling:
    """Nodes that take the place of one."""

    def __init__(self, name: str) -> None:
        self.name, self.nodes = name, list[Any]()

    def gelu(self, x: str, out: str, by_tanh: bool) -> None:
        if by_tanh:
            cube = self._add("Mul", self._add("Mul", x, x), x)
            inner = self._add("Add", x, self._add("Mul", cube, self._number(0.044715)))
            curve = self._add("Tanh", self._add("Mul", inner, self._number(math.sqrt(2 / math.pi))))
        else:
            curve = self._add("Erf", self._add("Mul", x, self._number(math.sqrt(0.5))))
        half = self._add("Mul", x, self._number(0.5))
        self._add("Mul", half, self._add("Add", curve, self._number(1.0)), out=out)

    def layer_norm(self, given: list[str], out: str, epsilon: float) -> None:
        centred = self._add("Sub", given[0], self._mean(given[0]))
        variance = self._mean(self._add("Mul", centred, centred))
        deviation = self._add("Sqrt", self._add("Add", variance, self._number(epsilon)))
        normed = self._add("Div", centred, deviation)
        biased = len(given) > 2 and given[2] != ""
        scaled = self._add("Mul", normed, given[1], out="" if biased else out)
        if biased:
            self._add("Add", scaled, given[2], out=out)

    def _mean(self, x: str) -> str:
        """Over the last axis, which stays."""
        return self._add("ReduceMean", x, axes=[-1], keepdims=1)

    def _number(self, value: float) -> str:
        from onnx import numpy_helper

        return self._add("Constant", value=numpy_helper.from_array(np.array(value, np.float32)))

    def _add(self, operator: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = f"{self.name}_{len(self.nodes)}"  # without one onnx2torch makes one that another node may have
        output = out or name
        self.nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output
