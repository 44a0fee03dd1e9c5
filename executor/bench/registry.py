"""What a benchmark is, and which there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, NamedTuple

# Imported when benchmarks are asked for. Each has functions marked with `benchmark`, and imports nothing
# heavy before those are called.
_MODULES = ("convert", "engine", "hello", "server")


class Unavailable(Exception):
    """A benchmark needs what is not installed. The message is one sentence that says how to get it."""


class Figure(NamedTuple):
    """One measured value and what it has to be: at most (`<=`) or at least (`>=`) the target."""

    name: str
    value: float
    unit: str
    target: float
    comparison: Literal["<=", ">="]

    @property
    def ok(self) -> bool:
        return self.value <= self.target if self.comparison == "<=" else self.value >= self.target


@dataclass(frozen=True)
class Benchmark:
    name: str
    description: str
    measure: Callable[[], Sequence[Figure]]


_registered: dict[str, Benchmark] = {}


def benchmark(
    name: str, description: str
) -> Callable[[Callable[[], Sequence[Figure]]], Callable[[], Sequence[Figure]]]:
    """Mark a function without arguments as the benchmark of that name."""

    def register(measure: Callable[[], Sequence[Figure]]) -> Callable[[], Sequence[Figure]]:
        _registered[name] = Benchmark(name, description, measure)
        return measure

    return register


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    for module in _MODULES:
        import_module(f".{module}", __package__)
    return _registered
