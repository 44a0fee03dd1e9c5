"""Build graphs in code: the subgraphs that nodes expand into, and prompts of tests and scripts.

    graph = GraphBuilder()
    inverted = graph.node("ImageInvert", image=image)
    return {"result": (inverted.out(0),), "expand": graph.finalize()}

Method names are ComfyUI's, so a node moves between the two by its import line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from .prompt import is_link


class _Call:
    """The node call under way: every graph it builds gets the next number."""

    __slots__ = ("graphs", "index", "node_id")

    def __init__(self, node_id: str, index: int) -> None:
        self.node_id = node_id
        self.index = index
        self.graphs = 0

    def prefix(self) -> str:
        self.graphs += 1
        return f"{self.node_id}.{self.index}.{self.graphs - 1}."


_call: ContextVar[_Call | None] = ContextVar("slipstream_node_call", default=None)


def calling(node_id: str, index: int) -> None:
    """Builders made from here on belong to call `index` of the node; only inside `numbering`."""
    _call.set(_Call(node_id, index))


@contextmanager
def numbering() -> Iterator[None]:
    token = _call.set(None)
    try:
        yield
    finally:
        _call.reset(token)


class GraphBuilder:
    """Collects nodes. Ids are `prefix` + the given or a running id.

    Without a prefix, inside a node call it is `node.call.graph.`, so that ids are unique in the run and
    the same in every run (which the result cache needs); outside a call it is empty.
    """

    def __init__(self, prefix: str | None = None) -> None:
        if prefix is None:
            call = _call.get()
            prefix = "" if call is None else call.prefix()
        self.prefix = prefix
        self.nodes: dict[str, BuiltNode] = {}
        self._ids = count(1)

    def node(self, class_type: str, id: str | None = None, **inputs: Any) -> BuiltNode:
        """Add a node, or return the one that already has the id."""
        full_id = self.prefix + (str(next(self._ids)) if id is None else id)
        if full_id not in self.nodes:
            self.nodes[full_id] = BuiltNode(full_id, class_type, inputs)
        return self.nodes[full_id]

    def lookup_node(self, id: str) -> BuiltNode | None:
        return self.nodes.get(self.prefix + id)

    def remove_node(self, id: str) -> None:
        del self.nodes[self.prefix + id]

    def replace_node_output(self, id: str, index: int, value: Any) -> None:
        """Give every input linked to that output `value` instead; None removes the input."""
        link = [self.prefix + id, index]
        for node in self.nodes.values():
            for name in [name for name, given in node.inputs.items() if is_link(given) and given == link]:
                node.set_input(name, value)

    def finalize(self) -> dict[str, dict[str, Any]]:
        return {node.id: node.serialize() for node in self.nodes.values()}


class BuiltNode:
    def __init__(self, id: str, class_type: str, inputs: dict[str, Any]) -> None:
        self.id = id
        self.class_type = class_type
        self.inputs = inputs
        self.override_display_id: str | None = None

    def out(self, index: int) -> list[Any]:
        return [self.id, index]

    def set_input(self, name: str, value: Any) -> None:
        """Set an input; None removes it."""
        if value is None:
            self.inputs.pop(name, None)
        else:
            self.inputs[name] = value

    def get_input(self, name: str) -> Any:
        return self.inputs.get(name)

    def set_override_display_id(self, node_id: str) -> None:
        """Show this node as that one, instead of as the node that expanded into it."""
        self.override_display_id = node_id

    def serialize(self) -> dict[str, Any]:
        node = {"class_type": self.class_type, "inputs": self.inputs}
        if self.override_display_id is not None:
            node["override_display_id"] = self.override_display_id
        return node
