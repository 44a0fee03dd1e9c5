"""The results of one run's nodes: computed in it, or found in the engine's cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from .cache import Cache, Entry, Owner
from .prompt import Graph, GraphNode
from .schema import Schemas
from .signature import sign


class Results:
    def __init__(self, graph: Graph, schemas: Schemas, cache: Cache) -> None:
        self._graph = graph
        self._schemas = schemas
        self._scopes: dict[str | None, Cache] = {None: cache}  # by the node whose expansion it holds
        self._keeps = cache.keeps
        # Only used if the cache keeps nothing: how many links will still ask for a node's result, and
        # the nodes that an expanded node takes its own result from.
        self._uses: Counter[str] = Counter()
        self._borrowed: dict[str, list[str]] = {}

    async def start(self, outputs: list[str], owners: Collection[Owner]) -> list[str]:
        """Sign the nodes of the prompt, and return those whose results are there already."""
        nodes = list(self._graph.nodes.values())
        await sign(self._graph, self._schemas, nodes)
        self._scopes[None].start([node.signature for node in nodes], owners)
        if not self._keeps:
            self._count_uses(outputs)
        return [node.id for node in nodes if self.get(node) is not None]

    async def expand(self, parent: GraphNode, children: list[GraphNode], sources: list[str]) -> None:
        """Take in the nodes that `parent` has expanded into; its result will come from `sources`."""
        await sign(self._graph, self._schemas, children)
        scope = self._scopes[parent.parent]
        signatures = [child.signature for child in children]
        self._scopes[parent.id] = scope.inside(parent.owner, signatures, [child.owner for child in children])
        if not self._keeps:
            self._borrowed[parent.id] = sources
            self._uses.update(sources)
            for child in children:
                self._uses.update(source for source, _ in child.links.values())

    def get(self, node: GraphNode) -> Entry | None:
        """The node's result, if it or one that is equal to it has run."""
        if node.entry is None:
            node.entry = self._scopes[node.parent].get(node.signature)
        return node.entry

    def of(self, node_id: str) -> Entry | None:
        return self.get(self._graph.node(node_id))

    def put(self, node: GraphNode, entry: Entry) -> None:
        node.entry = entry
        self._scopes[node.parent].put(node.signature, entry)

    def finished(self, node: GraphNode) -> None:
        """The node needs its inputs no more: if nobody keeps results, drop those that were only for it."""
        if self._keeps:
            return
        sources = [source for source, _ in node.links.values()]
        sources += self._borrowed.pop(node.id, ())
        self._uses.subtract(sources)
        for used in [*sources, node.id]:
            if self._uses[used] <= 0 and used in self._graph.nodes:
                self._graph.nodes[used].entry = None

    def _count_uses(self, outputs: list[str]) -> None:
        """Count the links, lazy ones too, of all nodes that the outputs may need."""
        found = list(dict.fromkeys(outputs))
        seen = set(found)
        for node_id in found:
            for source, _ in self._graph.node(node_id).links.values():
                self._uses[source] += 1
                if source not in seen and source in self._graph.nodes:
                    seen.add(source)
                    found.append(source)
