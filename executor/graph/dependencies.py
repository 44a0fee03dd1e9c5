"""What a node has to wait for, as its class and the results at hand say."""

from __future__ import annotations

from .prompt import Graph, GraphNode, NodeNotFound
from .results import Results
from .schema import ClassFacts, Schemas


class Dependencies:
    def __init__(self, graph: Graph, schemas: Schemas, results: Results) -> None:
        self._graph = graph
        self._schemas = schemas
        self._results = results

    def facts(self, node: GraphNode) -> ClassFacts:
        return self._schemas[node.class_type].facts

    def upstream(self, node: GraphNode) -> list[GraphNode]:
        """The nodes that have to run before this one can: not those at lazy inputs, and not those whose
        results are there. Raises NodeNotFound for a link to a node that does not exist."""
        if self._results.get(node) is not None:
            return []
        schema = self._schemas[node.class_type]
        sources = []
        for name, (source_id, _) in node.links.items():
            spec = schema.input(name)
            if not schema.receives(name, spec) or (spec is not None and spec.lazy):
                continue
            source = self._graph.nodes.get(source_id)
            if source is None:
                raise NodeNotFound(
                    f"input {name} of node {node} links to node {source_id}, which is not in the graph"
                )
            if self._results.get(source) is None:
                sources.append(source)
        return sources
