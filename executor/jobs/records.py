"""A job, as the queue keeps it and everybody else reads it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

State = Literal["queued", "running", "done", "failed", "cancelled"]
Lane = Literal["interactive", "bulk"]
LANES: tuple[Lane, ...] = ("interactive", "bulk")
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")


class Job(msgspec.Struct, kw_only=True):
    """`number` is ComfyUI's: smaller ones go first, those put in front are negative. `outputs` are the nodes
    asked for. `kind` stands for jobs that take about as long, `models` are the files that it loads. `reason`
    says why it is in the state that it is in, where that needs saying. Times are seconds since the epoch.

    Once it has ended: `results` is what nodes showed, `error` the last event of a run that went wrong,
    `meta` and `messages` what ComfyUI's history holds under these names.
    """

    id: str
    number: float
    client: str = ""
    lane: Lane = "interactive"
    prompt: dict[str, Any]
    extra_data: dict[str, Any] = {}
    outputs: list[str] = []
    kind: str = ""
    models: list[str] = []
    state: State = "queued"
    reason: str = ""
    attempt: int = 0
    worker: str = ""
    created: float
    started: float | None = None
    ended: float | None = None
    cancelling: bool = False
    results: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    meta: dict[str, Any] = {}
    messages: list[Any] = []

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED


class Outcome(msgspec.Struct, kw_only=True):
    """How an attempt ended. `events` are all that was told of it, as bytes that the queue only keeps."""

    state: State
    reason: str = ""
    results: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    meta: dict[str, Any] = {}
    messages: list[Any] = []
    events: bytes = b""


class Conflict(Exception):
    """There is another job with this id."""


class Refused(Exception):
    """The queue is full. `retry_after` is in seconds."""

    def __init__(self, reason: str, retry_after: int):
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Unusable(Exception):
    """The queue's file cannot be used; the message says why."""
