"""Group nodes of old files (`workflow>Name`, or `workflow/Name`), each made a subgraph, as ComfyUI's frontend
does on loading: the inner nodes take new ids, and then the instance does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from . import widgets
from .canvas_file import INPUTS_ID, OUTPUTS_ID, Canvas, Graph, Link, Node, Port, Slot, node_of
from .errors import UnknownNodes, WorkflowError
from .schema import InputSpec
from .wiring import CANVAS_ONLY, PRIMITIVE, Classes

PREFIXES = ("workflow>", "workflow/")


class _Kept(msgspec.Struct):
    """One entry of a file's `extra.groupNodes`; a link is `[node index, output, node index, input, ...]`."""

    nodes: list[dict[str, Any]]
    links: list[list[Any]] = []
    external: list[list[Any]] | None = None
    config: dict[str, Any] | None = None


@dataclass
class _Layout:
    """What a group's node has on the outside: the values, inputs and outputs of which inner node (index)."""

    values: list[tuple[int, InputSpec]] = field(default_factory=list)
    inputs: list[tuple[str, int, str, Any]] = field(default_factory=list)
    outputs: list[tuple[int, int]] = field(default_factory=list)


def to_subgraphs(canvas: Canvas, classes: Classes) -> None:
    """Replace the group nodes on the root, in their order."""
    instances = [node for node in canvas.root.nodes.values() if node.type.startswith(PREFIXES)]
    for node in instances:
        if node.type[len(PREFIXES[0]) :] in canvas.groups:
            _replace(node, canvas, classes)


def _replace(node: Node, canvas: Canvas, classes: Classes) -> None:
    name = node.type[len(PREFIXES[0]) :]
    where = f'the group node "{name}" (node {node.id})'
    try:
        kept = msgspec.convert(canvas.groups[name], _Kept, strict=False)
        links = [(int(a), int(b), int(c), int(d)) for a, b, c, d, *_ in kept.links if a is not None]
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise WorkflowError(f"not a canvas file: {where}: {error}") from error
    inner = [node_of({**entry, "id": index}, where) for index, entry in enumerate(kept.nodes)]
    # Which values and inputs the group has, and in which order, only their definitions tell.
    unknown = {one.type for one in inner if classes.specs(one.type) is None} - CANVAS_ONLY
    if unknown:
        raise UnknownNodes({kind: [str(node.id)] for kind in sorted(unknown)})
    if any(not (0 <= a < len(inner) and 0 <= c < len(inner)) for a, _, c, _ in links):
        raise WorkflowError(f"not a canvas file: {where} has a link to a node that it lacks")
    layout = _layout(inner, links, kept, classes)
    taken = {*canvas.root.nodes, *(key for graph in canvas.definitions.values() for key in graph.nodes)}
    ids = [_fresh(canvas, taken) for _ in inner]
    own = _fresh(canvas, taken)
    canvas.definitions[f"{node.type} {own}"] = _subgraph(name, node, inner, ids, links, layout)
    _swap(canvas.root, node, own)


def _fresh(canvas: Canvas, taken: set[str]) -> str:
    canvas.last_node_id += 1
    while str(canvas.last_node_id) in taken:
        canvas.last_node_id += 1
    return str(canvas.last_node_id)


def _swap(root: Graph, node: Node, own: str) -> None:
    """Put the instance of the subgraph, which always runs, in the place of the group node."""
    old = str(node.id)
    del root.nodes[old]
    root.nodes[own] = msgspec.structs.replace(
        node, id=own, type=f"{node.type} {own}", mode=0, widgets_values=None, properties=None
    )
    root.links = {
        key: Link(
            link.id,
            own if link.origin == old else link.origin,
            link.output,
            own if link.target == old else link.target,
            link.input,
        )
        for key, link in root.links.items()
    }


def _layout(
    inner: list[Node], links: Iterable[tuple[int, int, int, int]], kept: _Kept, classes: Classes
) -> _Layout:
    into = {(target, slot) for _, _, target, slot in links}
    out_of = {(origin, output) for origin, output, _, _ in links}
    shown = {(int(entry[0]), int(entry[1])) for entry in kept.external or () if len(entry) > 1}
    layout, seen = _Layout(), {}
    late: list[tuple[int, int, InputSpec]] = []  # widgets that had been made inputs come after all others
    for index, node in enumerate(inner):
        config = (kept.config or {}).get(str(index))
        config = config if isinstance(config, Mapping) else {}
        slots = {slot.name: (at, slot) for at, slot in enumerate(node.inputs or ())}
        specs = classes.specs(node.type)
        if specs is None:
            specs = _virtual_specs(index, node, inner, links, classes)
        position = 0
        for spec in specs:
            at, slot = slots.get(spec.name, (None, None))
            if spec.has_widget:
                if slot is not None and slot.widget is not None and slot.widget.name == spec.name:
                    late.append((at, index, spec))
                else:
                    _named(node, spec.name, config, seen)
                    layout.values.append((index, spec))
                continue
            at = position if at is None else at
            position += 1
            if (index, at) not in into:
                name = _named(node, spec.name, config, seen)
                layout.inputs.append((name, index, slot.name if slot else spec.name, spec.type))
        for output in range(_output_count(node, classes)):
            custom = _entry(config, "output", output).get("visible")
            linked = (index, output) in out_of and (index, output) not in shown
            if custom if isinstance(custom, bool) else not linked:
                layout.outputs.append((index, output))
    for at, index, spec in sorted(late, key=lambda entry: (entry[1], entry[0])):
        if (index, at) not in into:
            name = _named(inner[index], spec.name, {}, seen)
            layout.values.append((index, spec))
            layout.inputs.append((name, index, spec.name, spec.type))
    return layout


