"""Maps that stay in columns between convolutions of columns, so that what is between them is computed in one go.

A compiler does not see that a sum in one of the two layouts and a norm in the other walk through the same memory: it
would write the sum, and read it again.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from anisocert.engine.rewriting._layers import ColumnsConv2d, merged, parted
from anisocert.engine.rewriting.graph import in_place, is_relu, is_sum_of_maps, layer

Wide = dict[fx.Node, tuple[fx.Node, int]]
"""For a map, the node that has it in columns, and how many columns that merges."""


def keep_columns(network: fx.GraphModule) -> None:
    """Let ReLUs, batch norms and sums of maps that come from convolutions of columns stay in their layout."""
    if any(in_place(network, node) and _shared(node) for node in network.graph.nodes):
        return  # a map in two layouts would be changed in one of them
    wide: Wide = {}
    for node in list(network.graph.nodes):
        conv = network.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(conv, ColumnsConv2d):
            first, *shortcuts = node.args
            terms = _in_columns(network, wide, node, [first], conv.columns, conv.padding)
            terms += _in_columns(network, wide, node, shortcuts, conv.columns)
            wide[node] = _added(network, node, "call_module", f"{node.target}.wide", *terms), conv.columns
            continue
        columns = next((wide[source][1] for source in node.all_input_nodes if source in wide), 0)
        if columns:
            _follow(network, wide, node, columns)
    for node in reversed(wide):
        if node.users:
            wide_map, columns = wide[node]
            node.replace_all_uses_with(_added(network, node, "call_function", parted, wide_map, columns))
        network.graph.erase_node(node)


def _shared(node: fx.Node) -> bool:
    """Whether others are given what a node is given."""
    return any(len(source.users) > 1 for source in node.all_input_nodes)


def _follow(network: fx.GraphModule, wide: Wide, node: fx.Node, columns: int) -> None:
    """Compute a node in columns, if that is possible."""
    called = layer(network, node)
    if is_relu(network, node) and node.args:
        terms = _in_columns(network, wide, node, node.args[:1], columns)
        wide[node] = _added(network, node, "call_function", F.relu, *terms), columns
    elif is_sum_of_maps(node):
        terms = _in_columns(network, wide, node, node.args, columns)
        wide[node] = _added(network, node, "call_function", torch.add, *terms), columns
    elif type(called) is nn.BatchNorm2d and called.running_mean is not None:
        name = f"{node.target}_in_columns"
        while name in dict(network.named_modules()):
            name += "_"
        network.add_submodule(name, _repeated(called, columns))
        terms = _in_columns(network, wide, node, node.args, columns)
        wide[node] = _added(network, node, "call_module", name, *terms), columns


def _in_columns(
    network: fx.GraphModule, wide: Wide, node: fx.Node, sources: Sequence[Any], columns: int, padding: int = 0
) -> list[fx.Node]:
    """Nodes, before a given one, that have maps in so many columns."""
    terms = []
    for source in sources:
        term, has = wide.get(source, (source, 0))
        if has != columns or padding:
            term = _added(network, node, "call_function", merged, source, columns, padding)
            term.meta = dict(source.meta)
        terms.append(term)
    return terms


def _added(network: fx.GraphModule, node: fx.Node, op: str, target: Any, *args: Any) -> fx.Node:
    with network.graph.inserting_before(node):
        added = network.graph.create_node(op, target, args)
    added.meta = dict(node.meta)
    return added


def _repeated(norm: nn.BatchNorm2d, columns: int) -> nn.BatchNorm2d:
    """A batch norm for maps in columns."""
    wide = copy.deepcopy(norm)
    wide.num_features *= columns
    for values in {id(one): one for one in (wide.running_mean, wide.running_var, wide.weight, wide.bias)}.values():
        if values is not None:
            values.data = values.data.repeat(columns)
    return wide
