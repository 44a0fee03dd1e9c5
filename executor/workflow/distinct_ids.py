"""Ids of nodes in subgraphs made distinct from those of other subgraphs and of the root, as ComfyUI's
frontend does on loading: a node's id in the prompt is `instance:inner`, and has to be the same here."""

from __future__ import annotations

from itertools import count

import msgspec

from .canvas_file import Canvas, Graph, Link, Node

PROXIES = "proxyWidgets"


def make_distinct(canvas: Canvas) -> None:
    """Nodes whose id is taken get the next free number; links and proxied widgets follow."""
    used = set(canvas.root.nodes)
    last = canvas.last_node_id
    renamed: dict[str, dict[str, str]] = {}
    for kind, graph in canvas.definitions.items():
        names: dict[str, str] = {}
        for node_id in graph.nodes:
            fresh = node_id
            if node_id in used:
                fresh = next(str(number) for number in count(last + 1) if str(number) not in used)
                names[node_id] = fresh
            last = max(last, _number(fresh))
            used.add(fresh)
        if names:
            renamed[kind] = names
            _rename(graph, names)
    if renamed:
        for graph in (canvas.root, *canvas.definitions.values()):
            for node in graph.nodes.values():
                if node.type in renamed:
                    _rename_proxies(node, renamed[node.type])


def _number(node_id: str) -> int:
    return int(node_id) if node_id.isascii() and node_id.isdigit() and len(node_id) < 16 else 0


def _rename(graph: Graph, names: dict[str, str]) -> None:
    graph.nodes = {
        names.get(key, key): msgspec.structs.replace(node, id=names.get(key, node.id))
        for key, node in graph.nodes.items()
    }
    graph.links = {
        key: Link(
            link.id,
            names.get(link.origin, link.origin),
            link.output,
            names.get(link.target, link.target),
            link.input,
        )
        for key, link in graph.links.items()
    }


def _rename_proxies(node: Node, names: dict[str, str]) -> None:
    proxies = node.property(PROXIES)
    if isinstance(proxies, list):
        node.properties = {
            **node.properties,
            PROXIES: [
                [names.get(str(entry[0]), entry[0]), *entry[1:]]
                if isinstance(entry, list) and entry
                else entry
                for entry in proxies
            ],
        }
