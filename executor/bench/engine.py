"""`engine`: what the graph engine costs for each node of a chain, beside the node's own work.

The nodes do nothing, so all that is measured is the engine: signatures, order, calls, events. A chain of
50 gives the cost; longer ones show that it does not grow with the graph.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from time import thread_time
from typing import Any

from ..graph import Engine
from .registry import Figure, benchmark

SHORT = 50
LONGER = (200, 1000, 5000)
UNCACHED_MICROSECONDS = 60.0
CACHED_MICROSECONDS = 15.0
GROWTH = 1.3  # cost per node of a longer chain / of the short one, at most
ROUNDS = 24
NODES_PER_ROUND = 1000  # of each length, at least one chain


class Step:
    INPUT_TYPES = classmethod(lambda cls: {"required": {"value": ("INT", {})}})
    RETURN_TYPES = ("INT",)
    FUNCTION = "run"

    def run(self, value: int) -> tuple[int]:
        return (value,)


class End(Step):
    RETURN_TYPES = ()
    OUTPUT_NODE = True

    def run(self, value: int) -> dict[str, Any]:
        return {"ui": {"value": [value]}}


NODES = {"Step": Step, "End": End}


def chain(length: int, value: int) -> dict[str, Any]:
    """A prompt of so many nodes in a row; `value` goes in at the front."""
    prompt: dict[str, Any] = {"0": {"class_type": "Step", "inputs": {"value": value}}}
    for i in range(1, length):
        class_type = "Step" if i < length - 1 else "End"
        prompt[str(i)] = {"class_type": class_type, "inputs": {"value": [str(i - 1), 0]}}
    return prompt


@benchmark(
    "engine", "cost of the graph engine per node, uncached and cached, for chains of 50 to 5,000 nodes"
)
def measure() -> list[Figure]:
    uncached, cached = _costs()

    def growth(costs: dict[int, float]) -> float:
        return max(costs[length] for length in LONGER) / costs[SHORT]

    span = f"{SHORT} to {LONGER[-1]:,} nodes: dearest against {SHORT}"
    return [
        Figure(f"{SHORT} nodes, uncached", uncached[SHORT], "us/node", UNCACHED_MICROSECONDS, "<="),
        Figure(f"{SHORT} nodes, cached", cached[SHORT], "us/node", CACHED_MICROSECONDS, "<="),
        Figure(f"{span}, uncached", growth(uncached), "x", GROWTH, "<="),
        Figure(f"{span}, cached", growth(cached), "x", GROWTH, "<="),
    ]


def _costs() -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds per node by length, uncached and cached. The lengths take turns, and of each the least
    of all rounds counts: whatever else the machine does can only add."""
    uncached: dict[int, float] = {}
    cached: dict[int, float] = {}
    values = count()
    with quiet_collector():
        for _ in range(ROUNDS):
            for length in (SHORT, *LONGER):
                engine = Engine(NODES)
                for value in [next(values) for _ in range(max(1, NODES_PER_ROUND // length))]:
                    for costs in (uncached, cached):  # the same chain twice
                        cost = _seconds(engine, chain(length, value)) * 1e6 / length
                        costs[length] = min(cost, costs.get(length, float("inf")))
    return uncached, cached


def _seconds(engine: Engine, prompt: dict[str, Any]) -> float:
    """Processor time: what other processes use does not count."""
    events: deque[Any] = deque(maxlen=1)
    started = thread_time()
    engine.run(prompt, sink=events.append)
    return thread_time() - started


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection meanwhile: it scans what everybody else has allocated."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
