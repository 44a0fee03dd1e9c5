"""A canvas file (what ComfyUI's "Save" writes) converted to a prompt (what its server runs).

The rules are those of ComfyUI's own frontend: nodes that only exist on the canvas disappear, muted nodes
go, bypassed ones pass their inputs through, widget values are found by position in definition order.
Subgraphs and group nodes are refused by name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import widgets
from .canvas_file import Canvas, Node
from .canvas_links import slots, source_of
from .errors import UnknownNodes, WorkflowError
from .schema import Schema, inputs

CANVAS_ONLY = frozenset({"Note", "MarkdownNote", "Reroute", "PrimitiveNode"})
GROUP_PREFIXES = ("workflow>", "workflow/")
DYNAMIC_TYPES = ("COMFY_DYNAMICCOMBO", "COMFY_AUTOGROW", "COMFY_DYNAMICSLOT")  # inputs that come and go


@dataclass(frozen=True)
class Conversion:
    """`places` says where on the canvas the literal of (node id, input) is kept, for writing values back."""

    prompt: dict[str, dict[str, Any]]
    places: dict[tuple[str, str], widgets.Place] = field(default_factory=dict)


def convert(content: Mapping[str, Any], schema: Schema, rng: random.Random | None = None) -> Conversion:
    """`rng` draws the alternatives of `{a|b}` in prompts; without one the first is taken.

    Raises WorkflowError where a node's type is unknown or not yet convertible.
    """
    canvas = Canvas(content)
    running = {key: node for key, node in canvas.nodes.items() if node.runs and node.type not in CANVAS_ONLY}
    _refuse_unconvertible(running, canvas, schema)
    conversion = Conversion({})
    for node_id, node in running.items():
        title = node.title or schema[node.type].get("display_name") or node.type
        conversion.prompt[node_id] = {
            "inputs": _inputs(node_id, canvas, schema, conversion.places, rng),
            "class_type": node.type,
            "_meta": {"title": title},
        }
    return conversion


def _inputs(
    node_id: str,
    canvas: Canvas,
    schema: Schema,
    places: dict[tuple[str, str], widgets.Place],
    rng: random.Random | None,
) -> dict[str, Any]:
    """The node's values, then its links, which go before values of the same name. Adds to `places`."""
    node = canvas.nodes[node_id]
    values: dict[str, Any] = {}
    for spec, value, key in widgets.read(node.widgets_values, inputs(schema[node.type])):
        values[spec.name] = widgets.serialized(spec, value, rng)
        if key is not None:
            places[node_id, spec.name] = widgets.Place(node_id, key)
    for slot in slots(node, schema):
        source = source_of(slot, canvas, schema)
        if source is None:
            continue
        if source.is_value:
            kept = canvas.nodes[source.node].widgets_values
            values[slot.name] = widgets.wrapped(kept[0] if isinstance(kept, list) and kept else None)
            places[node_id, slot.name] = widgets.Place(source.node, 0)
        else:
            values[slot.name] = [source.node, source.output]
            places.pop((node_id, slot.name), None)
    return values


def _refuse_unconvertible(running: Mapping[str, Node], canvas: Canvas, schema: Schema) -> None:
    unknown: dict[str, list[str]] = {}
    for node_id, node in running.items():
        if (reason := _not_yet(node.type, canvas, schema)) is not None:
            raise WorkflowError(f"cannot be converted yet: node {node_id} {reason}")
        if node.type not in schema:
            unknown.setdefault(node.type, []).append(node_id)
    if unknown:
        raise UnknownNodes(unknown)


def _not_yet(kind: str, canvas: Canvas, schema: Schema) -> str | None:
    if kind in canvas.subgraphs:
        return f'is the subgraph "{canvas.subgraphs[kind]}"'
    if kind.startswith(GROUP_PREFIXES):
        return f'is the group node "{kind[len(GROUP_PREFIXES[0]) :]}"'
    for spec in inputs(schema.get(kind, {})):
        if spec.type.startswith(DYNAMIC_TYPES):
            return f"({kind}) has the input {spec.name} of the type {spec.type}"
    return None
