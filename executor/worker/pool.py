"""The worker processes of one machine: started, watched, replaced when they die."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from . import frames, messages
from .messages import Cancel, Describe, Free, Measure, Ready, Run, Setup, Validate

log = logging.getLogger(__name__)

CANCEL_GRACE = 30.0  # seconds that a cancelled job has to stop before its process is killed
STOP_GRACE = 5.0  # seconds that a process without a job has to end
ANSWER_SECONDS = 20.0  # for a worker to answer a question
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a worker that died early is started again


class Unavailable(Exception):
    """No worker can answer."""


class Listener(Protocol):
    """Who is told what workers do. Called in the event loop."""

    def ready(self, worker: Worker) -> None: ...
    def told(self, worker: Worker, report: messages.Told) -> None: ...
    def finished(self, worker: Worker, report: messages.Finished) -> None: ...
    def lost(self, worker: Worker, job: str, attempt: int, reason: str) -> None: ...


@dataclass(eq=False)
class Worker:
    """One process, and the next one in its place. `about` is what it said when it was ready; `why` is why it
    is not; `running` is (job, attempt)."""

    setup: Setup
    about: Ready | None = None
    why: str = "starting"
    running: tuple[str, int] | None = None
    process: asyncio.subprocess.Process | None = None
    _calls: dict[int, asyncio.Future[Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.setup.name

    @property
    def is_idle(self) -> bool:
        return self.about is not None and self.running is None

    def send(self, message: messages.ToWorker) -> None:
        if self.process is None or self.process.stdin is None or self.process.stdin.is_closing():
            raise Unavailable(f"worker {self.name} is not running")
        self.process.stdin.write(frames.encode(message))

    async def ask(self, message: Validate | Describe | Measure, seconds: float = ANSWER_SECONDS) -> Any:
        """The worker's answer. Raises Unavailable where it dies or does not answer in time."""
        future = asyncio.get_running_loop().create_future()
        self._calls[message.call] = future
        try:
            self.send(message)
            return await asyncio.wait_for(future, seconds)
        except asyncio.TimeoutError as error:
            raise Unavailable(f"worker {self.name} does not answer") from error
        finally:
            self._calls.pop(message.call, None)

    def answered(self, report: messages.Validated | messages.Described | messages.Measured) -> None:
        future = self._calls.get(report.call)
        if future is not None and not future.done():
            future.set_result(report)

    def ended(self, reason: str) -> tuple[str, int] | None:
        """The process is gone; returns what it was running."""
        for future in self._calls.values():
            if not future.done():
                future.set_exception(Unavailable(f"worker {self.name}: {reason}"))
        running, self.running, self.about, self.process, self.why = self.running, None, None, None, reason
        return running


