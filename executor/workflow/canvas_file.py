"""The parts of a canvas file that a conversion needs, typed. Version 0.4, and what older ones left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import WorkflowError

MUTED, BYPASSED = 2, 4


class Slot(msgspec.Struct):
    """An input or output of a node. `link` is the link that ends in an input."""

    name: str = ""
    type: Any = "*"
    link: int | str | None = None


class Node(msgspec.Struct):
    id: int | str
    type: str
    mode: int | None = 0
    title: str | None = None
    inputs: list[Slot] | None = None
    outputs: list[Slot] | None = None
    widgets_values: list[Any] | dict[str, Any] | None = None

    @property
    def runs(self) -> bool:
        return self.mode not in (MUTED, BYPASSED)


class _LinkArray(msgspec.Struct, array_like=True):
    """`[id, origin, output, target, input, type]`."""

    id: int | str
    origin_id: int | str
    origin_slot: int


class _LinkObject(msgspec.Struct):
    """The other way of writing a link."""

    id: int | str
    origin_id: int | str
    origin_slot: int


class _Subgraph(msgspec.Struct):
    id: str
    name: str = ""


class _Definitions(msgspec.Struct):
    subgraphs: list[_Subgraph] | None = None


class _Canvas(msgspec.Struct):
    nodes: list[Node]
    links: list[Any] | None = None
    definitions: _Definitions | None = None


def _link(content: Any) -> _LinkArray | _LinkObject:
    return msgspec.convert(content, _LinkArray if isinstance(content, list) else _LinkObject)


class Canvas:
    """Nodes by id, links by id, and the names of the subgraphs by the node type that stands for them."""

    def __init__(self, content: Mapping[str, Any]):
        """Raises WorkflowError, naming the place, for what ComfyUI could not have written."""
        try:
            held = msgspec.convert(content, _Canvas)
            links = [_link(link) for link in held.links or () if link is not None]
        except msgspec.ValidationError as error:
            raise WorkflowError(f"not a canvas file: {error}") from error
        self.nodes = {str(node.id): node for node in held.nodes}
        self.links = {link.id: (str(link.origin_id), link.origin_slot) for link in links}
        subgraphs = held.definitions.subgraphs if held.definitions else None
        self.subgraphs = {subgraph.id: subgraph.name or subgraph.id for subgraph in subgraphs or ()}
