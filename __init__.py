"""ComfyUI's entry point, and root of the `slipstream` package. Nothing heavy is imported here: the node
classes are looked up when ComfyUI asks for them."""

from __future__ import annotations

from typing import Any

_TABLES = {"NODE_CLASS_MAPPINGS": "NODES", "NODE_DISPLAY_NAME_MAPPINGS": "DISPLAY_NAMES"}


def __getattr__(name: str) -> Any:
    if name not in _TABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import nodes

    return getattr(nodes, _TABLES[name])