class Pool:
    def __init__(self, setups: Sequence[Setup], listener: Listener):
        self.workers = [Worker(setup) for setup in setups]
        self._listener = listener
        self._calls = count()
        self._changed = asyncio.Event()  # set, and replaced, whenever a worker becomes ready or ends
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def start(self) -> None:
        for worker in self.workers:
            self._spawn(self._keep(worker))

    async def stop(self) -> None:
        """End all processes; those that do not end are killed."""
        self._stopping = True
        processes = [worker.process for worker in self.workers if worker.process is not None]
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.gather(*(_end(process) for process in processes))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def run(self, worker: Worker, order: Run) -> None:
        """Give a job to an idle worker. Raises Unavailable where it has just died."""
        worker.send(order)
        worker.running = (order.job, order.attempt)

    def cancel(self, job: str, attempt: int, grace: float = CANCEL_GRACE) -> bool:
        """Have a running attempt stopped, after `grace` seconds by killing its process. False where no worker
        runs it."""
        for worker in self.workers:
            if worker.running == (job, attempt):
                with suppress(Unavailable):
                    worker.send(Cancel(job, attempt))
                self._spawn(self._kill_if_stuck(worker, (job, attempt), grace))
                return True
        return False

    def free(self, *, models: bool, results: bool) -> None:
        for worker in self.workers:
            if worker.about is not None:
                with suppress(Unavailable):
                    worker.send(Free(models, results))

    async def validate(self, prompt: Any, targets: list[str] | None) -> messages.Validated:
        return await self._answer(lambda call: Validate(call, prompt, targets))

    async def describe(self, name: str | None = None) -> bytes:
        return (await self._answer(lambda call: Describe(call, name))).content

    async def measure(self, worker: Worker) -> messages.Measured:
        return await worker.ask(Measure(next(self._calls)))

    async def until_ready(self, seconds: float) -> list[Worker]:
        """Wait for workers that can work; those may have died by the time that this returns. Raises
        Unavailable with why there is none."""
        try:
            return await asyncio.wait_for(self._some_ready(), seconds)
        except asyncio.TimeoutError as error:
            raise Unavailable("; ".join(f"worker {w.name}: {w.why}" for w in self.workers)) from error

    async def _some_ready(self) -> list[Worker]:
        while not (ready := [worker for worker in self.workers if worker.about is not None]):
            await self._changed.wait()
        return ready

    async def _answer(self, question: Any) -> Any:
        """Of an idle worker rather than a busy one; another is asked where one fails to answer."""
        ready = await self.until_ready(ANSWER_SECONDS)
        first, *others = sorted(ready, key=lambda worker: not worker.is_idle)
        for worker in (first, *others[:-1]):
            with suppress(Unavailable):
                return await worker.ask(question(next(self._calls)))
        return await (others or [first])[-1].ask(question(next(self._calls)))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, worker: Worker) -> None:
        """Start the process, and start it again whenever it ends; after longer and longer pauses where it
        does not even become ready."""
        pause = SHORTEST_PAUSE
        while not self._stopping:
            was_ready, reason = await self._life(worker)
            running = worker.ended(reason)
            self._change()
            if self._stopping:
                return
            about = {"worker": worker.name, "reason": reason, "job": running[0] if running else None}
            log.warning("a worker ended", extra=about)
            if running is not None:
                self._listener.lost(worker, *running, reason)
            pause = SHORTEST_PAUSE if was_ready else min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _life(self, worker: Worker) -> tuple[bool, str]:
        """One process from its start to its end: whether it became ready, and why it ended."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __package__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the server, which then stops its workers
        )
        worker.process = process
        reason = ""
        try:
            worker.send(worker.setup)
            while (report := await frames.read_report(process.stdout)) is not None:
                if isinstance(report, messages.Unusable):
                    reason = report.reason
                else:
                    self._handle(worker, report)
        except frames.Broken as error:
            reason = f"sent what cannot be read: {error}"
        finally:
            code = await _end(process)
        return worker.about is not None, reason or _why(code)

    def _handle(self, worker: Worker, report: messages.FromWorker) -> None:
        match report:
            case messages.Ready():
                worker.about, worker.why = report, ""
                self._change()
                self._listener.ready(worker)
            case messages.Told():
                self._listener.told(worker, report)
            case messages.Finished():
                worker.running = None
                self._listener.finished(worker, report)
            case messages.Validated() | messages.Described() | messages.Measured():
                worker.answered(report)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _kill_if_stuck(self, worker: Worker, running: tuple[str, int], grace: float) -> None:
        process = worker.process
        await asyncio.sleep(grace)
        if worker.running == running and process is not None and worker.process is process:
            log.warning("killed: it does not stop", extra={"worker": worker.name, "job": running[0]})
            with suppress(ProcessLookupError):
                process.kill()


async def _end(process: asyncio.subprocess.Process) -> int:
    """Wait for a process that should be ending; kill it if it does not. Returns its exit code."""
    try:
        return await asyncio.wait_for(process.wait(), STOP_GRACE)
    except asyncio.TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def _why(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"the process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
