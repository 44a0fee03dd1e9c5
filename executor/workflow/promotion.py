"""The values that an instance of a subgraph holds for widgets inside it, and that win over theirs.

Newer files keep them by input of the subgraph. Older ones list "proxied" widgets by inner node and name: each
of these is made an input of the subgraph here, which is what ComfyUI's frontend does on loading.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from .canvas_file import INPUTS_ID, Link, Port, Slot
from .distinct_ids import PROXIES
from .widgets import Widget
from .wiring import PRIMITIVE, Level, Wired

QUARANTINE = "proxyWidgetErrorQuarantine"
PREFIX = re.compile(r"\s*\d+\s*:\s*(.+)", re.DOTALL)


class Promotion:
    """`levels` by the node type that stands for them; `instances` of each, filled as levels are taken."""

    def __init__(self, levels: Mapping[str, Level]):
        self._levels = levels
        self._instances: dict[str, list[Wired]] = defaultdict(list)

    def settle(self, level: Level) -> None:
        """Give the subgraph instances on a level their values. Inner levels have to be settled before."""
        hosts = [wired for wired in level.nodes.values() if wired.node.type in self._levels]
        for host in hosts:
            self._instances[host.node.type].append(host)
            self._host(host)
        for host in hosts:
            self._adopt_proxies(host)

    def _host(self, host: Wired) -> None:
        level = self._levels[host.node.type]
        held = host.node.widgets_values
        values = held if isinstance(held, list) else []
        quarantined = dict(_quarantined(host.node.property(QUARANTINE)))
        host.slots += [Slot(port.name, port.type) for port in level.inputs[len(host.slots) :]]
        position = 0
        for index, port in enumerate(level.inputs):
            inner = _inner(level, index)
            if inner is None:
                continue
            key = position if position < len(values) else None
            value = values[position] if key is not None else inner.value
            value = quarantined.get(port.name, value)
            host.hosted[index] = _hosted(inner, value, key)
            position += 1

    def _adopt_proxies(self, host: Wired) -> None:
        held = host.node.widgets_values
        values = held if isinstance(held, list) else []
        level = self._levels[host.node.type]
        primitives: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for position, (node_id, name, *other) in enumerate(_proxies(host.node.property(PROXIES))):
            name = _stripped(level, node_id, name)
            index = _input_for(level, node_id, name)
            if index is None and node_id == "-1":
                index = next((i for i in host.hosted if level.inputs[i].name == name), None)
            if index is None and node_id in level.nodes and not name.startswith("$$"):
                source = level.nodes[node_id]
                if source.node.type == PRIMITIVE:
                    primitives[node_id].append((name, position))
                    continue
                slot = self._slot_for(source, name, other[0] if other else None)
                if slot is not None:
                    index = self._add_input(host, name, source.slots[slot].type, [(source, slot)])
            if index is not None and index in host.hosted and position < len(values):
                host.hosted[index] = _hosted(host.hosted[index], values[position], position)
        for node_id, entries in primitives.items():
            self._adopt_primitive(host, level.nodes[node_id], entries, values)

    def _adopt_primitive(
        self, host: Wired, primitive: Wired, entries: list[tuple[str, int]], values: list[Any]
    ) -> None:
        """A proxied PrimitiveNode becomes an input that feeds what the primitive fed."""
        level = self._levels[host.node.type]
        names = {name for name, _ in entries}
        targets = [
            (wired, slot)
            for wired in level.nodes.values()
            for slot, link in wired.links.items()
            if link.origin == primitive.id and link.output == 0
        ]
        outputs = primitive.node.outputs or []
        kind = outputs[0].type if outputs and outputs[0] is not None else None
        fitting = all(wired.slots[slot].type in (kind, "*") or kind == "*" for wired, slot in targets)
        if len(names) != 1 or not targets or kind is None or not fitting:
            return
        title = primitive.node.title
        name = title if title and title != PRIMITIVE else names.pop()
        index = self._add_input(host, name, kind, targets)
        if index not in host.hosted:
            return
        position = next((position for _, position in entries if position < len(values)), None)
        if position is not None:
            host.hosted[index] = _hosted(host.hosted[index], values[position], position)

    def _slot_for(self, source: Wired, name: str, inner: str | None) -> int | None:
        """The slot of a node inside that stands for its widget of that name."""
        if source.node.type in self._levels:
            level = self._levels[source.node.type]
            for index in source.hosted:
                origin = _source(level, index)
                if inner is not None and origin == (inner, name):
                    return index
                if inner is None and (level.inputs[index].name == name or (origin and origin[1] == name)):
                    return index
            return None
        if name not in source.widgets:
            return None
        slots = enumerate(source.slots)
        return next((index for index, slot in slots if slot.widget and slot.widget.name == name), None)

    def _add_input(self, host: Wired, name: str, kind: Any, targets: list[tuple[Wired, int]]) -> int:
        """A new input of the host's subgraph, on all its instances."""
        level = self._levels[host.node.type]
        index = len(level.inputs)
        level.inputs.append(Port(_unique(name, {port.name for port in level.inputs}), kind))
        level.feeds[index] = targets
        inner = _inner(level, index)
        for wired, slot in targets:
            wired.links[slot] = Link(f"proxy {index}", INPUTS_ID, index, wired.id, slot)
        for instance in self._instances[host.node.type]:
            instance.slots.append(Slot(level.inputs[index].name, kind))
            if inner is not None:
                instance.hosted[index] = _hosted(inner, inner.value, None)
        return index


