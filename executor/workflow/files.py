"""Workflow files of every kind ComfyUI writes or accepts: canvas JSON, prompt JSON, what it saved."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import json_text
from .canvas import Conversion, convert
from .embedded import kinds
from .errors import WorkflowError
from .parameters import Parameter, declared
from .schema import Schema


@dataclass(frozen=True)
class WorkflowFile:
    """What a file holds: a prompt (ready to run), a canvas (to be converted), or both, as in pictures."""

    name: str
    prompt: dict[str, Any] | None = None
    canvas: dict[str, Any] | None = None
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def to_prompt(self, schema: Schema, rng: random.Random | None = None) -> Conversion:
        """The prompt to run. A prompt in the file comes first: it is exactly what ran."""
        if self.prompt is None:
            return convert(self.canvas or {}, schema, rng)
        return Conversion(
            {node_id: dict(node) for node_id, node in self.prompt.items()}, self._places(schema)
        )

    def _places(self, schema: Schema) -> dict:
        """Where the canvas beside the prompt keeps the prompt's values, as far as it can be told."""
        if self.canvas is None:
            return {}
        try:
            return convert(self.canvas, schema).places
        except WorkflowError:
            return {}


def read(path: Path) -> WorkflowFile:
    """Raises WorkflowError, its message beginning with the file's name."""
    try:
        with path.open("rb") as file:
            if not file.peek(1):
                raise WorkflowError("the file is empty")
            held = kinds.read(file)
            if held is not None:
                return _both(str(path), held.get("prompt"), held.get("workflow"))
            return parse(json_text.parse(json_text.read(file)), str(path))
    except OSError as error:
        raise WorkflowError(f"{path}: cannot be read: {error.strerror or error}") from error
    except WorkflowError as error:
        raise WorkflowError(f"{path}: {error}") from error


def _kind(content: Any) -> str:
    named = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return named.get(type(content), "a number")


def parse(content: Any, name: str = "workflow") -> WorkflowFile:
    """A workflow from its decoded JSON: a canvas, a prompt, or either in an envelope.

    The envelope is what a client posts to ComfyUI: `{"prompt": {...}, "extra_data": {"extra_pnginfo":
    {"workflow": ...}}}`, or the two side by side, as pictures carry them; and it may hold
    `extra.slipstream.parameters` beside the prompt.
    """
    if not isinstance(content, Mapping):
        raise WorkflowError(f"not a workflow: an object is needed, this is {_kind(content)}")
    if isinstance(content.get("nodes"), list):
        return WorkflowFile(name, canvas=dict(content), parameters=declared(content.get("extra")))
    if isinstance(content.get("prompt"), Mapping) or _is_canvas(content.get("workflow")):
        canvas: Any = content
        for key in ("workflow",) if "workflow" in content else ("extra_data", "extra_pnginfo", "workflow"):
            canvas = canvas.get(key) if isinstance(canvas, Mapping) else None
        file = _both(name, content.get("prompt"), canvas)
        return WorkflowFile(name, file.prompt, file.canvas, declared(content.get("extra")) or file.parameters)
    return WorkflowFile(name, prompt=_prompt(content))


def _is_canvas(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("nodes"), list)


def _both(name: str, prompt: Any, canvas: Any) -> WorkflowFile:
    """A prompt and the canvas it was made from, as far as both are there and are what they should be."""
    if not _is_canvas(canvas):
        canvas = None
    if not prompt and canvas is None:
        raise WorkflowError("not a workflow: it has a place for one, and nothing usable there")
    return WorkflowFile(
        name, _prompt(prompt) if prompt else None, canvas, declared((canvas or {}).get("extra"))
    )


def _prompt(content: Any) -> dict[str, Any]:
    """Check the shape of a prompt; leave out what a run writes into it (`is_changed`)."""
    if not isinstance(content, Mapping) or not content:
        raise WorkflowError("not a workflow: neither a canvas (nodes and links) nor a prompt (nodes by id)")
    prompt = {}
    for node_id, node in content.items():
        if not isinstance(node, Mapping) or not isinstance(node.get("class_type"), str):
            raise WorkflowError(f'not a workflow: entry "{node_id}" has no class_type')
        if not isinstance(node.get("inputs", {}), dict):
            raise WorkflowError(f'not a workflow: the inputs of entry "{node_id}" are not an object')
        prompt[str(node_id)] = {key: node[key] for key in ("inputs", "class_type", "_meta") if key in node}
    return prompt
