"""Subgraphs taken apart: every instance becomes a scope of its own, with the nodes of its definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .canvas_file import Canvas
from .errors import WorkflowError
from .wiring import Level, Wired

DEEPEST = 1000  # levels; ComfyUI's own limit
MOST_NODES = 1_000_000


@dataclass(eq=False)
class Scope:
    """One instance of a level. `prefix` goes before the ids of its nodes; the root has no host."""

    prefix: str
    level: Level
    depth: int = 0
    host: Wired | None = None
    parent: Scope | None = None

    def describe(self, wired: Wired) -> str:
        """A node for a message, with the id that it has in the prompt."""
        title = f' "{wired.node.title}"' if wired.node.title else ""
        return f"node {self.prefix}{wired.id}{title} ({wired.node.type})"


class Scopes:
    """The scopes of a canvas, made when they are first entered."""

    def __init__(self, root: Level, levels: Mapping[str, Level]):
        self.root = Scope("", root)
        self._levels = levels
        self._inner: dict[tuple[Scope, str], Scope] = {}

    def is_instance(self, wired: Wired) -> bool:
        return wired.node.type in self._levels

    def inside(self, scope: Scope, wired: Wired) -> Scope:
        """The scope of an instance of a subgraph."""
        found = self._inner.get((scope, wired.id))
        if found is None:
            if scope.depth >= DEEPEST:
                raise WorkflowError(
                    f"subgraphs are nested more than {DEEPEST} deep at {scope.describe(wired)}"
                )
            level = self._levels[wired.node.type]
            found = Scope(f"{scope.prefix}{wired.id}:", level, scope.depth + 1, wired, scope)
            self._inner[scope, wired.id] = found
        return found

    def running(self) -> Iterator[tuple[Scope, Wired]]:
        """Every node that a prompt could hold, outer ones first. What is muted or bypassed on the root is
        left out with all that is in it; inside a subgraph each node counts by its own mode."""
        waiting = [self.root]
        while waiting:
            scope = waiting.pop()
            inner = []
            for wired in scope.level.nodes.values():
                if not self.is_instance(wired):
                    if wired.node.runs:
                        yield scope, wired
                elif wired.node.runs or scope.host is not None:
                    inner.append(self.inside(scope, wired))
            waiting += reversed(inner)


def check_size(canvas: Canvas, kinds: Iterable[str]) -> None:
    """Raises WorkflowError where too many nodes come out: each level of nesting can double them. `kinds` are
    the definitions in use, innermost first."""
    sizes: dict[str, int] = {}
    for kind in kinds:
        sizes[kind] = sum(sizes.get(node.type, 0) + 1 for node in canvas.definitions[kind].nodes.values())
    if sum(sizes.get(node.type, 0) + 1 for node in canvas.root.nodes.values()) > MOST_NODES:
        raise WorkflowError(f"the subgraphs hold more than {MOST_NODES:,} nodes when taken apart")


def innermost_first(canvas: Canvas) -> list[str]:
    """The definitions that the root reaches, each after those that it uses. Raises WorkflowError where one
    contains itself."""
    order: list[str] = []
    state: dict[str, bool] = {}  # True while its insides are being looked at
    stack: list[tuple[str | None, Iterator[str]]] = [(None, _uses(canvas, None))]
    while stack:
        kind, inner = stack[-1]
        for used in inner:
            if state.get(used):
                name = canvas.definitions[used].name or used
                raise WorkflowError(f'the subgraph "{name}" contains itself')
            if used not in state:
                state[used] = True
                stack.append((used, _uses(canvas, used)))
                break
        else:
            stack.pop()
            if kind is not None:
                state[kind] = False
                order.append(kind)
    return order


def _uses(canvas: Canvas, kind: str | None) -> Iterator[str]:
    graph = canvas.root if kind is None else canvas.definitions[kind]
    return iter([node.type for node in graph.nodes.values() if node.type in canvas.definitions])
