"""Jobs from the queue to workers, and what comes of them back to the queue and to clients."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

import msgspec

from ..graph import events
from ..jobs.records import Job, Outcome
from ..jobs.store import Jobs
from ..worker.messages import AnyEvent, Finished, Run, Setup, Told
from ..worker.pool import Pool, Unavailable, Worker
from . import messages
from .hub import Client, Hub
from .messages import Message, Translator
from .metrics import Metrics
from .watching import Watches

log = logging.getLogger(__name__)

RECENT_JOBS = 2  # of a worker: their models are taken to be loaded still
ENDS = (events.ExecutionSucceeded, events.ExecutionFailed, events.ExecutionInterrupted)
IN_HISTORY = (
    "execution_start",
    "execution_cached",
    "execution_success",
    "execution_error",
    "execution_interrupted",
)
encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decoder = msgspec.msgpack.Decoder(list[AnyEvent])


class _Running:
    """An attempt at a job: what has been told of it. Its last word is kept until the queue has the result."""

    def __init__(self, job: Job):
        self.job = job
        self.client = job.client or None
        self.translator = Translator()
        self.events: list[events.Event] = []
        self.history: list[Any] = []
        self.meta: dict[str, Any] = {}
        self.last: list[Message] = []
        self.timer: asyncio.TimerHandle | None = None
        self.timed_out = False
        self.is_ending = False  # the worker has said how it ended
        # Its worker's job before it, as long as clients have not heard how that ended; what is told of this
        # one is held back until then.
        self.follows: _Running | None = None
        self.held: list[tuple[Told, list[Message]]] = []
        self.said = asyncio.Event()


class Dispatcher:
    """`timeout` is in seconds, 0 for none. `hub` is set before anything runs."""

    hub: Hub

    def __init__(self, jobs: Jobs, setups: list[Setup], timeout: float = 0.0):
        self.jobs = jobs
        self.pool = Pool(setups, self)
        self._timeout = timeout
        self._running: dict[str, _Running] = {}
        self._ending: dict[str, _Running] = {}  # by worker
        self._loaded: dict[str, deque[list[str]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._draining = False
        self.watches = Watches()
        self.metrics = Metrics(jobs, self.pool)

    def start(self) -> None:
        self.pool.start()

    async def stop(self) -> None:
        """Running jobs are given up; they wait again when the queue is opened next."""
        self._draining = True
        for running in self._running.values():
            if not running.job.cancelling and not running.is_ending:
                await self.jobs.put_back(running.job.id, running.job.attempt)
        await self.pool.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def greet(self, client: Client) -> None:
        """What a client hears when it connects, or comes back while its job is running."""
        client.send(messages.status(self.jobs.remaining, client.id).text())
        for running in self._running.values():
            current = running.translator.current
            if running.client == client.id and running.follows is None and current is not None:
                client.send(Message("executing", {"node": current}).text())

    def queued(self, job: Job) -> None:
        """There is a new job."""
        log.info("queued", extra={"job": job.id, "client": job.client})
        self._tell_status(job)
        self.wake()

    def wake(self) -> None:
        """Give jobs to workers that have none."""
        for worker in self.pool.workers:
            if self._draining or not worker.is_idle:
                continue
            loaded = {name for names in self._loaded.get(worker.name, ()) for name in names}
            job = self.jobs.claim(worker.name, loaded)
            if job is None:
                return
            self._give(job, worker)

    async def cancel(self, job_id: str) -> Job | None:
        """As `Jobs.cancel`; a running job's worker is told."""
        job = await self.jobs.cancel(job_id)
        if job is not None and job.cancelling:
            self.pool.cancel(job.id, job.attempt)
        elif job is not None:
            if job.state == "cancelled" and job.started is None:
                self._note_end(job)
            self.watches.tell(job_id, job)
            self._tell_status(job)
        return job

    def told_of(self, job_id: str) -> list[events.Event] | None:
        """What has been told of a running job so far; None where it does not run."""
        running = self._running.get(job_id)
        return None if running is None else list(running.events)

    # What workers do.

    def ready(self, worker: Worker) -> None:
        self._loaded[worker.name] = deque(maxlen=RECENT_JOBS)
        self.jobs.workers = max(1, sum(worker.about is not None for worker in self.pool.workers))
        self.wake()

    def told(self, worker: Worker, report: Told) -> None:
        running = self._running.get(report.job)
        if running is not None:
            running.events.append(report.event)
            self.watches.tell(report.job, report)
            told = self._translate(running, report.event)
            if running.follows is None:
                self._tell(running, report, told)
            else:
                running.held.append((report, told))

    def finished(self, worker: Worker, report: Finished) -> None:
        running = self._running.get(report.job)
        if running is None or (running.job.state, running.job.attempt) != ("running", report.attempt):
            return
        running.is_ending = True
        self.metrics.finished(report)
        self._ending[worker.name] = running
        self._later(self._end(running, report))
        self.wake()  # the worker need not wait for the disk

    def lost(self, worker: Worker, job: str, attempt: int, reason: str) -> None:
        self.metrics.died(worker.name)
        self._later(self._lose(job, attempt, reason))

    # Inside.

    def _give(self, job: Job, worker: Worker) -> None:
        running = self._running[job.id] = _Running(job)
        running.follows = self._ending.get(worker.name)
        seen = len(self.hub) > 0 or job.id in self.watches
        order = Run(job.id, job.attempt, job.prompt, job.outputs, job.extra_data, previews=seen)
        try:
            self.pool.run(worker, order)
        except Unavailable as error:
            self.lost(worker, job.id, job.attempt, str(error))
            return
        log.info("started", extra={"job": job.id, "worker": worker.name})
        self._loaded.setdefault(worker.name, deque(maxlen=RECENT_JOBS)).append(job.models)
        if self._timeout:
            running.timer = asyncio.get_running_loop().call_later(self._timeout, self._time_out, running)
        self._tell_status(job)

    def _translate(self, running: _Running, event: events.Event) -> list[Message]:
        """An event in ComfyUI's words; those that clients hear now, and what is kept of them."""
        told = list(running.translator.messages(event))
        running.history += [[m.kind, m.data] for m in told if m.kind in IN_HISTORY and "timestamp" in m.data]
        if isinstance(event, events.NodeOutput):
            running.meta[event.node] = {
                "node_id": event.node,
                "display_node": event.display_node,
                "parent_node": event.parent_node,
                "real_node_id": event.real_node,
            }
        if isinstance(event, ENDS):
            running.last = told
            return []
        return told

    def _tell(self, running: _Running, report: Told, told: list[Message]) -> None:
        with_metadata = running.client is not None and self.hub.wants_metadata(running.client)
        for index, message in enumerate(told):
            self.hub.send(message, running.client)
            if report.preview and index == (0 if with_metadata else len(told) - 1):
                self.hub.send_preview(report.event, report.preview, running.client)

    def _time_out(self, running: _Running) -> None:
        running.timed_out = True
        self.pool.cancel(running.job.id, running.job.attempt)

    async def _end(self, running: _Running, report: Finished) -> None:
        follows = running.follows
        try:
            # Written at once, so that the ends of a row of short jobs share a commit; said in order.
            job = await self.jobs.finish(report.job, report.attempt, self._outcome(running, report))
            if follows is not None:
                await follows.said.wait()
            if job is not None:
                self._say_ended(running, job)
        finally:
            self._release(running)

    def _outcome(self, running: _Running, report: Finished) -> Outcome:
        error = msgspec.to_builtins(report.error, enc_hook=str) if report.error is not None else None
        if running.timed_out:
            state, reason = "failed", f"it took longer than the {self._timeout:g} seconds that a job may"
        elif report.status == "success":
            state, reason = "done", ""
        elif report.status == "interrupted":
            state, reason = "cancelled", "interrupted"
        else:
            state, reason = (
                "failed",
                f"{report.error.exception_type}: {report.error.exception_message.strip()}",
            )
        return Outcome(
            state=state,
            reason=reason,
            results=report.outputs,
            error=error,
            meta={node: running.meta[node] for node in report.outputs if node in running.meta},
            messages=running.history,
            events=encode(running.events),
        )

    async def _lose(self, job_id: str, attempt: int, reason: str) -> None:
        running = self._running.get(job_id)
        if running is not None and running.timed_out:
            outcome = Outcome(
                state="failed", reason=f"it took longer than {self._timeout:g} seconds, and did not stop"
            )
            job = await self.jobs.finish(job_id, attempt, outcome)
        else:
            job = await self.jobs.lost(job_id, attempt, reason)
        if job is None or running is None:
            return
        if job.is_finished:
            running.last = [Message("execution_error", _lost(job))]
            self._say_ended(running, job)
        else:
            log.warning("waits again", extra={"job": job.id, "reason": job.reason})
            self._forget(running)
            self._tell_status(job)
            self.wake()

    def _say_ended(self, running: _Running, job: Job) -> None:
        """The queue has the result: now clients may know."""
        self._forget(running)
        for message in running.last:
            self.hub.send(message, running.client)
        self._tell_status(job)
        self.hub.send(messages.nothing_runs(running.job.id), running.client)
        self._note_end(job)
        self.watches.tell(job.id, job)
        self.wake()

    def _note_end(self, job: Job) -> None:
        self.metrics.ended(job)
        about = {"job": job.id, "worker": job.worker, "state": job.state, "reason": job.reason}
        if job.started is not None and job.ended is not None:
            about["seconds"] = f"{job.ended - job.started:.3f}"
        log.log(logging.WARNING if job.state == "failed" else logging.INFO, "ended", extra=about)

    def _release(self, running: _Running) -> None:
        """Tell what was held back of the job that came after it."""
        running.said.set()
        for name in [name for name, ending in self._ending.items() if ending is running]:
            del self._ending[name]
        for other in self._running.values():
            if other.follows is running:
                other.follows = None
                for report, told in other.held:
                    self._tell(other, report, told)
                other.held.clear()

    def _forget(self, running: _Running) -> None:
        if running.timer is not None:
            running.timer.cancel()
        if self._running.get(running.job.id) is running:
            del self._running[running.job.id]

    def _tell_status(self, job: Job) -> None:
        self.hub.send_status(messages.status(self.jobs.remaining), job.client)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a job's end could not be kept: %s", error)


def decode(kept: bytes) -> list[events.Event]:
    """What `Jobs.events` gives back of what was told of a job."""
    return _decoder.decode(kept) if kept else []


def _lost(job: Job) -> dict[str, Any]:
    """The message for a job that ended without a word of its worker."""
    return {
        "prompt_id": job.id,
        "node_id": "",
        "node_type": "",
        "executed": [],
        "exception_message": job.reason,
        "exception_type": "WorkerDied",
        "traceback": [],
        "current_inputs": {},
        "current_outputs": [],
        "timestamp": int((job.ended or 0) * 1000),
    }