def _hosted(inner: Widget, value: Any, key: int | None) -> Widget:
    if value is None and inner.spec.type == "COMBO" and inner.spec.choices:
        value = inner.spec.choices[0]
    return Widget(inner.spec, value, key)


def _inner(level: Level, index: int) -> Widget | None:
    """The widget inside that an input of a subgraph stands for."""
    return next((widget for widget in map(_widget_at, level.feeds.get(index, ())) if widget), None)


def _widget_at(feed: tuple[Wired, int]) -> Widget | None:
    wired, index = feed
    if index in wired.hosted:
        return wired.hosted[index]
    widget = wired.slots[index].widget if index < len(wired.slots) else None
    return wired.widgets.get(widget.name or "") if widget else None


def _source(level: Level, index: int) -> tuple[str, str] | None:
    """(node, widget name) of what an input of a subgraph stands for."""
    for wired, slot in level.feeds.get(index, ()):
        if _widget_at((wired, slot)) is not None:
            held = wired.slots[slot]
            return wired.id, held.name if slot in wired.hosted else held.widget.name
    return None


def _input_for(level: Level, node_id: str, name: str) -> int | None:
    indices = range(len(level.inputs))
    return next((index for index in indices if _source(level, index) == (node_id, name)), None)


def _stripped(level: Level, node_id: str, name: str) -> str:
    """Names of nested widgets were once written with their node ids before them: `12: 7: seed`."""
    source = level.nodes.get(node_id)
    known = source is not None and (
        name in source.widgets or any(source.slots[index].name == name for index in source.hosted)
    )
    while not known and (match := PREFIX.fullmatch(name)):
        name = match[1]
    return name


def _proxies(content: Any) -> list[list[str]]:
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return []
    entries = content if isinstance(content, list) else []
    fine = all(
        isinstance(entry, list) and len(entry) in (2, 3) and all(isinstance(part, str) for part in entry)
        for entry in entries
    )
    return entries if fine else []


def _quarantined(content: Any) -> Iterable[tuple[str, Any]]:
    """Values by input name that an earlier loading could not place elsewhere; the first of a name counts."""
    for entry in reversed(content if isinstance(content, list) else []):
        original = entry.get("originalEntry") if isinstance(entry, dict) else None
        if isinstance(original, list) and len(original) > 1 and original[0] == "-1" and "hostValue" in entry:
            yield str(original[1]), entry["hostValue"]


def _unique(name: str, taken: set[str]) -> str:
    number, unique = 0, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
