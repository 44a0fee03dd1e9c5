"""The values in a canvas node's `widgets_values`, matched to the inputs they belong to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import dynamic_prompt
from .schema import InputSpec


@dataclass(frozen=True)
class Place:
    """A place in a canvas file: `widgets_values[key]` of the node with this id."""

    node: str
    key: int | str


def read(held: Any, specs: Sequence[InputSpec]) -> Iterator[tuple[InputSpec, Any, int | str | None]]:
    """Every value input with its value and its key in `held`, a node's `widgets_values`; where that has none,
    the default and None.

    A list is positional, in definition order, with one more slot after an input that has a control; an
    object (some custom nodes) is by name.
    """
    valued = [spec for spec in specs if spec.is_value]
    if isinstance(held, Mapping):
        for spec in valued:
            key = spec.name if spec.name in held else None
            yield spec, held.get(spec.name, spec.default), key
        return
    held = held or []
    positions = _positions(specs, len(held))
    for spec in valued:
        position = positions[spec.name]
        if position < len(held):
            yield spec, held[position], position
        else:
            yield spec, spec.default, None


def _positions(specs: Sequence[InputSpec], count: int) -> dict[str, int]:
    """Where each value sits. Files from before canvas version 1.16 also hold a dummy for inputs that are
    links by declaration; they are told by their length."""
    taking = [spec for spec in specs if spec.is_value or spec.options.get("forceInput")]
    if sum(_width(spec) for spec in taking) != count:
        taking = [spec for spec in taking if spec.is_value]
    positions, position = {}, 0
    for spec in taking:
        positions[spec.name] = position
        position += _width(spec)
    return positions


def _width(spec: InputSpec) -> int:
    return 2 if spec.has_control else 1


def serialized(spec: InputSpec, value: Any, rng: random.Random | None) -> Any:
    """A widget's value as the prompt holds it."""
    if spec.options.get("dynamicPrompts") and isinstance(value, str):
        return dynamic_prompt.resolve(value, rng)
    return wrapped(value)


def wrapped(value: Any) -> Any:
    """A list as a value is wrapped, since a bare list in a prompt is a link."""
    return {"__value__": value} if isinstance(value, list) else value
