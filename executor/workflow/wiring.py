"""The nodes of one level of a canvas, each with its input slots as ComfyUI's canvas has them after loading,
the link that ends in each, and its widgets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import widgets
from .canvas_file import Graph, Link, Node, Port, Slot, WidgetOf
from .errors import WorkflowError
from .schema import AUTOGROW, DYNAMIC_COMBO, MATCHED, InputSpec, Schema
from .widgets import Widget

# Nodes that exist on the canvas only. The first let a value through, the others hold no part of the work.
PASSING = frozenset({"Reroute", "Reroute (rgthree)"})
PRIMITIVE = "PrimitiveNode"
SETTER, GETTER = "SetNode", "GetNode"
DRAWING = frozenset(
    {
        "Note",
        "MarkdownNote",
        "Bookmark (rgthree)",
        "Fast Bypasser (rgthree)",
        "Fast Groups Bypasser (rgthree)",
        "Fast Groups Muter (rgthree)",
        "Fast Muter (rgthree)",
        "Label (rgthree)",
    }
)
CANVAS_ONLY = PASSING | DRAWING | {PRIMITIVE, SETTER, GETTER}
# They add links when the canvas is queued, by rules of their own.
NOT_REPLAYABLE = frozenset(
    {
        "Anything Everywhere",
        "Anything Everywhere?",
        "Anything Everywhere3",
        "Prompts Everywhere",
        "Fast Actions Button (rgthree)",
        "Node Combiner (rgthree)",
        "Node Collector (rgthree)",
    }
)


@dataclass(slots=True, eq=False)
class Wired:
    """A node ready to be followed. `links` are by the index of the slot they end in; `hosted` are the values
    that an instance of a subgraph holds for its inputs, by the input's index."""

    id: str
    node: Node
    slots: list[Slot]
    links: dict[int, Link] = field(default_factory=dict)
    widgets: dict[str, Widget] = field(default_factory=dict)
    hosted: dict[int, Widget] = field(default_factory=dict)

    def __str__(self) -> str:
        title = f' "{self.node.title}"' if self.node.title else ""
        return f"node {self.id}{title} ({self.node.type})"


@dataclass
class Level:
    """The root or one subgraph. `ports` are a subgraph's inputs and outputs, `feeds` what each of its inputs
    leads to: (node, slot index) by the index of the input, in order."""

    name: str
    nodes: dict[str, Wired]
    inputs: list[Port]
    outputs: list[Link | None]
    output_types: list[Any]
    feeds: dict[int, list[tuple[Wired, int]]]
    setters: dict[Any, Wired]


class Classes:
    """The definitions of node classes, each read once."""

    def __init__(self, schema: Schema):
        self._schema = schema
        self._specs: dict[str, list[InputSpec] | None] = {}

    def specs(self, kind: str) -> list[InputSpec] | None:
        """The inputs of a class in order; None where nobody defines it."""
        if kind not in self._specs:
            known = kind in self._schema
            self._specs[kind] = widgets.specs_of(self._schema[kind], kind) if known else None
        return self._specs[kind]

    def title(self, kind: str) -> str:
        return self._schema.get(kind, {}).get("display_name") or kind

    def output_type(self, node: Node, index: int) -> Any:
        """The type of a node's output; None where it has none of that index."""
        declared = self._schema.get(node.type, {}).get("output") or ()
        if index < len(declared):
            kind = declared[index]
            return "COMBO" if isinstance(kind, (list, tuple)) else "*" if kind == MATCHED else kind
        held = node.outputs or ()
        return held[index].type if index < len(held) and held[index] is not None else None


def wire(graph: Graph, classes: Classes, definitions: Mapping[str, Graph]) -> Level:
    nodes = {key: _wired(key, node, classes, definitions) for key, node in graph.nodes.items()}
    incoming: dict[str, list[Link]] = defaultdict(list)
    for link in graph.links.values():
        incoming[link.target].append(link)
    for key, wired in nodes.items():
        if key in incoming:
            wired.links = _placed(wired, incoming[key])
        if classes.specs(wired.node.type) is not None:
            _drop_stale(wired)
    feeds: dict[int, list[tuple[Wired, int]]] = defaultdict(list)
    where: dict[str, tuple[Wired, int]] = {}
    if graph.inputs:
        where = {link.id: (wired, slot) for wired in nodes.values() for slot, link in wired.links.items()}
    for index, port in enumerate(graph.inputs):
        feeds[index] = [where[str(link)] for link in port.linkIds or () if str(link) in where]
    setters = {channel(wired.node): wired for wired in nodes.values() if wired.node.type == SETTER}
    types = [port.type for port in graph.outputs]
    return Level(graph.name, nodes, list(graph.inputs), _outputs(graph), types, feeds, setters)


