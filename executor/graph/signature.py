"""Signatures: equal ones mean that a node's result can be used again.

A node's signature is a hash over its class, its IS_CHANGED value and its inputs, where a link counts as
the signature of the node it comes from (a Merkle hash): one hash per node, so a prompt costs time linear
in its size, and a node's place counts but not its id. The id itself is hashed only for classes that take
it or are declared NOT_IDEMPOTENT.

A node whose inputs cannot be compared (NaN, objects that are not plain data, an IS_CHANGED that fails, a
link into nowhere or around a cycle) gets a signature that no other ever equals, and so do the nodes
downstream of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import blake2b
from itertools import count
from typing import Any

import msgspec

from .calls import call_each
from .inputs import constants
from .prompt import Graph, GraphNode
from .schema import NodeSchema, Schemas

_log = logging.getLogger(__name__)
_LITERAL, _LINK = 0, 1
_unequal = count()


def _plain(value: Any) -> Any:
    """msgspec encodes exact types only; subclasses of str and float compare like their base."""
    for base in (str, float):
        if isinstance(value, base):
            return base(value)
    raise TypeError(f"{type(value)} is not plain data")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain, order="deterministic")


async def sign(graph: Graph, schemas: Schemas, nodes: Iterable[GraphNode]) -> None:
    """Give each of these nodes, which came into the graph together, its signature.

    Calls IS_CHANGED of each, with constants only.
    """
    waits = {node.id: 0 for node in nodes}  # links from others of them that have no signature yet
    consumers: dict[str, list[str]] = {}
    for node_id in waits:
        for source, _ in graph.nodes[node_id].links.values():
            if source in waits:
                waits[node_id] += 1
                consumers.setdefault(source, []).append(node_id)
    ready = [node_id for node_id, links in waits.items() if links == 0]
    for node_id in ready:
        node = graph.nodes[node_id]
        node.signature = await _signature(graph, schemas, node)
        for consumer in consumers.get(node_id, ()):
            waits[consumer] -= 1
            if waits[consumer] == 0:
                ready.append(consumer)
    for node_id, links in waits.items():
        if links:  # on a cycle, or behind one
            graph.nodes[node_id].signature = _never_equal()


async def _signature(graph: Graph, schemas: Schemas, node: GraphNode) -> bytes:
    try:
        schema = schemas[node.class_type]
        changed = await _changed(node, schema)
    except Exception as error:  # the class is somebody else's code: it may raise anything
        _log.warning("node %s cannot be cached: %s", node, error)
        return _never_equal()
    if _holds_nan(changed):
        return _never_equal()
    parts = [node.class_type, changed, node.id if schema.by_id else None]
    for name in sorted(node.inputs):
        link = node.links.get(name)
        if link is None:
            value = node.inputs[name]
            if _holds_nan(value):
                return _never_equal()
            parts.append((name, _LITERAL, value))
        elif link[0] in graph.nodes:
            parts.append((name, _LINK, graph.nodes[link[0]].signature, link[1]))
        else:
            return _never_equal()
    try:
        return blake2b(_encoder.encode(parts), digest_size=16).digest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _never_equal()  # not plain data


async def _changed(node: GraphNode, schema: NodeSchema) -> Any:
    """What IS_CHANGED says; False for a class without one."""
    facts = schema.facts
    if facts.changed is None:
        return False
    function = getattr(schema.node_class, facts.changed)
    return await call_each(function, constants(node, schema), facts.input_is_list)


def _never_equal() -> bytes:
    """Shorter than a hash, so it can equal none."""
    return next(_unequal).to_bytes(8, "big")


def _holds_nan(value: Any) -> bool:
    if isinstance(value, (str, int)):  # most are
        return False
    stack = [value]
    while stack:
        current = stack.pop()
        if isinstance(current, float):
            if current != current:
                return True
        elif isinstance(current, (list, tuple, set)):
            stack.extend(current)
        elif isinstance(current, dict):
            stack.extend(current.values())
    return False
