"""A canvas file (what ComfyUI's "Save" writes) converted to a prompt (what its server runs).

The rules are those of ComfyUI's own frontend, as `tests/workflow/frontend.py` asks it: nodes that only exist
on the canvas disappear, muted nodes go, bypassed ones pass their inputs through, widget values are found by
position in definition order, subgraphs and group nodes are taken apart.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import canvas_file, widgets
from .canvas_links import Links
from .distinct_ids import make_distinct
from .errors import WorkflowError
from .expansion import Scope, Scopes, check_size, innermost_first
from .group_nodes import PREFIXES as GROUP_PREFIXES
from .group_nodes import to_subgraphs
from .promotion import Promotion
from .schema import Schema
from .widgets import Place
from .wiring import CANVAS_ONLY, NOT_REPLAYABLE, PRIMITIVE, Classes, Wired, wire

SUBGRAPH_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
PACK = ("cnr_id", "aux_id", "ver")  # what says which pack of nodes a node is from


@dataclass(frozen=True)
class Conversion:
    """`places` says where on the canvas the literal of (node id, input) is kept, for writing values back;
    values inside subgraphs, which several instances share, have none. `warnings` name the nodes that were
    converted by what the file itself tells."""

    prompt: dict[str, dict[str, Any]]
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def convert(content: Mapping[str, Any], schema: Schema, rng: random.Random | None = None) -> Conversion:
    """`rng` draws the alternatives of `{a|b}` in prompts; without one the first is taken.

    Raises WorkflowError, naming the node, for what is no canvas or cannot be followed.
    """
    classes = Classes(schema)
    canvas = canvas_file.read(content)
    to_subgraphs(canvas, classes)
    make_distinct(canvas)
    kinds = innermost_first(canvas)
    check_size(canvas, kinds)
    levels = {kind: wire(canvas.definitions[kind], classes, canvas.definitions) for kind in kinds}
    root = wire(canvas.root, classes, canvas.definitions)
    promotion = Promotion(levels)
    for level in (*levels.values(), root):
        promotion.settle(level)
    scopes = Scopes(root, levels)
    writer = _Writer(classes, Links(scopes, classes), rng)
    for scope, wired in scopes.running():
        writer.write(scope, wired)
    return writer.finished()


class _Writer:
    """Puts one node after the other into a prompt."""

    def __init__(self, classes: Classes, links: Links, rng: random.Random | None):
        self._classes = classes
        self._links = links
        self._rng = rng
        self._conversion = Conversion({})

    def write(self, scope: Scope, wired: Wired) -> None:
        node = wired.node
        if self._classes.specs(node.type) is None:
            if node.type in CANVAS_ONLY:
                return
            if node.type in NOT_REPLAYABLE:
                raise WorkflowError(
                    f"cannot be converted: {scope.describe(wired)} adds links by rules of its own when queued"
                )
            if SUBGRAPH_ID.fullmatch(node.type) or node.type.startswith(GROUP_PREFIXES):
                raise WorkflowError(f"the file lacks the nodes that {scope.describe(wired)} stands for")
            self._conversion.warnings.append(
                f"{scope.describe(wired)} has no definition here: converted by what the file tells"
            )
        pack = {name: node.property(name) for name in PACK if isinstance(node.property(name), str)}
        self._conversion.prompt[scope.prefix + wired.id] = {
            "inputs": self._inputs(scope, wired),
            "class_type": node.type,
            "_meta": {"title": node.title or self._classes.title(node.type), **pack},
        }

    def finished(self) -> Conversion:
        """Drops the inputs that come from nodes that are not in the prompt."""
        prompt = self._conversion.prompt
        for node in prompt.values():
            gone = [
                name
                for name, value in node["inputs"].items()
                if isinstance(value, list) and value[0] not in prompt
            ]
            for name in gone:
                del node["inputs"][name]
        return self._conversion

    def _inputs(self, scope: Scope, wired: Wired) -> dict[str, Any]:
        """The node's values, then its links, which go before values of the same name."""
        key = scope.prefix + wired.id
        places = self._conversion.places
        values: dict[str, Any] = {}
        for name, widget in wired.widgets.items():
            if not widgets.is_absent(widget):
                values[name] = widgets.serialized(widget, self._rng)
            if widget.key is not None and scope.host is None:
                places[key, name] = Place(wired.id, widget.key)
        for index, slot in enumerate(wired.slots):
            if index not in wired.links:
                continue
            source = self._links.source(scope, wired, index)
            if source is None:
                self._primitive(scope, wired, index, values)
            elif source.widget is not None:
                values[slot.name] = widgets.wrapped(source.widget.value)
                places.pop((key, slot.name), None)
                if source.widget.key is not None and source.scope.parent.host is None:
                    places[key, slot.name] = Place(source.node.id, source.widget.key)
            else:
                values[slot.name] = [source.scope.prefix + source.node.id, source.output]
                places.pop((key, slot.name), None)
        return values

    def _primitive(self, scope: Scope, wired: Wired, index: int, values: dict[str, Any]) -> None:
        """A PrimitiveNode writes its value into the widget that its link ends in."""
        slot, origin = wired.slots[index], scope.level.nodes.get(wired.links[index].origin)
        if origin is None or origin.node.type != PRIMITIVE or slot.widget is None:
            return
        widget = wired.widgets.get(slot.widget.name or "")
        held = origin.node.widgets_values
        if widget is None or not isinstance(held, list) or not held:
            return
        given = widgets.Widget(widget.spec, held[0], 0)
        values[slot.name] = widgets.serialized(given, self._rng)
        if scope.host is None:
            self._conversion.places[wired.id, slot.name] = Place(origin.id, 0)
