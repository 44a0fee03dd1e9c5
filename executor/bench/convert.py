"""`convert`: what it costs to make a prompt of a canvas file.

The files are ComfyUI's own workflow templates, which come as a package. A generated canvas of 20,000 nodes
shows that the cost of a node does not grow with the canvas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

from ..workflow.canvas import convert
from .engine import quiet_collector
from .registry import Figure, Unavailable, benchmark

PACKAGE = "comfyui-workflow-templates-json"
MILLISECONDS = 3.0  # the median file, on one core
FEW, MANY = 1_000, 20_000
GROWTH = 1.5  # cost per node of the large canvas / of the small one, at most
ROUNDS = 5

SCHEMA = {
    "Load": {"input": {"required": {"name": [["a", "b"]]}}, "output": ["MODEL"]},
    "Patch": {
        "input": {
            "required": {
                "model": ["MODEL", {}],
                "seed": ["INT", {"default": 0, "control_after_generate": True}],
                "strength": ["FLOAT", {"default": 1.0}],
            }
        },
        "output": ["MODEL"],
    },
}


def templates() -> list[dict[str, Any]]:
    """The canvas files of the package. Raises Unavailable where it is not installed."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(f"this benchmark converts ComfyUI's templates: pip install {PACKAGE}")
    files = sorted((Path(spec.submodule_search_locations[0]) / "templates").glob("*.json"))
    contents = [json.loads(file.read_bytes()) for file in files]
    return [one for one in contents if isinstance(one, dict) and isinstance(one.get("nodes"), list)]


def generated(count: int) -> dict[str, Any]:
    """A canvas of so many nodes: a chain in which every third node is a reroute and every fifth bypassed."""
    nodes: list[dict[str, Any]] = [{"id": 0, "type": "Load", "widgets_values": ["a"]}]
    for i in range(1, count):
        slot = {"name": "" if i % 3 == 0 else "model", "type": "MODEL", "link": i}
        nodes.append(
            {
                "id": i,
                "type": "Reroute" if i % 3 == 0 else "Patch",
                "mode": 4 if i % 5 == 0 and i % 3 else 0,
                "inputs": [slot],
                "outputs": [{"name": "MODEL", "type": "MODEL"}],
                "widgets_values": None if i % 3 == 0 else [i, "fixed", 0.5],
            }
        )
    links = [[i, i - 1, 0, i, 0, "MODEL"] for i in range(1, count)]
    return {"nodes": nodes, "links": links}


@benchmark(
    "convert", "cost of making prompts of canvas files: ComfyUI's templates, and 20,000 nodes against 1,000"
)
def measure() -> list[Figure]:
    from ..hosts.bundled import host

    files, schema = templates(), host().object_info()
    few, many = generated(FEW), generated(MANY)
    with quiet_collector():
        costs = [_least(lambda content=content: convert(content, schema), 3) for content in files]
        small = _least(lambda: convert(few, SCHEMA), ROUNDS * 4) / FEW
        large = _least(lambda: convert(many, SCHEMA), ROUNDS) / MANY
    span = f"cost per node, {MANY:,} against {FEW:,} nodes"
    return [
        Figure(f"median of {len(files)} templates", median(costs) * 1e3, "ms", MILLISECONDS, "<="),
        Figure(span, large / small, "x", GROWTH, "<="),
    ]


def _least(work: Callable[[], object], rounds: int) -> float:
    """Processor seconds of the fastest round: whatever else the machine does can only add."""
    times = []
    for _ in range(rounds):
        started = thread_time()
        work()
        times.append(thread_time() - started)
    return min(times)
