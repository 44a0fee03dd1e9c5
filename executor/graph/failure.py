"""Why a run stopped, put into events."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from .checks import describe_cycle, full_name
from .events import ExecutionFailed, ExecutionInterrupted
from .prompt import Graph, GraphNode, title

_LONGEST_VALUE = 4000  # characters of an input's text


class NodeInputError(ValueError):
    """A node asks for an input that it does not have."""


class DependencyCycle(Exception):
    """Nodes wait for each other, each for the one before it and the first for the last."""

    def __init__(self, nodes: list[GraphNode]) -> None:
        super().__init__(f"Dependency cycle detected: {describe_cycle([str(node) for node in nodes])}")
        # Cycles in the prompt itself do not get past validation, so an expansion is to blame.
        self.blamed = next((node for node in nodes if node.parent is not None), nodes[0])


def now() -> int:
    return int(time.time() * 1000)


def failed(
    prompt_id: str,
    graph: Graph,
    node: GraphNode,
    error: Exception,
    inputs: Mapping[str, Sequence[Any]],
    executed: list[str],
    advice: str | None,
) -> ExecutionFailed:
    cycle = isinstance(error, DependencyCycle)
    blamed = graph.nodes.get(error.blamed.display, error.blamed) if cycle else node
    root = graph.prompt[blamed.root]
    return ExecutionFailed(
        prompt_id,
        *blamed.ids,
        node_type=root["class_type"],
        title=title(root),
        exception_type="graph.DependencyCycleError" if cycle else full_name(type(error)),
        exception_message=_text(error) if cycle else f"{_text(error)}\n{advice or ''}",
        traceback=[] if cycle else traceback.format_tb(_outside_engine(error.__traceback__)),
        current_inputs=[]
        if cycle
        else {name: [_shown(v) for v in values] for name, values in inputs.items()},
        current_outputs=list(graph.prompt),
        executed=list(executed),
        timestamp=now(),
    )


def interrupted(prompt_id: str, graph: Graph, node: GraphNode, executed: list[str]) -> ExecutionInterrupted:
    root = graph.prompt[node.root]
    return ExecutionInterrupted(
        prompt_id,
        *node.ids,
        node_type=root["class_type"],
        title=title(root),
        executed=list(executed),
        timestamp=now(),
    )


def _outside_engine(trace: TracebackType | None) -> TracebackType | None:
    """The part of the traceback that begins in the node; all of it if the engine itself raised."""
    part = trace
    while part is not None and part.tb_frame.f_globals.get("__package__") == __package__:
        part = part.tb_next
    return part or trace


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else _text(value)[:_LONGEST_VALUE]


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # it is somebody else's __str__: telling one error must not raise another
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
