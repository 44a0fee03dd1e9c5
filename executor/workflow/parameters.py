"""Named parameters that a workflow's author declares, so that a user need not know node ids.

"extra": {"slipstream": {"parameters": {
    "prompt": {"node": 6, "input": "text", "description": "what to draw"}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import WorkflowError


@dataclass(frozen=True)
class Parameter:
    name: str
    node: str
    input: str
    description: str = ""


def declared(extra: Any) -> dict[str, Parameter]:
    """The parameters in a file's `extra`; an empty dict where it declares none."""
    ours = extra.get("slipstream") if isinstance(extra, Mapping) else None
    found = (ours.get("parameters") if isinstance(ours, Mapping) else None) or {}
    if not isinstance(found, Mapping):
        raise WorkflowError(
            "extra.slipstream.parameters must be an object: name -> {node, input, description}"
        )
    return {name: _parameter(name, entry) for name, entry in found.items()}


def _parameter(name: str, entry: Any) -> Parameter:
    if not isinstance(entry, Mapping) or "node" not in entry or not isinstance(entry.get("input"), str):
        raise WorkflowError(f'parameter "{name}" in extra.slipstream.parameters needs a node and an input')
    return Parameter(name, str(entry["node"]), entry["input"], str(entry.get("description") or ""))
