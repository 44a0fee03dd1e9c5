"""The jobs of a server: accepted, given out, ended, remembered.

What waits and runs is held in memory and on disk alike; what has ended is read from disk. A job is given
out under a new attempt number each time, and only the latest attempt can end it: no job gets two results.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .database import Database
from .limits import Durations, Limits, refusal, seconds_of
from .records import FINISHED, Conflict, Job, Outcome, State
from .waiting import Waiting

ATTEMPTS = 2  # a job whose worker died is tried once more
COLUMNS = tuple(field.name for field in msgspec.structs.fields(Job) if field.name != "cancelling")
JSON_COLUMNS = frozenset(
    ("prompt", "extra_data", "outputs", "models", "results", "error", "meta", "messages")
)


class Jobs:
    """`clock` tells seconds since the epoch. Open with `await Jobs.open(...)`."""

    def __init__(self, database: Database, limits: Limits, clock: Callable[[], float] = time.time):
        self._database = database
        self._limits = limits
        self._clock = clock
        self._durations = Durations()
        self._waiting = Waiting()
        self._unfinished: dict[str, Job] = {}
        self._ending: set[str] = set()  # ids of jobs whose end is being written
        self._next_number = 0
        self.workers = 1  # for estimates

    @classmethod
    async def open(
        cls, path: Path, limits: Limits | None = None, clock: Callable[[], float] = time.time
    ) -> Jobs:
        """Jobs that were running when the last server ended wait again, at the front of their lane; those
        that have been tried often enough have failed. Raises Unusable."""
        jobs = cls(Database(path), limits or Limits(), clock)
        await jobs._recover()
        return jobs

    def close(self) -> None:
        self._database.close()

    # What is there.

    @property
    def waiting(self) -> list[Job]:
        """In the order in which they will about start."""
        return list(self._waiting)

    @property
    def running(self) -> list[Job]:
        return [job for job in self._unfinished.values() if job.state == "running"]

    @property
    def remaining(self) -> int:
        """How many are waiting or running."""
        return len(self._unfinished)

    def unfinished(self, job_id: str) -> Job | None:
        return self._unfinished.get(job_id)

    async def get(self, job_id: str) -> Job | None:
        if job_id in self._unfinished:
            return self._unfinished[job_id]
        rows = await self._read("SELECT * FROM jobs WHERE id = ?", (job_id,))
        return rows[0] if rows else None

    async def finished(
        self,
        *,
        states: Collection[State] = FINISHED,
        limit: int | None = None,
        offset: int = 0,
        newest_first: bool = False,
    ) -> list[Job]:
        """By the time they ended."""
        marks = ", ".join("?" * len(states))
        order = "DESC" if newest_first else "ASC"
        return await self._read(
            f"SELECT * FROM jobs WHERE ended IS NOT NULL AND state IN ({marks}) "
            f"ORDER BY ended {order}, id {order} LIMIT ? OFFSET ?",
            (*states, -1 if limit is None else limit, offset),
        )

    async def count_finished(self, states: Collection[State] = FINISHED) -> int:
        marks = ", ".join("?" * len(states))
        sql = f"SELECT COUNT(*) FROM jobs WHERE ended IS NOT NULL AND state IN ({marks})"
        return await self._database.call(lambda db: db.execute(sql, tuple(states)).fetchone()[0])

    async def events(self, job_id: str) -> bytes:
        """What was told of a job that has ended, as `finish` was given it."""
        sql = "SELECT events FROM jobs WHERE id = ?"
        row = await self._database.call(lambda db: db.execute(sql, (job_id,)).fetchone())
        return row[0] or b"" if row else b""

    async def shows(self, name: str) -> bool:
        """Whether a job that is remembered shows a file of this name."""
        sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE instr(results, ?))"
        quoted = json.dumps(name)
        return bool(await self._database.call(lambda db: db.execute(sql, (quoted,)).fetchone()[0]))

    def estimate(self, job: Job) -> float:
        """Seconds that it will about take."""
        return self._durations.of(job)

    # What happens to a job.

    async def submit(
        self,
        *,
        job_id: str,
        prompt: dict[str, Any],
        outputs: Sequence[str],
        extra_data: dict[str, Any] | None = None,
        client: str = "",
        lane: str = "interactive",
        number: float | None = None,
        front: bool = False,
        kind: str = "",
        models: Sequence[str] = (),
    ) -> tuple[Job, bool]:
        """The job, which is on disk, and whether it is new: the same request under the same id gives the job
        that it gave before. Raises Conflict for another request under that id, and Refused."""
        request = _request(prompt, outputs, extra_data)

        def work() -> float:
            return seconds_of(self._unfinished.values(), self._durations)

        refused = refusal(self._limits, len(self._waiting), self._waiting.of(client), work, self.workers)
        job = Job(
            id=job_id,
            number=self._number(number, front=front),
            client=client,
            lane="bulk" if lane == "bulk" else "interactive",
            prompt=prompt,
            extra_data=extra_data or {},
            outputs=list(outputs),
            kind=kind,
            models=list(models),
            created=self._clock(),
        )

        def write(db: sqlite3.Connection) -> str | None:
            row = db.execute("SELECT request FROM jobs WHERE id = ?", (job_id,)).fetchone()
            if row is not None:
                return row["request"]
            if refused is not None:
                raise refused
            _insert(db, job, request)
            return None

        known = await self._database.call(write)
        if known is None:
            self._unfinished[job_id] = job
            self._waiting.add(job)
            return job, True
        if known != request:
            raise Conflict(f"the id {job_id} belongs to another job")
        return await self.get(job_id) or job, False

    def claim(self, worker: str, loaded: Collection[str] = ()) -> Job | None:
        """The next job, which is running from now on; None where nothing waits."""
        now = self._clock()
        job = self._waiting.take(now, loaded)
        if job is None:
            return None
        job.state, job.attempt, job.worker, job.started, job.reason = (
            "running",
            job.attempt + 1,
            worker,
            now,
            "",
        )
        # Not waited for: if the server dies first, its workers end with it, and the job is given out again.
        self._database.post(
            lambda db: _update(db, job.id, state="running", attempt=job.attempt, worker=worker, started=now)
        )
        return job

    async def finish(self, job_id: str, attempt: int, outcome: Outcome) -> Job | None:
        """The job, which has ended, on disk too; None where this attempt is not the one that counts."""
        job = self._running(job_id, attempt)
        if job is None:
            return None
        self._ending.add(job_id)
        try:
            ended = msgspec.structs.replace(
                job,
                state=outcome.state,
                reason=outcome.reason,
                ended=self._clock(),
                results=outcome.results,
                error=outcome.error,
                meta=outcome.meta,
                messages=outcome.messages,
            )
            seconds = ended.ended - (job.started or ended.ended)
            average = self._durations.learn(job.kind, seconds) if outcome.state == "done" else None

            def write(db: sqlite3.Connection) -> None:
                _update(db, job_id, events=outcome.events, **_row(ended, ENDING))
                if average is not None:
                    db.execute("INSERT OR REPLACE INTO durations VALUES (?, ?)", (job.kind, average))

            await self._database.call(write)
            del self._unfinished[job_id]
            return ended
        finally:
            self._ending.discard(job_id)

    async def lost(self, job_id: str, attempt: int, reason: str) -> Job | None:
        """Its worker died. The job waits again, at the front of its lane, or has failed: the job, or None
        where this attempt is not the one that counts."""
        job = self._running(job_id, attempt)
        if job is None:
            return None
        if job.cancelling:
            return await self.finish(job_id, attempt, Outcome(state="cancelled", reason="cancelled"))
        if job.attempt >= ATTEMPTS:
            tried = f"its worker died {job.attempt} times, at last because {reason}"
            return await self.finish(job_id, attempt, Outcome(state="failed", reason=tried))
        job.state, job.worker, job.started = "queued", "", None
        job.reason = f"waits again, since its worker died: {reason}"
        self._waiting.add(job)
        await self._database.call(lambda db: _update(db, job_id, state="queued", reason=job.reason))
        return job

    async def put_back(self, job_id: str, attempt: int) -> None:
        """The server is stopping: the job waits again, and this attempt does not count."""
        job = self._running(job_id, attempt)
        if job is not None:
            job.state, job.attempt, job.worker, job.started = "queued", attempt - 1, "", None
            job.reason = "waits again, since the server was stopped"
            self._waiting.add(job)
            back = {"state": "queued", "attempt": job.attempt, "reason": job.reason}
            await self._database.call(lambda db: _update(db, job_id, **back))

    async def cancel(self, job_id: str) -> Job | None:
        """The job: cancelled if it was waiting, marked as being cancelled if it is running (whoever runs it
        has to be told), as it is if it has ended; None where there is none."""
        job = self._unfinished.get(job_id)
        if job is None:
            return await self.get(job_id)
        if job.state == "running":
            job.cancelling = True
        elif job.state == "queued":
            self._waiting.remove(job)
            job.state, job.reason, job.ended = "cancelled", "cancelled before it started", self._clock()
            await self._database.call(lambda db: _update(db, job_id, **_row(job, ENDING)))
            del self._unfinished[job_id]
        return job

    async def forget(self, ids: Iterable[str] | None = None) -> None:
        """Delete these jobs, or all, as far as they have ended."""
        if ids is None:
            await self._database.call(lambda db: db.execute("DELETE FROM jobs WHERE ended IS NOT NULL"))
        else:
            rows = [(job_id,) for job_id in ids]
            sql = "DELETE FROM jobs WHERE ended IS NOT NULL AND id = ?"
            await self._database.call(lambda db: db.executemany(sql, rows))

    async def retire(self, *, older_than: float, keep: int) -> list[Job]:
        """Delete the jobs that ended more than `older_than` seconds ago, and all but the `keep` newest.
        Returns them."""
        before = self._clock() - older_than
        sql = (
            "SELECT * FROM jobs WHERE ended IS NOT NULL AND (ended < ? OR id IN "
            "(SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY ended DESC, id DESC LIMIT -1 OFFSET ?))"
        )
        old = await self._read(sql, (before, keep))
        await self.forget(job.id for job in old)
        return old

    # Inside.

    async def _recover(self) -> None:
        def read(db: sqlite3.Connection) -> tuple[list[sqlite3.Row], list[sqlite3.Row], int]:
            rows = db.execute("SELECT * FROM jobs WHERE state IN ('queued', 'running')").fetchall()
            (highest,) = db.execute("SELECT COALESCE(MAX(ABS(number)), -1) FROM jobs").fetchone()
            return rows, db.execute("SELECT * FROM durations").fetchall(), int(highest)

        rows, durations, highest = await self._database.call(read)
        self._next_number = highest + 1
        self._durations.seconds = {row["kind"]: row["seconds"] for row in durations}
        for job in map(_job, rows):
            self._unfinished[job.id] = job
            if job.state == "running":
                await self.lost(job.id, job.attempt, "the server ended while it was running")
            else:
                self._waiting.add(job)

    def _number(self, number: float | None, *, front: bool) -> float:
        if number is not None:
            return number
        number = self._next_number
        self._next_number += 1
        return -number if front else number

    def _running(self, job_id: str, attempt: int) -> Job | None:
        job = self._unfinished.get(job_id)
        if job is None or job_id in self._ending or (job.state, job.attempt) != ("running", attempt):
            return None
        return job

    async def _read(self, sql: str, values: Sequence[Any]) -> list[Job]:
        rows = await self._database.call(lambda db: db.execute(sql, tuple(values)).fetchall())
        return [_job(row) for row in rows]


ENDING = ("state", "reason", "ended", "results", "error", "meta", "messages")


def _request(prompt: Any, outputs: Any, extra_data: Any) -> str:
    content = json.dumps([prompt, sorted(outputs), extra_data or {}], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _row(job: Job, names: Iterable[str]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if name in JSON_COLUMNS else value
        for name, value in ((name, getattr(job, name)) for name in names)
    }


def _job(row: sqlite3.Row) -> Job:
    return Job(**{n: json.loads(row[n]) if n in JSON_COLUMNS else row[n] for n in COLUMNS})


def _insert(db: sqlite3.Connection, job: Job, request: str) -> None:
    row = {**_row(job, COLUMNS), "request": request}
    names = ", ".join(row)
    db.execute(f"INSERT INTO jobs ({names}) VALUES ({', '.join(':' + n for n in row)})", row)


def _update(db: sqlite3.Connection, job_id: str, **values: Any) -> None:
    named = ", ".join(f"{name} = :{name}" for name in values)
    db.execute(f"UPDATE jobs SET {named} WHERE id = :job_id", {**values, "job_id": job_id})