def _wired(key: str, node: Node, classes: Classes, definitions: Mapping[str, Graph]) -> Wired:
    if node.type in definitions:
        held = {slot.name: slot for slot in node.inputs or ()}
        ports = definitions[node.type].inputs
        slots = [
            Slot(port.name, port.type, held[port.name].link if port.name in held else None) for port in ports
        ]
        return Wired(key, node, slots)
    specs = classes.specs(node.type)
    if specs is None:
        if node.type in CANVAS_ONLY:
            return Wired(key, node, list(node.inputs or ()))
        return Wired(key, node, list(node.inputs or ()), widgets=widgets.from_file(node))
    try:
        found = widgets.read(node, specs)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise WorkflowError(f"the values of {Wired(key, node, [])} cannot be read: {error!r}") from error
    return Wired(key, node, _slots(node, specs, found), widgets=found)


def _slots(node: Node, specs: list[InputSpec], found: Mapping[str, Widget]) -> list[Slot]:
    """The slots of a node whose class is known: those without a widget first, each kind in definition order,
    then what else the file has."""
    held = {slot.name: slot for slot in node.inputs or ()}

    def slot(name: str, kind: Any, widget: Any = None) -> Slot:
        old = held.pop(name, None)
        return Slot(name, kind, old.link if old else None, widget)

    made = [
        slot(spec.name, _socket_type(spec))
        for spec in specs
        if not spec.has_widget and spec.type not in (AUTOGROW, DYNAMIC_COMBO)
    ]
    for name, widget in found.items():
        made.append(slot(name, widget.spec.type, WidgetOf(name)))
    return made + list(held.values())


def _socket_type(spec: InputSpec) -> Any:
    """An input that takes the type of its neighbours starts with what it allows."""
    if spec.type != MATCHED:
        return spec.type
    template = spec.options.get("template")
    return (template.get("allowed_types") if isinstance(template, dict) else None) or "*"


def _placed(wired: Wired, incoming: list[Link]) -> dict[int, Link]:
    """The links by the slot they end in. A slot's own word for its link counts for more than the link's,
    whose index may come from an older definition of the class."""
    index_of: dict[str, int] = {}
    for index, slot in enumerate(wired.slots):
        index_of.setdefault(slot.name, index)
    own = {link.id: link for link in incoming}
    placed: dict[int, Link] = {}
    for slot in wired.node.inputs or ():
        link = own.get(str(slot.link)) if slot.link is not None else None
        if link is not None and slot.name in index_of:
            at = link.input
            if not (0 <= at < len(wired.slots) and wired.slots[at].name == slot.name):
                at = index_of[slot.name]
            placed.setdefault(at, own.pop(str(slot.link)))
    for link in own.values():
        if 0 <= link.input < len(wired.slots):
            placed.setdefault(link.input, link)
    return placed


def _drop_stale(wired: Wired) -> None:
    """Leave out the slots, and their links, for widgets that the class has no more. The frontend takes them
    out of the list that it is going through, so that it never looks at the one after."""
    kept: list[int] = []
    dropped = False
    for index, slot in enumerate(wired.slots):
        dropped = not dropped and slot.widget is not None and slot.widget.name not in wired.widgets
        if not dropped:
            kept.append(index)
    if len(kept) < len(wired.slots):
        fresh = {old: new for new, old in enumerate(kept)}
        wired.slots = [wired.slots[index] for index in kept]
        wired.links = {fresh[index]: link for index, link in wired.links.items() if index in fresh}


def _outputs(graph: Graph) -> list[Link | None]:
    """The link that each output of a subgraph is taken from."""
    return [
        next((graph.links[str(link)] for link in port.linkIds or () if str(link) in graph.links), None)
        for port in graph.outputs
    ]


def channel(node: Node) -> Any:
    """The name under which a SetNode keeps what a GetNode fetches."""
    held = node.widgets_values
    name = held[0] if isinstance(held, list) and held else None
    return name if isinstance(name, str) else None
