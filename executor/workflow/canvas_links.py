"""Where an input on the canvas really gets its value from: through reroutes and bypassed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .canvas_file import BYPASSED, MUTED, Canvas, Node, Slot
from .schema import Schema, inputs

WILDCARDS = frozenset({"", "*", "0"})


@dataclass(frozen=True)
class Source:
    """What a link finally leads to: another node's output, or a value kept in a PrimitiveNode."""

    node: str
    output: int = 0
    is_value: bool = False


def slots(node: Node, schema: Schema) -> list[Slot]:
    """The node's input slots in definition order, whatever order and subset the file holds.

    The file's own slots win where they exist; those that the definition lacks come last.
    """
    held = {slot.name: slot for slot in node.inputs or ()}
    specs = inputs(schema.get(node.type, {}))
    declared = [held.pop(spec.name, None) or Slot(spec.name, spec.type) for spec in specs]
    return [*declared, *held.values()]


def source_of(slot: Slot, canvas: Canvas, schema: Schema) -> Source | None:
    """Follow the slot's link to its end; None where nothing arrives."""
    wanted = str(slot.type)
    seen: set[tuple[str, int]] = set()
    while (link := canvas.links.get(slot.link)) is not None:
        origin, output = link
        node = canvas.nodes.get(origin)
        if node is None or link in seen:
            return None
        seen.add(link)
        if node.type == "PrimitiveNode":
            return Source(origin, is_value=True)
        if node.type == "Reroute":
            passed = next(iter(node.inputs or ()), None)
        elif node.mode == MUTED:
            passed = None
        elif node.mode == BYPASSED:
            passed = _bypass(slots(node, schema), node.outputs or (), output, wanted)
        else:
            return Source(origin, output)
        if passed is None:
            return None
        slot = passed
    return None


def _bypass(held: Sequence[Slot], outputs: Sequence[Slot], output: int, wanted: str) -> Slot | None:
    """The input that a bypassed node hands on for `outputs[output]` to a consumer of type `wanted`."""
    if not held:
        return None
    opposite = held[output] if output < len(held) else None
    if wanted in WILDCARDS:
        return opposite or held[0]
    made = str(outputs[output].type) if output < len(outputs) else "*"
    if opposite and _compatible(str(opposite.type), wanted) and _compatible(str(opposite.type), made):
        return opposite
    same = (slot for slot in held if str(slot.type) == wanted)
    fitting = (slot for slot in held if _compatible(str(slot.type), wanted))
    return next(same, None) or next(fitting, None)


def _compatible(a: str, b: str) -> bool:
    if a in WILDCARDS or b in WILDCARDS:
        return True
    return bool(set(a.lower().split(",")) & set(b.lower().split(",")))
