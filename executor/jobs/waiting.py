"""Which of the queued jobs goes next. In memory, without I/O.

1. Jobs put in front, the latest first, as in ComfyUI.
2. The interactive lane before the bulk lane; a bulk job that has waited `AGING` seconds counts as
   interactive.
3. Among clients, the one that has been given least of late; so a client with a hundred jobs does not hold
   up one with a single job.
4. Within a client, by number.
5. A worker that holds the models of a job near the front may take that one first, as long as nobody whose
   turn it is has waited longer than `PATIENCE` seconds.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from .records import Job

AGING = 300.0
PATIENCE = 20.0
NEAR = 8  # jobs of each client that are looked at for models


@dataclass
class _Client:
    """`given` is the work handed to it, in jobs."""

    given: float = 0.0
    jobs: list[Job] = field(default_factory=list)


def _key(job: Job) -> tuple[bool, bool, float, float]:
    return (job.number >= 0, job.lane == "bulk", job.number, job.created)


class Waiting:
    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        """All jobs, about in the order in which they will start: by number within front and lane."""
        return iter(sorted((job for client in self._clients.values() for job in client.jobs), key=_key))

    def of(self, client: str) -> int:
        """How many jobs a client has waiting."""
        return len(self._clients[client].jobs) if client in self._clients else 0

    def add(self, job: Job) -> None:
        client = self._clients.get(job.client)
        if client is None:
            # A newcomer starts level with whoever has been given least: it gets no credit for the past.
            least = min((other.given for other in self._clients.values()), default=0.0)
            client = self._clients[job.client] = _Client(given=least)
        bisect.insort(client.jobs, job, key=_key)
        self._count += 1

    def remove(self, job: Job) -> None:
        client = self._clients[job.client]
        client.jobs.remove(job)
        self._count -= 1
        if not client.jobs:
            self._forget_level(job.client)

    def take(self, now: float, loaded: Collection[str] = ()) -> Job | None:
        """The next job for a worker that holds these models; it is waiting no more."""
        job = self._next(now, frozenset(loaded))
        if job is not None:
            self._clients[job.client].given += 1
            self.remove(job)
        return job

    def _next(self, now: float, loaded: frozenset[str]) -> Job | None:
        heads = [(job, client) for client in self._clients.values() for job in self._heads(client, now)]
        if not heads:
            return None
        first, _ = min(heads, key=lambda head: _turn(*head, now))
        if first.number < 0 or not loaded or loaded.issuperset(first.models):
            return first
        if now - first.created > PATIENCE:
            return first
        near = (job for client in self._clients.values() for job in client.jobs[:NEAR])
        held = [job for job in near if job.models and loaded.issuperset(job.models)]
        same_lane = [job for job in held if _late(job, now) <= _late(first, now)]
        return min(same_lane, key=_key, default=first)

    def _heads(self, client: _Client, now: float) -> Iterator[Job]:
        """The client's first job, and its first bulk job where that may have aged past it."""
        if not client.jobs:
            return
        yield client.jobs[0]
        if client.jobs[0].lane == "interactive" and client.jobs[-1].lane == "bulk":
            bulk = bisect.bisect_left(client.jobs, (True, True), key=lambda job: _key(job)[:2])
            yield client.jobs[bulk]

    def _forget_level(self, name: str) -> None:
        """What a client without jobs was given counts only as long as others have been given less."""
        active = [client.given for client in self._clients.values() if client.jobs]
        if self._clients[name].given <= min(active, default=float("inf")):
            del self._clients[name]


def _late(job: Job, now: float) -> bool:
    """Whether it belongs to the second lane."""
    return job.lane == "bulk" and now - job.created < AGING


def _turn(job: Job, client: _Client, now: float) -> tuple[bool, bool, float, float, float]:
    front = job.number < 0
    return (not front, _late(job, now), 0.0 if front else client.given, job.number, job.created)
