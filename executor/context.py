"""What a running node can reach: its progress bar, previews, and whether it should stop.

Nodes of every host call `progress` and `check`; the graph engine enters a `NodeContext` around each
node call. Outside the engine both functions do nothing, so node classes work as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


class Interrupted(BaseException):
    """The run was cancelled. Not an `Exception`, so that a node's own error handling cannot eat it."""


@dataclass(frozen=True)
class NodeContext:
    """The engine's side of one node call.

    `report(value, total, preview)` publishes progress; `preview` is None or a function without
    arguments that makes a PIL image, called only where someone shows previews.
    `cancelled()` tells whether the run should stop.
    """

    prompt_id: str
    node_id: str
    report: Callable[[float, float, Callable[[], Any] | None], None]
    cancelled: Callable[[], bool]


_current: ContextVar[NodeContext | None] = ContextVar("slipstream_node_context", default=None)


def current() -> NodeContext | None:
    return _current.get()


@contextmanager
def entered(context: NodeContext) -> Iterator[None]:
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def check() -> None:
    """Raise `Interrupted` if the run was cancelled."""
    context = _current.get()
    if context is not None and context.cancelled():
        raise Interrupted


def progress(value: float, total: float, preview: Callable[[], Any] | None = None) -> None:
    """Report `value` of `total` steps done, then raise `Interrupted` if the run was cancelled."""
    context = _current.get()
    if context is not None:
        context.report(value, total, preview)
        check()
