"""How much the queue takes, and how long jobs last, as far as that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .records import Job, Refused

UNKNOWN_SECONDS = 10.0  # of a job of a kind that has never run
SHARE_OF_THE_LATEST = 0.3
LONGEST_WAIT = 3600  # seconds that a client is told to wait, at most


@dataclass(frozen=True)
class Limits:
    """Waiting jobs in all, and of one client."""

    queue: int = 1000
    per_client: int = 300


@dataclass
class Durations:
    """Seconds that jobs of a kind take, an exponential moving average."""

    seconds: dict[str, float] = field(default_factory=dict)

    def of(self, job: Job) -> float:
        return self.seconds.get(job.kind, UNKNOWN_SECONDS)

    def learn(self, kind: str, seconds: float) -> float:
        known = self.seconds.get(kind, seconds)
        self.seconds[kind] = known + SHARE_OF_THE_LATEST * (seconds - known)
        return self.seconds[kind]


def refusal(
    limits: Limits, waiting: int, of_client: int, work: Callable[[], float], workers: int
) -> Refused | None:
    """Why one more job is not taken; None where it is. `work()` is the seconds of all that waits; it is asked
    only to say when to come back, since it looks at every job."""
    if waiting >= limits.queue:
        reason = f"the queue is full: {waiting} jobs are waiting, {limits.queue} may"
    elif of_client >= limits.per_client:
        reason = f"this client has {of_client} jobs waiting, and may have {limits.per_client}"
    else:
        return None
    return Refused(reason, max(1, min(LONGEST_WAIT, round(work() / max(1, workers)))))


def seconds_of(jobs: Iterable[Job], durations: Durations) -> float:
    return sum(map(durations.of, jobs))
