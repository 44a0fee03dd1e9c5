"""What a run tells: one frozen struct per thing that happens, handed to the run's sink in order.

They say only what is new (never the state of all nodes), and hold enough to make every message that
ComfyUI's websocket knows. Fields of events about a node:
`node` its id; `display_node` the node a canvas highlights for it; `parent_node` the node that expanded
into it, None for a node of the prompt; `real_node` the node of the prompt it comes from in the end.
`timestamp` is milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True):
    prompt_id: str


class ExecutionStarted(Event, frozen=True):
    timestamp: int


class ExecutionCached(Event, frozen=True):
    """The nodes of the prompt whose results are there already."""

    nodes: list[str]
    timestamp: int


class NodeEvent(Event, frozen=True):
    node: str
    display_node: str
    parent_node: str | None
    real_node: str


class NodeStarted(NodeEvent, frozen=True):
    """Sent again when a node is called a second time because it asked for lazy inputs."""


class NodeProgress(NodeEvent, frozen=True):
    """`preview` is None or a function without arguments that makes a PIL image."""

    value: float
    total: float
    preview: Callable[[], Any] | None = None


class NodeOutput(NodeEvent, frozen=True):
    """What the node shows; None for a requested node that is cached and shows nothing."""

    output: dict[str, Any] | None


class NodeBlocked(NodeEvent, frozen=True):
    """An ExecutionBlocker with a message reached the node, which therefore does not run."""

    node_type: str
    message: str
    executed: list[str]


class NodeFinished(NodeEvent, frozen=True):
    pass


class ExecutionFailed(NodeEvent, frozen=True):
    """`node_type` and `title` are those of `real_node`. `current_inputs` is a list, and empty, where
    no node was being called. `current_outputs` are the ids of the whole prompt, as ComfyUI has it."""

    node_type: str
    title: str | None
    exception_type: str
    exception_message: str
    traceback: list[str]
    current_inputs: dict[str, list[Any]] | list[Any]
    current_outputs: list[str]
    executed: list[str]
    timestamp: int


class ExecutionInterrupted(NodeEvent, frozen=True):
    node_type: str
    title: str | None
    executed: list[str]
    timestamp: int


class ExecutionSucceeded(Event, frozen=True):
    timestamp: int
