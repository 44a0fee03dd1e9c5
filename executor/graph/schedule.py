"""Which node is next: a topological order that grows while it is consumed.

Nodes wait for others; one that nothing holds back is ready. Among ready nodes the urgent ones (outputs,
so that people see pictures early; async ones, so that their waits overlap) come first, then those that
feed an output directly, then those two links away, then the rest; equal ones in the order they were
added. A heap keeps this linear in nodes and links, times a logarithm.
"""

from __future__ import annotations

import heapq
from itertools import count

from .dependencies import Dependencies
from .prompt import GraphNode
from .schema import ClassFacts

_FAR = 3  # "no output within two links"


class _Pending:
    __slots__ = ("consumers", "distance", "holds", "node", "order", "sources", "urgent")

    def __init__(self, node: GraphNode, order: int, facts: ClassFacts) -> None:
        self.node = node
        self.order = order
        self.urgent = facts.output_node or facts.is_async
        self.distance = 0 if facts.output_node else _FAR  # links to the nearest output
        self.holds = 0  # how many things it waits for
        self.sources: list[str] = []  # nodes it waits for or waited for
        self.consumers: list[_Pending] = []  # nodes that wait for it, once for every link


class Schedule:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._order = count()
        self._pending: dict[str, _Pending] = {}
        self._ready: list[tuple[int, int, _Pending]] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def require(self, node: GraphNode) -> None:
        """Add the node and, link by link, everything it cannot start without."""
        new: list[_Pending] = []
        stack = [node]
        while stack:
            current = stack.pop()
            if current.id in self._pending:
                continue
            pending = _Pending(current, next(self._order), self._dependencies.facts(current))
            self._pending[current.id] = pending
            new.append(pending)
            upstream = self._dependencies.upstream(current)
            pending.sources.extend(source.id for source in upstream)
            stack += upstream
        for pending in new:
            for source in pending.sources:
                self._connect(self._pending[source], pending)
        for pending in new:
            self._offer(pending)

    def wait_for(self, node: GraphNode, source: GraphNode) -> None:
        """Make a pending node wait for one more, which is added where it is not pending yet."""
        self.require(source)
        pending = self._pending[node.id]
        pending.sources.append(source.id)
        self._connect(self._pending[source.id], pending)

    def hold(self, node: GraphNode) -> None:
        """Make a pending node wait for something outside the graph, until `release`."""
        self._pending[node.id].holds += 1

    def release(self, node: GraphNode) -> None:
        self._let_go(self._pending[node.id])

    def next(self) -> GraphNode | None:
        """Take the best ready node; it stays pending until `complete` or `retry`."""
        return heapq.heappop(self._ready)[2].node if self._ready else None

    def retry(self, node: GraphNode) -> None:
        """The taken node could not finish: it is ready again once nothing holds it back."""
        self._offer(self._pending[node.id])

    def complete(self, node: GraphNode) -> None:
        for consumer in self._pending.pop(node.id).consumers:
            self._let_go(consumer)

    def cycle(self) -> list[GraphNode]:
        """Where every pending node waits for another: nodes that wait for each other, each for the one
        before it and the first for the last."""
        path: dict[str, None] = {}
        pending = next(iter(self._pending.values()))
        while pending.node.id not in path:
            path[pending.node.id] = None
            sources = [self._pending[source] for source in pending.sources if source in self._pending]
            pending = next(source for source in sources if pending in source.consumers)
        ids = list(path)
        return [self._pending[node_id].node for node_id in ids[ids.index(pending.node.id) :][::-1]]

    def _connect(self, source: _Pending, pending: _Pending) -> None:
        source.consumers.append(pending)
        pending.holds += 1
        nearer = [(source, pending.distance + 1)]
        while nearer:
            current, distance = nearer.pop()
            if distance < current.distance:
                current.distance = distance
                further = [self._pending[s] for s in current.sources if s in self._pending]
                nearer += [(one, distance + 1) for one in further]

    def _let_go(self, pending: _Pending) -> None:
        pending.holds -= 1
        self._offer(pending)

    def _offer(self, pending: _Pending) -> None:
        if pending.holds == 0:
            rank = 0 if pending.urgent else pending.distance
            heapq.heappush(self._ready, (rank, pending.order, pending))
