"""Tensor names of one layout turned into another's, from tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .files import Entry, Weights

INDEX = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Swapped:
    """The target has the two halves of the source's rows changed over (shift and scale of a norm)."""

    target: str


# One name; names that share the rows equally; names and the shares of the rows that they take.
Target = str | tuple[str, ...] | dict[str, int] | Swapped


def renamed(weights: Weights, table: Mapping[str, Target]) -> dict[str, Entry]:
    """Apply a table to every tensor; those that it does not name keep their names.

    A key is a whole tensor name or a name without its last part (`weight`, `bias`), which then carries
    over. `*` stands for the first number in a name, in keys and targets.
    """
    result: dict[str, Entry] = {}
    for name, entry in weights.items():
        stem, _, leaf = name.rpartition(".")
        number = INDEX.search(name)
        for key, ending in ((name, ""), (stem, f".{leaf}")):
            target = table.get(key)
            if target is None and number:
                target = table.get(INDEX.sub("*", key, count=1))
            if target is not None:
                for new, part in _apply(target, entry):
                    result[(new.replace("*", number[0]) if number else new) + ending] = part
                break
        else:
            result[name] = entry
    return result


def _apply(target: Target, entry: Entry) -> list[tuple[str, Entry]]:
    if isinstance(target, str):
        return [(target, entry)]
    if isinstance(target, Swapped):
        return [(target.target, entry.swapped())]
    shares = target if isinstance(target, dict) else dict.fromkeys(target, 1)
    unit = entry.shape[0] // sum(shares.values())
    parts, start = [], 0
    for name, share in shares.items():
        parts.append((name, entry.rows(start, start + share * unit)))
        start += share * unit
    return parts


def below(prefix: str, target: str, table: Mapping[str, Target]) -> dict[str, Target]:
    """A table for what lies below `prefix`, as one for whole names."""

    def prefixed(value: Target) -> Target:
        if isinstance(value, dict):
            return {target + name: share for name, share in value.items()}
        return tuple(target + name for name in value) if isinstance(value, tuple) else target + value

    return {prefix + key: prefixed(value) for key, value in table.items()}


def count(weights: Weights, pattern: str) -> int:
    """How many numbers from 0 on `pattern` (with one `*`) has as the beginning of a tensor name."""
    before, _, after = pattern.partition("*")
    numbers = set()
    for name in weights:
        if name.startswith(before):
            number, _, rest = name[len(before) :].partition(".")
            if number.isdigit() and f".{rest}".startswith(after):
                numbers.add(int(number))
    total = 0
    while total in numbers:
        total += 1
    return total
