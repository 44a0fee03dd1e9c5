"""The async calls of a run: many may be under way while other nodes are called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from .prompt import GraphNode
from .schedule import Schedule

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 5.0  # what a cancelled call gets for cleaning up


class Tasks:
    """Holds each node back in the schedule until all its calls are done."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._running: set[asyncio.Task[Any]] = set()
        self._left: dict[GraphNode, int] = {}  # calls under way, by node
        self._progress = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._left)

    def first_node(self) -> GraphNode:
        return next(iter(self._left))

    def start(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(call)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def hold(self, node: GraphNode, tasks: list[asyncio.Task[Any]]) -> None:
        """Keep the node from being scheduled until these calls, not all of them done, are."""
        self._schedule.hold(node)
        waiting = [task for task in tasks if not task.done()]
        self._left[node] = len(waiting)
        for task in waiting:
            task.add_done_callback(lambda _: self._one_done(node))

    async def wait(self, seconds: float) -> None:
        """Wait until some node's calls are done, but no longer than that."""
        self._progress.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._progress.wait(), seconds)

    async def cancel(self) -> None:
        """Stop whatever is under way."""
        if not self._running:
            return
        running = set(self._running)
        for task in running:
            task.cancel()
        _, stubborn = await asyncio.wait(running, timeout=_GRACE_SECONDS)
        if stubborn:
            _log.warning("%d async node calls ignore that they were cancelled", len(stubborn))

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: who needs the result reads the error with it

    def _one_done(self, node: GraphNode) -> None:
        self._left[node] -= 1
        if self._left[node] == 0:
            del self._left[node]
            self._schedule.release(node)
            self._progress.set()


def run_in_new_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Like `asyncio.run`, except that Ctrl-C is raised at once, also inside a sync node: asyncio's own
    handler would wait for the next await."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # as it should be
        pass
    else:
        main.close()
        raise RuntimeError("an event loop is running already: await run_async or validate_async there")
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)  # what nodes have started and forgotten
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_GRACE_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def outcome(task: asyncio.Task[Any]) -> Any:
    """The result of a task that is done; raises what it raised."""
    if task.cancelled():
        raise RuntimeError("the async call was cancelled from inside the node")
    return task.result()
