"""From a node's inputs in the graph to the arguments of its function.

Every input arrives as a list (an upstream node may have been called several times); `calls.py` maps the
function over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .cache import Entry
from .prompt import Graph, GraphNode, unwrapped
from .schema import NodeSchema

_ABSENT = (None,)

Inputs = dict[str, Sequence[Any]]


def hidden_values(graph: Graph, extra_data: Mapping[str, Any]) -> dict[str, Any]:
    """What nodes receive by naming it under "hidden", all but their own id."""
    return {
        "PROMPT": graph.prompt,
        "DYNPROMPT": graph,
        "EXTRA_PNGINFO": extra_data.get("extra_pnginfo"),
        "AUTH_TOKEN_COMFY_ORG": extra_data.get("auth_token_comfy_org"),
        "API_KEY_COMFY_ORG": extra_data.get("api_key_comfy_org"),
    }


# Validation and IS_CHANGED happen outside a run.
_HIDDEN_OUTSIDE = {
    "PROMPT": {},
    "DYNPROMPT": None,
    "EXTRA_PNGINFO": None,
    "AUTH_TOKEN_COMFY_ORG": None,
    "API_KEY_COMFY_ORG": None,
}


def gather(
    node: GraphNode, schema: NodeSchema, result: Callable[[str], Entry | None], hidden: Mapping[str, Any]
) -> tuple[Inputs, set[str]]:
    """The node's inputs, and the names of those whose source has no result yet, given as None.

    An output that its source did not return is None too. Constants that the class does not declare are
    left out, and so are links that its function does not take.
    """
    inputs: Inputs = {}
    missing: set[str] = set()
    for name, value in node.inputs.items():
        spec = schema.input(name)
        if name in node.links and not (spec is not None and spec.raw_link):
            if not schema.receives(name, spec):
                continue
            source, slot = value
            entry = result(source)
            if entry is None:
                missing.add(name)
            inputs[name] = entry.outputs[slot] if entry is not None and slot < len(entry.outputs) else _ABSENT
        elif spec is not None:
            inputs[name] = [unwrapped(value)]
    for name, kind in schema.hidden.items():
        if kind == "UNIQUE_ID":
            inputs[name] = [node.id]
        elif kind in hidden:
            inputs[name] = [hidden[kind]]
    return inputs, missing


def constants(node: GraphNode, schema: NodeSchema) -> Inputs:
    """The node's inputs with None for every link: what VALIDATE_INPUTS and IS_CHANGED get."""
    return gather(node, schema, _no_result, _HIDDEN_OUTSIDE)[0]


def _no_result(_: str) -> None:
    return None
