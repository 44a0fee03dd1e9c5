"""The values in a canvas node's `widgets_values`, matched to the inputs they belong to."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import dynamic_prompt
from .canvas_file import Node
from .schema import AUTOGROW, DYNAMIC_COMBO, InputSpec, inputs

# Widgets that ComfyUI's canvas adds to classes whose definitions lack them.
ADDED = {
    "SaveGLB": InputSpec("image", "PREVIEW_3D", {"default": ""}, True),
    "Preview3D": InputSpec("image", "PREVIEW_3D", {"default": ""}, True),
}
CURVE = {"points": [[0, 0], [1, 1]], "interpolation": "monotone_cubic"}
SAMPLERS = ("KSampler", "KSamplerAdvanced")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a canvas file: `widgets_values[key]` of the node with this id."""

    node: str
    key: int | str


@dataclass(frozen=True, slots=True)
class Widget:
    """One value on the canvas. `key` is where `widgets_values` holds it; None where it is the default."""

    spec: InputSpec
    value: Any
    key: int | str | None


def specs_of(definition: Mapping[str, Any], kind: str) -> list[InputSpec]:
    """The inputs of a class as its canvas node has them."""
    found = inputs(definition)
    if kind in ADDED and all(spec.name != ADDED[kind].name for spec in found):
        found.append(ADDED[kind])
    return found


def read(node: Node, specs: Sequence[InputSpec]) -> dict[str, Widget]:
    """Every widget of a node by name, in order.

    A list of values is positional, in definition order, with further slots after an input that has a
    control; an object (some custom nodes) is by name.
    """
    held = node.widgets_values
    widgets: dict[str, Widget] = {}
    if isinstance(held, dict):
        for spec in _expanded(node, specs, lambda spec: held.get(spec.name, spec.default)):
            key = spec.name if spec.name in held else None
            widgets[spec.name] = _widget(node, spec, held.get(spec.name, default_of(spec)), key)
        return widgets
    values = list(enumerate(held)) if isinstance(held, list) else []
    values = _without_dummies(values, specs)
    position = 0

    def current(spec: InputSpec) -> Any:
        return values[position][1] if position < len(values) else default_of(spec)

    for spec in _expanded(node, specs, current):
        key = values[position][0] if position < len(values) else None
        widgets[spec.name] = _widget(node, spec, current(spec), key)
        position += width(spec)
    return widgets


def _expanded(node: Node, specs: Sequence[InputSpec], value: Any) -> Iterator[InputSpec]:
    """The inputs with a widget; after a dynamic choice those that the chosen option brings, and last those
    that autogrow inputs have grown."""
    waiting = list(reversed(specs))
    late: list[InputSpec] = []
    while waiting:
        spec = waiting.pop()
        if spec.type == AUTOGROW:
            first, grown = _grown(node, spec)
            waiting += reversed(first)
            late += grown
        elif spec.has_widget:
            chosen = value(spec) if spec.type == DYNAMIC_COMBO else None
            yield spec
            waiting += reversed(option_inputs(spec, chosen))
    yield from late


def option_inputs(spec: InputSpec, chosen: Any) -> list[InputSpec]:
    """The inputs that an option of a dynamic choice brings, named `choice.input`."""
    options = spec.options.get("options")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, Mapping) and option.get("key") == chosen:
            return [
                _named(f"{spec.name}.{inner.name}", inner) for inner in inputs({"input": option["inputs"]})
            ]
    return []


def _grown(node: Node, spec: InputSpec) -> tuple[list[InputSpec], list[InputSpec]]:
    """The inputs of an autogrow input that have widgets: those of a new node, and those added since. There
    is always one more than are linked."""
    template = spec.options.get("template")
    inner = inputs(template) if isinstance(template, Mapping) else []
    if len(inner) != 1 or not inner[0].has_widget:
        return [], []
    listed, prefix = template.get("names"), template.get("prefix") or ""
    most = len(listed) if listed else template.get("max", 100)
    names = [f"{spec.name}.{name}" for name in listed or (f"{prefix}{index}" for index in range(most))]
    linked = {slot.name for slot in node.inputs or () if slot.link is not None}
    least = min(template.get("min", 1) + 1, most)
    used = max((index + 2 for index, name in enumerate(names) if name in linked), default=0)
    made = [_named(name, inner[0]) for name in names[: max(least, used)]]
    return made[:least], made[least:]


