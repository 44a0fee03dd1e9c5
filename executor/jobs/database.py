"""One SQLite file on one thread. Calls that wait together are committed together: a commit waits for the
disk, and that is what takes the time."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .records import Unusable

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Any]

VERSION = 1
TABLES = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    number REAL NOT NULL,
    client TEXT NOT NULL,
    lane TEXT NOT NULL,
    request TEXT NOT NULL,   -- digest of what was posted, to tell the same request again from another one
    prompt TEXT NOT NULL,    -- JSON, like extra_data, outputs, models, results, error, meta, messages
    extra_data TEXT NOT NULL,
    outputs TEXT NOT NULL,
    kind TEXT NOT NULL,
    models TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    worker TEXT NOT NULL,
    created REAL NOT NULL,   -- seconds since the epoch, like started and ended
    started REAL,
    ended REAL,
    results TEXT NOT NULL,
    error TEXT NOT NULL,
    meta TEXT NOT NULL,
    messages TEXT NOT NULL,
    events BLOB
) WITHOUT ROWID;
CREATE INDEX unfinished ON jobs (created) WHERE state IN ('queued', 'running');
CREATE INDEX finished ON jobs (ended) WHERE ended IS NOT NULL;
CREATE TABLE durations (kind TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
TOGETHER = 256  # calls in one commit, at most


class Database:
    """Opened for one process: another one that opens the same file is refused.

    Raises Unusable for a file that is no queue, is newer than this program, or is in use.
    """

    def __init__(self, path: Path):
        self._path = path
        self._calls: queue.SimpleQueue[tuple[Work, Callable[[Any, BaseException | None], None]] | None]
        self._calls = queue.SimpleQueue()
        self._lock = _Lock(path.with_name(path.name + ".lock"))
        try:
            self._connection = _open(path)
        except BaseException:
            self._lock.release()
            raise
        self.commits = 0
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """`work(connection)` on the database's thread; returns when it is on disk. What it raises undoes it
        alone, and is raised here."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(_settle, future, result, error)

        self._calls.put((work, done))
        return await future

    def post(self, work: Work) -> None:
        """As `call`, without waiting for it. A failure is logged."""
        self._calls.put((work, _log_failure))

    def close(self) -> None:
        """Finish what was called, then close the file."""
        self._calls.put(None)
        self._thread.join()
        self._connection.close()
        self._lock.release()

    def _work(self) -> None:
        while (first := self._calls.get()) is not None:
            batch, last = [first], False
            while len(batch) < TOGETHER and not last:
                try:
                    following = self._calls.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    last = True
                else:
                    batch.append(following)
            self._commit(batch)
            if last:
                return

    def _commit(self, batch: list[tuple[Work, Callable[[Any, BaseException | None], None]]]) -> None:
        answers: list[tuple[Any, BaseException | None]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            answers = [_savepoint(self._connection, work) for work, _ in batch]
            self._connection.execute("COMMIT")
            self.commits += 1
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failure = Unusable(f"{self._path} cannot be written: {error}")
            answers = [(None, failure)] * len(batch)
        for (_, done), answer in zip(batch, answers, strict=True):
            done(*answer)


def _savepoint(connection: sqlite3.Connection, work: Work) -> tuple[Any, BaseException | None]:
    connection.execute("SAVEPOINT call")
    try:
        result = work(connection)
    except Exception as error:  # it is the caller's, and goes back there
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
            raise
        connection.execute("ROLLBACK TO call")
        connection.execute("RELEASE call")
        return None, error
    connection.execute("RELEASE call")
    return result, None


def _log_failure(result: Any, error: BaseException | None) -> None:
    if error is not None:
        log.error("%s", error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # whoever asked has been cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version > VERSION:
            connection.close()
            raise Unusable(f"{path} was written by a newer version ({version}; this one reads {VERSION})")
        connection.row_factory = sqlite3.Row
        return connection
    except sqlite3.Error as error:
        raise Unusable(f"{path} cannot be used as a queue: {error}") from error


class _Lock:
    """A file that one process holds as long as it lives."""

    def __init__(self, path: Path):
        try:
            self._file = path.open("a+")
        except OSError as error:
            raise Unusable(f"{path} cannot be written: {error.strerror or error}") from error
        try:
            _hold(self._file.fileno())
        except OSError as error:
            self._file.seek(0)
            who = self._file.read().strip() or "another process"
            self._file.close()
            raise Unusable(f"{path.with_suffix('')} is in use by {who}") from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


def _hold(descriptor: int) -> None:
    """Raises OSError where another process holds it."""
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
