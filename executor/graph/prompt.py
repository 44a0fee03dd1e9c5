"""A prompt, and the nodes that running it adds.

A prompt is `{node_id: {"class_type": str, "inputs": {name: value}, "_meta"?: {"title": str}}}`. An input
is a literal or a link `[node_id, output_index]`; a literal list travels as `{"__value__": [...]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cache import Entry, Owner

Prompt = Mapping[str, Mapping[str, Any]]


class NodeNotFound(KeyError):
    """A node id, or a node class, that does not exist."""

    def __str__(self) -> str:  # KeyError would show the message quoted
        return str(self.args[0]) if self.args else ""


class DuplicateNode(ValueError):
    """A node expanded into an id that is already taken."""


def is_link(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], (int, float))
    )


def unwrapped(value: Any) -> Any:
    """The literal inside `{"__value__": literal}`, or the value itself."""
    if isinstance(value, dict) and "__value__" in value:
        return value["__value__"]
    return value


def title(node: Mapping[str, Any]) -> str | None:
    """The name the author of the workflow gave to the node."""
    meta = node.get("_meta")
    return meta.get("title") if isinstance(meta, dict) else None


class GraphNode:
    """A node, and what a run knows about it.

    A node that an expansion added has a `parent` (the node that expanded into it), a `root` (the node of
    the prompt it comes from in the end) and a `display` (the node a canvas should highlight for it).
    `signature` and `entry`, its result, are None until they are known.
    """

    __slots__ = (
        "class_type", "display", "entry", "id", "inputs", "links", "parent", "raw", "root", "signature",
    )  # fmt: skip

    def __init__(self, node_id: str, raw: Mapping[str, Any]) -> None:
        inputs = raw.get("inputs")
        self.id = node_id
        self.raw = raw
        self.class_type: str = raw["class_type"]
        # Only nodes that an output needs were validated: others may have no inputs at all.
        self.inputs: dict[str, Any] = inputs if isinstance(inputs, dict) else {}
        self.links = {name: value for name, value in self.inputs.items() if is_link(value)}
        self.parent: str | None = None
        self.display = self.root = node_id
        self.signature: bytes | None = None
        self.entry: Entry | None = None

    def __str__(self) -> str:
        """How messages call it."""
        return f"{self.id} ({self.class_type})"

    @property
    def ids(self) -> tuple[str, str, str | None, str]:
        """What every event about the node carries."""
        return self.id, self.display, self.parent, self.root

    @property
    def owner(self) -> Owner:
        """The name under which what belongs to the node is kept from prompt to prompt."""
        return self.id, self.class_type


class Graph:
    """The prompt plus the nodes that expansions add. Custom nodes receive it as hidden input DYNPROMPT;
    the methods with underscores in their names are for them, and are named as ComfyUI named them."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.nodes = {node_id: GraphNode(node_id, raw) for node_id, raw in prompt.items()}

    def node(self, node_id: str) -> GraphNode:
        node = self.nodes.get(node_id)
        if node is None:
            raise NodeNotFound(f"there is no node {node_id} in the graph")
        return node

    def add(self, node_id: str, raw: Mapping[str, Any], parent: GraphNode) -> GraphNode:
        """Add a node that `parent` expanded into.

        Raises DuplicateNode unless the same parent added the id before: a parent that runs a second
        time, because its result was dropped meanwhile, replaces its own children.
        """
        existing = self.nodes.get(node_id)
        if existing is not None and existing.parent != parent.id:
            raise DuplicateNode(
                f"node {parent} expands into node {node_id}, an id that is already taken; "
                "GraphBuilder makes ids that are unique and the same in every run"
            )
        node = self.nodes[node_id] = GraphNode(node_id, raw)
        shown = raw.get("override_display_id", parent.id)
        node.parent = parent.id
        node.root = parent.root
        node.display = self.nodes[shown].display if shown in self.nodes else shown
        return node

    def get_original_prompt(self) -> Prompt:
        return self.prompt

    def has_node(self, node_id: str) -> bool:
        return node_id in self.nodes

    def get_node(self, node_id: str) -> Mapping[str, Any]:
        return self.node(node_id).raw

    def all_node_ids(self) -> set[str]:
        return set(self.nodes)

    def get_parent_node_id(self, node_id: str) -> str | None:
        return self.node(node_id).parent

    def get_real_node_id(self, node_id: str) -> str:
        return self.node(node_id).root

    def get_display_node_id(self, node_id: str) -> str:
        return self.node(node_id).display
