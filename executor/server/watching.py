"""Following one job from inside the server."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from ..jobs.records import Job
from ..worker.messages import Told


class Watch:
    """What is told of a job, then the job, which has ended."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Told | Job] = asyncio.Queue()

    def put(self, entry: Told | Job) -> None:
        self._queue.put_nowait(entry)

    async def __aiter__(self) -> AsyncIterator[Told | Job]:
        while True:
            entry = await self._queue.get()
            yield entry
            if isinstance(entry, Job):
                return

    async def end(self) -> Job:
        entry = await self._queue.get()
        while not isinstance(entry, Job):
            entry = await self._queue.get()
        return entry


class Watches:
    def __init__(self) -> None:
        self._of: dict[str, list[Watch]] = defaultdict(list)

    @contextmanager
    def on(self, job_id: str) -> Iterator[Watch]:
        """From before the job is submitted, so that nothing is missed."""
        watch = Watch()
        self._of[job_id].append(watch)
        try:
            yield watch
        finally:
            self._of[job_id].remove(watch)
            if not self._of[job_id]:
                del self._of[job_id]

    def tell(self, job_id: str, entry: Told | Job) -> None:
        for watch in self._of.get(job_id, ()):
            watch.put(entry)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._of
