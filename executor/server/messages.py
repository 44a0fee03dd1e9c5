"""What happens in a run, in the words of ComfyUI's websocket."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..graph import events

PREVIEW_IMAGE, PREVIEW_IMAGE_WITH_METADATA = 1, 4  # kinds of binary messages
JPEG = 1


class Message(NamedTuple):
    """`for_all`: also for whoever did not ask for the run, where it was asked for without a client id."""

    kind: str
    data: dict[str, Any]
    for_all: bool = False

    def text(self) -> str:
        return json.dumps({"type": self.kind, "data": self.data})


def status(remaining: int, client: str | None = None) -> Message:
    """How many jobs wait and run; `client` is told its id when it connects."""
    data: dict[str, Any] = {"status": {"exec_info": {"queue_remaining": remaining}}}
    return Message("status", data if client is None else {**data, "sid": client}, True)


def nothing_runs(prompt_id: str) -> Message:
    """The last message of a run."""
    return Message("executing", {"node": None, "prompt_id": prompt_id})


class Translator:
    """The messages of one run. It keeps what its messages repeat each time: the state of every node."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = {}
        self.current: str | None = None  # the node that a canvas highlights

    def messages(self, event: events.Event) -> Iterator[Message]:
        """In the order in which they are sent; a preview comes after the first (see `preview`)."""
        prompt = {"prompt_id": event.prompt_id}
        match event:
            case events.ExecutionStarted():
                yield Message("execution_start", {**prompt, "timestamp": event.timestamp})
            case events.ExecutionCached():
                yield Message(
                    "execution_cached", {"nodes": event.nodes, **prompt, "timestamp": event.timestamp}
                )
            case events.NodeStarted():
                self.current = event.display_node
                yield self._state(event, value=0.0, max=1.0, state="running")
                ids = {"node": event.node, "display_node": event.display_node}
                yield Message("executing", {**ids, **prompt})
            case events.NodeProgress():
                yield self._state(event, value=event.value, max=event.total, state="running")
                counted = {"value": event.value, "max": event.total, **prompt, "node": event.node}
                yield Message("progress", counted, True)
            case events.NodeOutput():
                ids = {"node": event.node, "display_node": event.display_node}
                yield Message("executed", {**ids, "output": event.output, **prompt})
            case events.NodeFinished():
                known = self._nodes.get(event.node, {"max": 1.0})
                yield self._state(event, value=known["max"], state="finished")
            case events.NodeBlocked():
                yield Message("execution_error", _blocked(event), True)
            case events.ExecutionFailed():
                yield Message("execution_error", _failed(event))
            case events.ExecutionInterrupted():
                yield Message("execution_interrupted", _interrupted(event), True)
            case events.ExecutionSucceeded():
                yield Message("execution_success", {**prompt, "timestamp": event.timestamp})

    def _state(self, event: events.NodeEvent, **state: Any) -> Message:
        known = self._nodes.setdefault(event.node, {"value": 0.0, "max": 1.0, "state": "running"})
        known |= {
            **state,
            "node_id": event.node,
            "prompt_id": event.prompt_id,
            "display_node_id": event.display_node,
            "parent_node_id": event.parent_node,
            "real_node_id": event.real_node,
        }
        nodes = {node_id: dict(node) for node_id, node in self._nodes.items()}
        return Message("progress_state", {"prompt_id": event.prompt_id, "nodes": nodes}, True)


def preview(event: events.NodeProgress, image: bytes, *, with_metadata: bool) -> bytes:
    """A JPEG as a binary message. A client that can read metadata gets it right after the first message of
    the event, another one after the last."""
    if not with_metadata:
        return struct.pack(">II", PREVIEW_IMAGE, JPEG) + image
    about = {
        "node_id": event.node,
        "prompt_id": event.prompt_id,
        "display_node_id": event.display_node,
        "parent_node_id": event.parent_node,
        "real_node_id": event.real_node,
        "image_type": "image/jpeg",
    }
    text = json.dumps(about).encode()
    return struct.pack(">II", PREVIEW_IMAGE_WITH_METADATA, len(text)) + text + image


def _blocked(event: events.NodeBlocked) -> dict[str, Any]:
    return {
        "prompt_id": event.prompt_id,
        "node_id": event.node,
        "node_type": event.node_type,
        "executed": event.executed,
        "exception_message": f"Execution Blocked: {event.message}",
        "exception_type": "ExecutionBlocked",
        "traceback": [],
        "current_inputs": [],
        "current_outputs": [],
    }


def _failed(event: events.ExecutionFailed) -> dict[str, Any]:
    return {
        "prompt_id": event.prompt_id,
        "node_id": event.real_node,
        "node_type": event.node_type,
        "executed": event.executed,
        "exception_message": event.exception_message,
        "exception_type": event.exception_type,
        "traceback": event.traceback,
        "current_inputs": event.current_inputs,
        "current_outputs": event.current_outputs,
        "timestamp": event.timestamp,
    }


def _interrupted(event: events.ExecutionInterrupted) -> dict[str, Any]:
    return {
        "prompt_id": event.prompt_id,
        "node_id": event.real_node,
        "node_type": event.node_type,
        "executed": event.executed,
        "timestamp": event.timestamp,
    }
