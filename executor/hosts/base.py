"""What a host gives to the engine, the command line and the server: node classes and their definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import missing


@dataclass(frozen=True)
class Host:
    """`nodes` is the table that `graph.validate` and `graph.Engine` take.

    `modules` says where a class comes from, as /object_info names it: "nodes" for ComfyUI's own (the
    default), "custom_nodes.PACK" for a pack's.
    """

    nodes: Mapping[str, type]
    display_names: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)

    def describe(self, name: str) -> dict[str, Any]:
        """The class's entry in /object_info. KeyError for a class that is not there."""
        node = self.nodes[name]
        inputs = node.INPUT_TYPES()
        outputs = [str(kind) for kind in node.RETURN_TYPES]
        info = {
            "input": inputs,
            "input_order": {section: list(names) for section, names in inputs.items()},
            "output": outputs,
            "output_is_list": list(getattr(node, "OUTPUT_IS_LIST", [False] * len(outputs))),
            "output_name": list(getattr(node, "RETURN_NAMES", outputs)),
            "name": name,
            "display_name": self.display_names.get(name, name),
            "description": getattr(node, "DESCRIPTION", ""),
            "python_module": self.modules.get(name, "nodes"),
            "category": getattr(node, "CATEGORY", "sd"),
            "output_node": bool(getattr(node, "OUTPUT_NODE", False)),
        }
        if hasattr(node, "OUTPUT_TOOLTIPS"):
            info["output_tooltips"] = list(node.OUTPUT_TOOLTIPS)
        # Present only where they say something.
        flags = {"deprecated": "DEPRECATED", "experimental": "EXPERIMENTAL", "api_node": "API_NODE"}
        return info | {key: True for key, attribute in flags.items() if getattr(node, attribute, False)}

    def object_info(self) -> dict[str, dict[str, Any]]:
        """The definitions of all classes, by name."""
        return {name: self.describe(name) for name in self.nodes}

    def missing(self, name: str, pack: str = "") -> str:
        """One sentence about a class that this host does not have: where it is, or what was meant. `pack` is
        the pack of nodes that the file says it is from."""
        return missing.explain(name, self.nodes, pack)
