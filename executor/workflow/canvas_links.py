"""Where an input on the canvas really gets its value from: through reroutes, bypassed nodes and the borders
of subgraphs. No recursion, and every stretch is walked once: a chain may be as long as it likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .canvas_file import BYPASSED, INPUTS_ID, MUTED, Link
from .errors import WorkflowError
from .expansion import Scope, Scopes
from .widgets import Widget
from .wiring import CANVAS_ONLY, GETTER, PASSING, SETTER, Classes, Wired, channel

WILDCARDS = frozenset({"", "*", "0"})


@dataclass(frozen=True, slots=True)
class Source:
    """What a link finally leads to: an output of a node, or (`widget`) a value that an instance of a
    subgraph holds."""

    scope: Scope
    node: Wired
    output: int = 0
    widget: Widget | None = None


class _Step(NamedTuple):
    """An output that somebody wants something of type `wanted` from."""

    scope: Scope
    node: str
    output: int
    wanted: str


class Links:
    def __init__(self, scopes: Scopes, classes: Classes):
        self._scopes = scopes
        self._classes = classes
        self._found: dict[_Step, Source | None] = {}

    def source(self, scope: Scope, wired: Wired, slot: int) -> Source | None:
        """What arrives at a slot of a node; None where nothing does."""
        walked: dict[_Step, None] = {}
        step = self._behind(scope, wired, slot, None)
        while isinstance(step, _Step):
            if step in self._found:
                step = self._found[step]
                break
            if step in walked:
                name = wired.slots[slot].name
                raise WorkflowError(
                    f"the input {name} of {scope.describe(wired)} comes from a circle of links"
                )
            walked[step] = None
            step = self._follow(step)
        for passed in walked:
            self._found[passed] = step
        return step

    def _behind(self, scope: Scope, wired: Wired, slot: int, wanted: str | None) -> _Step | Source | None:
        """One step back from an input: to the output that its link comes from, looking out of subgraphs."""
        while (link := wired.links.get(slot)) is not None:
            wanted = wanted if wanted is not None else _text(wired.slots[slot].type)
            if link.origin != INPUTS_ID or scope.host is None:
                return _Step(scope, link.origin, link.output, wanted)
            host = scope.host
            if not 0 <= link.output < len(host.slots):
                name = wired.slots[slot].name
                raise WorkflowError(
                    f"the input {name} of {scope.describe(wired)} comes from an input that its subgraph lacks"
                )
            if link.output not in host.links:
                widget = host.hosted.get(link.output)
                return Source(scope, host, -1, widget) if widget is not None else None
            scope, wired, slot, wanted = scope.parent, host, link.output, None
        return None

    def _follow(self, step: _Step) -> _Step | Source | None:
        scope, output = step.scope, step.output
        wired = scope.level.nodes.get(step.node)
        if wired is None:
            where = f"in {scope.describe(scope.host)}" if scope.host else "in the file"
            raise WorkflowError(f"a link comes from node {step.node}, which is not {where}")
        kind = wired.node.type
        if wired.node.mode == MUTED:
            return None
        if wired.node.mode == BYPASSED:
            slot = self._bypass(scope, wired, output, step.wanted)
            return None if slot is None else self._behind(scope, wired, slot, None)
        if self._scopes.is_instance(wired):
            return self._into(scope, wired, output, step.wanted)
        if self._classes.specs(kind) is None and kind in CANVAS_ONLY:
            if kind == GETTER:
                setter = scope.level.setters.get(channel(wired.node))
                return None if setter is None else self._behind(scope, setter, 0, step.wanted)
            passes = kind in PASSING or kind == SETTER
            return self._behind(scope, wired, output, step.wanted) if passes else None
        return Source(scope, wired, output)

    def _into(self, scope: Scope, host: Wired, output: int, wanted: str) -> _Step | Source | None:
        """From an output of a subgraph's instance to what feeds it inside."""
        inner = self._scopes.inside(scope, host)
        if not 0 <= output < len(inner.level.outputs):
            raise WorkflowError(
                f"a link comes from output {output} of {scope.describe(host)}, which it lacks"
            )
        link: Link | None = inner.level.outputs[output]
        if link is None:
            return None
        if link.origin == INPUTS_ID:
            return self._behind(scope, host, link.output, wanted)
        return _Step(inner, link.origin, link.output, wanted)

    def _bypass(self, scope: Scope, wired: Wired, output: int, wanted: str) -> int | None:
        """The slot that a bypassed node hands on for an output to somebody who wants that type."""
        slots = wired.slots
        if self._scopes.is_instance(wired):
            ports = self._scopes.inside(scope, wired).level
            made = ports.output_types[output] if output < len(ports.output_types) else None
        else:
            made = self._classes.output_type(wired.node, output)
        if made is None:
            raise WorkflowError(
                f"a link comes from output {output} of {scope.describe(wired)}, which it lacks"
            )
        if wanted in WILDCARDS:
            return (output if output < len(slots) else 0) if slots else None
        types = [_text(slot.type) for slot in slots]
        made = _text(made)
        if output < len(types) and _compatible(types[output], made) and _compatible(types[output], wanted):
            return output
        if wanted in types:
            return types.index(wanted)
        fitting = (i for i, kind in enumerate(types) if _compatible(kind, made) and _compatible(kind, wanted))
        return next(fitting, None)


def _text(kind: Any) -> str:
    return ",".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _compatible(a: str, b: str) -> bool:
    if a in WILDCARDS or b in WILDCARDS:
        return True
    return bool(set(a.lower().split(",")) & set(b.lower().split(",")))
