"""ComfyUI's prompt: `{node id: {"class_type", "inputs", "_meta"?}}`, an input being a value or a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Prompt = dict[str, dict[str, Any]]


def is_link(value: Any) -> bool:
    """Whether an input is `[node id, output index]`; a list as a value is wrapped in `__value__`."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], int)
    )


def title(node: Mapping[str, Any]) -> str:
    """The title that the canvas gave the node, or ""."""
    return (node.get("_meta") or {}).get("title") or ""


def describe(prompt: Mapping[str, Any], node_id: str) -> str:
    """A node for a message: `node 3 "My sampler" (KSampler)`."""
    node = prompt.get(node_id)
    if node is None:
        return f"node {node_id}"
    named = f' "{title(node)}"' if title(node) not in ("", node["class_type"]) else ""
    return f"node {node_id}{named} ({node['class_type']})"