def _named(name: str, spec: InputSpec) -> InputSpec:
    return InputSpec(name, spec.type, spec.options, spec.required, spec.choices)


def _without_dummies(values: list[tuple[int, Any]], specs: Sequence[InputSpec]) -> list[tuple[int, Any]]:
    """Old files also hold a dummy for inputs that are links by declaration; their length tells."""
    if not any(spec.options.get("forceInput") for spec in specs):
        return values
    forced: list[bool] = []
    for spec in specs:
        if spec.has_widget or spec.options.get("forceInput"):
            forced.append(bool(spec.options.get("forceInput")))
            if spec.options.get("control_after_generate"):
                forced.append(False)
    if len(values) != len(forced):
        return values
    return [value for value, dummy in zip(values, forced, strict=True) if not dummy]


def width(spec: InputSpec) -> int:
    """How many places a widget takes: a control follows it, and a choice's control has a filter."""
    if not spec.has_control:
        return 1
    return 3 if spec.type == "COMBO" else 2


def default_of(spec: InputSpec) -> Any:
    if spec.type == DYNAMIC_COMBO:
        options = spec.options.get("options")
        first = options[0] if isinstance(options, list) and options else None
        return first.get("key") if isinstance(first, Mapping) else None
    if spec.type == "CURVE":
        return spec.options.get("default") or CURVE
    if spec.options.get("multi_select"):
        return []
    if spec.type == "COMBO":
        return spec.options.get("default") or (spec.choices[0] if spec.choices else None)
    return spec.default


def _widget(node: Node, spec: InputSpec, value: Any, key: int | str | None) -> Widget:
    if spec.type == "COMBO" and value is None and spec.choices:
        value = spec.choices[0]
    if spec.name == "sampler_name" and node.type in SAMPLERS and isinstance(value, str):
        value = value.removeprefix("sample_")
    if spec.options.get("multiline") and spec.type == "STRING" and not isinstance(value, str):
        value = "" if value is None else _text(value)
    return Widget(spec, value, key)


def _text(value: Any) -> str:
    """A value as a text field shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "[object Object]" if isinstance(value, dict) else str(value)


def is_absent(widget: Widget) -> bool:
    """Whether the prompt has no entry: an empty list of choices leaves nothing to choose."""
    return widget.value is None and widget.key is None


def serialized(widget: Widget, rng: random.Random | None) -> Any:
    """A widget's value as the prompt holds it."""
    if widget.spec.options.get("dynamicPrompts") and isinstance(widget.value, str):
        return dynamic_prompt.resolve(widget.value, rng)
    if widget.spec.type == "CURVE" and widget.value is not None:
        return {"__type__": "CURVE", "__value__": widget.value}
    return wrapped(widget.value)


def wrapped(value: Any) -> Any:
    """A list as a value is wrapped, since a bare list in a prompt is a link."""
    return {"__value__": value} if isinstance(value, list) else value


def from_file(node: Node) -> dict[str, Widget]:
    """The widgets of a node whose class nobody defines, as far as the file itself tells: by name where it
    names them, otherwise its widget inputs paired with its values in order."""
    held = node.widgets_values_named
    if held is None and isinstance(node.widgets_values, dict):
        held = node.widgets_values
    if held is not None:
        return {name: _untyped(name, value, name) for name, value in held.items() if not _is_control(name)}
    names = [slot.widget.name or slot.name for slot in node.inputs or () if slot.widget is not None]
    values = node.widgets_values if isinstance(node.widgets_values, list) else []
    return dict(_paired(names, values))


def _paired(names: Iterable[str], values: Sequence[Any]) -> Iterator[tuple[str, Widget]]:
    position = 0
    for name in names:
        if position >= len(values):
            return
        yield name, _untyped(name, values[position], position)
        position += 1
        if position < len(values) and values[position] in CONTROLS and isinstance(values[position - 1], int):
            position += 1


CONTROLS = ("fixed", "increment", "decrement", "randomize")


def _is_control(name: str) -> bool:
    return name in ("control_after_generate", "control_filter_list")


def _untyped(name: str, value: Any, key: int | str) -> Widget:
    return Widget(InputSpec(name, "*", {}, False), value, key)