def _virtual_specs(
    index: int, node: Node, inner: list[Node], links: Iterable[tuple[int, int, int, int]], classes: Classes
) -> list[InputSpec]:
    """A PrimitiveNode has the value of what it feeds, a Reroute one input."""
    if node.type != PRIMITIVE:
        return [InputSpec(slot.name, str(slot.type), {}, True) for slot in node.inputs or ()]
    for origin, _, target, slot in links:
        held = inner[target].inputs or ()
        if origin == index and slot < len(held):
            name = held[slot].name
            specs = classes.specs(inner[target].type) or ()
            fed = next((spec for spec in specs if spec.name == name and spec.has_widget), None)
            if fed is not None:
                options = {**fed.options, "control_after_generate": True}
                return [InputSpec("value", fed.type, options, True, fed.choices)]
    return []


def _output_count(node: Node, classes: Classes) -> int:
    count = len(node.outputs or ())
    while classes.output_type(node, count) is not None:
        count += 1
    return 0 if node.type == PRIMITIVE else count


def _entry(config: Mapping[str, Any], section: str, key: Any) -> Mapping[str, Any]:
    part = config.get(section)
    found = part.get(str(key)) if isinstance(part, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _named(node: Node, name: str, config: Mapping[str, Any], seen: dict[str, int]) -> str:
    """The name on the outside, made unique with the inner node's title."""
    slot = next((slot for slot in node.inputs or () if slot.name == name), None)
    key = outside = _entry(config, "input", name).get("name") or (slot and slot.label) or name
    if (node.type == PRIMITIVE and node.title) or outside in seen:
        prefix = f"{node.title or node.type} "
        key = outside = prefix + name
        if outside in seen:
            outside = f"{prefix}{seen[outside]} {name}"
    seen[key] = seen.get(key, 1) + 1
    return outside


def _subgraph(
    name: str,
    node: Node,
    inner: list[Node],
    ids: list[str],
    links: Iterable[tuple[int, int, int, int]],
    layout: _Layout,
) -> Graph:
    """The definition of one instance, its inner nodes holding the values of the instance."""
    nodes = {}
    for index, values in _values(node, inner, layout).items():
        nodes[ids[index]] = msgspec.structs.replace(inner[index], id=ids[index], widgets_values=values)
    graph = Graph(nodes, {}, name)

    def connect(origin: str, output: int, target: str, slot: int) -> str:
        key = f"group {len(graph.links)}"
        graph.links[key] = Link(key, origin, output, target, slot)
        return key

    for a, output, c, slot in links:
        key = connect(ids[a], output, ids[c], slot)
        _attach(nodes[ids[c]], slot, key)
    for outside, index, name_inside, kind in layout.inputs:
        held = nodes[ids[index]].inputs or []
        at = next((at for at, slot in enumerate(held) if slot.name == name_inside), None)
        if at is None:
            nodes[ids[index]].inputs = [*held, Slot(name_inside, kind)]
            at = len(held)
        key = connect(INPUTS_ID, len(graph.inputs), ids[index], at)
        _attach(nodes[ids[index]], at, key)
        graph.inputs.append(Port(outside, kind, [key]))
    for index, output in layout.outputs:
        key = connect(ids[index], output, OUTPUTS_ID, len(graph.outputs))
        graph.outputs.append(Port("", "*", [key]))
    return graph


def _attach(node: Node, slot: int, key: str) -> None:
    held = node.inputs or []
    if slot < len(held):
        node.inputs = [msgspec.structs.replace(s, link=key) if i == slot else s for i, s in enumerate(held)]


def _values(node: Node, inner: list[Node], layout: _Layout) -> dict[int, Any]:
    """The `widgets_values` of every inner node, by name; those of a PrimitiveNode are a list."""
    held = node.widgets_values if isinstance(node.widgets_values, list) else []
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    position = 0
    for index, spec in layout.values:
        found[index][spec.name] = held[position] if position < len(held) else widgets.default_of(spec)
        position += widgets.width(spec)
    return {
        index: [found[index]["value"]] if one.type == PRIMITIVE and "value" in found[index] else found[index]
        for index, one in enumerate(inner)
    }
