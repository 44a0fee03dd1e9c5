"""The parts of a canvas file that a conversion needs, typed and checked. Every version of the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .errors import WorkflowError

MUTED, BYPASSED = 2, 4
# Where the links of a subgraph's own inputs and outputs begin and end.
INPUTS_ID, OUTPUTS_ID = "-10", "-20"


class WidgetOf(msgspec.Struct):
    """Names the widget whose value a slot can replace."""

    name: str | None = None


class Slot(msgspec.Struct):
    """An input or output of a node. `link` is the link that ends in an input, `widget` the widget whose
    value the link replaces."""

    name: str = ""
    type: Any = "*"
    link: int | str | None = None
    widget: WidgetOf | None = None
    label: str | None = None


class Node(msgspec.Struct):
    id: int | str
    type: str
    mode: int | None = 0
    title: str | None = None
    inputs: list[Slot] | None = None
    outputs: list[Slot | None] | None = None
    properties: dict[str, Any] | list[Any] | None = None
    widgets_values: list[Any] | dict[str, Any] | str | float | bool | None = None
    widgets_values_named: dict[str, Any] | None = None

    @property
    def runs(self) -> bool:
        return self.mode not in (MUTED, BYPASSED)

    def property(self, name: str) -> Any:
        return self.properties.get(name) if isinstance(self.properties, dict) else None


class Link(msgspec.Struct, frozen=True):
    """From an output to an input. Ids are texts; `-10` and `-20` are a subgraph's inputs and outputs."""

    id: str
    origin: str
    output: int
    target: str
    input: int


class _LinkObject(msgspec.Struct):
    id: int | str
    origin_id: int | str
    origin_slot: int
    target_id: int | str
    target_slot: int


class _LinkArray(_LinkObject, array_like=True):
    """`[id, origin, output, target, input, type]`."""


class Port(msgspec.Struct):
    """An input or output of a subgraph."""

    name: str = ""
    type: Any = "*"
    linkIds: list[int | str] | None = None


class _Graph(msgspec.Struct):
    nodes: list[Any] | None = None
    links: list[Any] | dict[str, Any] | None = None
    last_node_id: int | None = None
    state: dict[str, Any] | None = None
    definitions: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    id: Any = None
    name: str | None = None
    inputs: list[Port] | None = None
    outputs: list[Port] | None = None


@dataclass
class Graph:
    """The nodes and links of one level: the file's own, or a subgraph's definition with its ports."""

    nodes: dict[str, Node]
    links: dict[str, Link]
    name: str = ""
    id: str = ""
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)


@dataclass
class Canvas:
    """The root, the subgraphs by the node type that stands for them, and the old group nodes by name."""

    root: Graph
    definitions: dict[str, Graph]
    groups: dict[str, Any]
    last_node_id: int


def read(content: Mapping[str, Any]) -> Canvas:
    """Raises WorkflowError, naming the place, for what is no canvas."""
    held = _convert(content, _Graph, "the file")
    definitions: dict[str, Graph] = {}
    waiting = [held]  # a subgraph may bring definitions of its own
    while waiting:
        for entry in _subgraphs(waiting.pop()):
            inner = _convert(entry, _Graph, "a subgraph definition")
            if not isinstance(inner.id, (str, int)):
                raise WorkflowError("not a canvas file: a subgraph definition has no id")
            definitions.setdefault(str(inner.id), _graph(inner, f'subgraph "{inner.name or inner.id}"'))
            waiting.append(inner)
    groups = (held.extra or {}).get("groupNodes")
    last = held.last_node_id if held.last_node_id is not None else (held.state or {}).get("lastNodeId")
    return Canvas(
        _graph(held, "the file"),
        definitions,
        groups if isinstance(groups, dict) else {},
        last if isinstance(last, int) else 0,
    )


def _subgraphs(held: _Graph) -> Iterable[Any]:
    found = (held.definitions or {}).get("subgraphs") or []
    if not isinstance(found, list):
        raise WorkflowError("not a canvas file: definitions.subgraphs is not a list")
    return found


def _graph(held: _Graph, where: str) -> Graph:
    nodes: dict[str, Node] = {}
    for entry in held.nodes or ():
        node = node_of(entry, where)
        if str(node.id) in nodes:
            raise WorkflowError(f"not a canvas file: {where} has two nodes with the id {node.id}")
        nodes[str(node.id)] = node
    links = held.links or []
    found = (link_of(link, where) for link in (links.values() if isinstance(links, dict) else links) if link)
    return Graph(
        nodes,
        {link.id: link for link in found},
        held.name or "",
        str(held.id or ""),
        list(held.inputs or ()),
        list(held.outputs or ()),
    )


def node_of(content: Any, where: str) -> Node:
    named = content if isinstance(content, Mapping) else {}
    title, kind = named.get("title") or named.get("type"), named.get("type")
    label = f'node {named["id"]} "{title}" ({kind})' if "id" in named else "a node"
    return _convert(content, Node, f"{label} in {where}")


def link_of(content: Any, where: str) -> Link:
    kind = _LinkArray if isinstance(content, list) else _LinkObject
    held = _convert(content, kind, f"a link in {where}")
    return Link(str(held.id), str(held.origin_id), held.origin_slot, str(held.target_id), held.target_slot)


def _convert(content: Any, kind: type, where: str) -> Any:
    """`content` as `kind`. Numbers that were written as texts, as some old programs did, are taken."""
    try:
        return msgspec.convert(content, kind, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise WorkflowError(f"not a canvas file: {where}: {error}") from error
