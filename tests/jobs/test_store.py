"""The queue on disk."""

import asyncio
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slipstream.executor.jobs.limits import Limits
from slipstream.executor.jobs.records import Conflict, Outcome, Refused, Unusable
from slipstream.executor.jobs.store import Jobs

PROMPT = {"1": {"class_type": "Save", "inputs": {"x": 1}}}
DONE = Outcome(state="done", results={"1": {"images": [{"filename": "a.png"}]}}, events=b"told")


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.sqlite3"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(path, clock):
    """`queue(work, ...)` opens the queue, runs `await work(jobs)`, and closes it."""

    def run(work, limits=None):
        async def main():
            jobs = await Jobs.open(path, limits, clock)
            try:
                return await work(jobs)
            finally:
                jobs.close()

        return asyncio.run(main())

    return run


def add(jobs, job_id, **rest):
    return jobs.submit(job_id=job_id, prompt=PROMPT, outputs=["1"], **rest)


def test_from_submit_to_the_end(queue, clock):
    async def work(jobs):
        job, new = await add(jobs, "a", client="me", extra_data={"client_id": "me"})
        assert (job.state, new, job.number, job.created) == ("queued", True, 0, 1000.0)
        assert [one.id for one in jobs.waiting] == ["a"]
        clock.now = 1010.0
        job = jobs.claim("cpu:0")
        assert (job.id, job.state, job.attempt, job.worker, job.started) == ("a", "running", 1, "cpu:0", 1010)
        assert jobs.claim("cpu:1") is None
        assert jobs.waiting == []
        clock.now = 1025.0
        ended = await jobs.finish("a", 1, DONE)
        assert (ended.state, ended.ended, ended.results) == ("done", 1025.0, DONE.results)
        assert jobs.remaining == 0

    queue(work)

    async def later(jobs):
        job = await jobs.get("a")
        assert (job.state, job.prompt, job.results, job.client) == ("done", PROMPT, DONE.results, "me")
        assert await jobs.events("a") == b"told"
        assert [one.id for one in await jobs.finished()] == ["a"]
        assert await jobs.get("b") is None
        again, _ = await add(jobs, "b")
        assert again.number == 1

    queue(later)


def test_the_same_request_again_is_the_same_job(queue):
    async def work(jobs):
        answers = await asyncio.gather(*(add(jobs, "a") for _ in range(20)))
        assert [new for _, new in answers].count(True) == 1
        assert len(jobs.waiting) == 1
        jobs.claim("w")
        await jobs.finish("a", 1, DONE)
        job, new = await add(jobs, "a")
        assert (job.state, job.results, new) == ("done", DONE.results, False)
        with pytest.raises(Conflict):
            await jobs.submit(job_id="a", prompt={"2": {}}, outputs=["2"])
        with pytest.raises(Conflict):
            await jobs.submit(job_id="a", prompt=PROMPT, outputs=["1"], extra_data={"x": 1})

    queue(work)


def test_front_number_and_lane(queue):
    async def work(jobs):
        await add(jobs, "first")
        await add(jobs, "front", front=True)
        await add(jobs, "bulk", lane="bulk")
        await add(jobs, "numbered", number=0.5)
        await add(jobs, "front 2", front=True)
        assert [job.id for job in jobs.waiting] == ["front 2", "front", "first", "numbered", "bulk"]
        assert [job.number for job in jobs.waiting] == [-3, -1, 0, 0.5, 2]

    queue(work)


def test_only_the_latest_attempt_ends_a_job(queue):
    async def work(jobs):
        await add(jobs, "a")
        jobs.claim("w")
        job = await jobs.lost("a", 1, "killed")
        assert (job.state, "killed" in job.reason) == ("queued", True)
        assert await jobs.finish("a", 1, DONE) is None  # a late word of the first attempt
        assert jobs.claim("v").attempt == 2
        assert await jobs.finish("a", 1, DONE) is None
        assert await jobs.lost("a", 1, "killed") is None
        ended = await asyncio.gather(*(jobs.finish("a", 2, DONE) for _ in range(3)))
        assert [job is not None for job in ended].count(True) == 1

    queue(work)


def test_a_job_is_tried_twice_then_it_has_failed_with_the_reason(queue):
    async def work(jobs):
        await add(jobs, "a")
        jobs.claim("w")
        await jobs.lost("a", 1, "killed by SIGKILL")
        jobs.claim("w")
        job = await jobs.lost("a", 2, "killed by SIGSEGV")
        assert job.state == "failed"
        assert job.reason == "its worker died 2 times, at last because killed by SIGSEGV"
        assert (await jobs.get("a")).reason == job.reason

    queue(work)


def test_what_is_put_back_is_not_counted_as_tried(queue):
    async def work(jobs):
        await add(jobs, "a")
        for _ in range(3):
            assert jobs.claim("w").attempt == 1
            await jobs.put_back("a", 1)
        assert await jobs.finish("a", 1, DONE) is None

    queue(work)

    async def later(jobs):
        assert [(job.id, job.attempt) for job in jobs.waiting] == [("a", 0)]

    queue(later)


def test_cancel_is_by_id(queue):
    async def work(jobs):
        for name in ("a", "b", "c"):
            await add(jobs, name)
        jobs.claim("w")
        running = await jobs.cancel("a")
        assert (running.state, running.cancelling, running.worker) == ("running", True, "w")
        waiting = await jobs.cancel("c")
        assert (waiting.state, waiting.reason) == ("cancelled", "cancelled before it started")
        assert [job.id for job in jobs.waiting] == ["b"]
        await jobs.finish("a", 1, DONE)  # it was done before it could be stopped
        assert (await jobs.cancel("a")).state == "done"
        assert (await jobs.cancel("c")).state == "cancelled"
        assert await jobs.cancel("nobody") is None
        assert (await jobs.get("b")).state == "queued"

    queue(work)


def test_a_job_whose_worker_had_to_be_killed_for_a_cancel_is_cancelled(queue):
    async def work(jobs):
        await add(jobs, "a")
        jobs.claim("w")
        await jobs.cancel("a")
        assert (await jobs.lost("a", 1, "killed")).state == "cancelled"

    queue(work)


def test_limits(queue, clock):
    async def work(jobs):
        jobs.workers = 2
        await add(jobs, "warm", kind="k")
        jobs.claim("w")
        clock.now += 30
        await jobs.finish("warm", 1, DONE)
        await add(jobs, "1", client="a", kind="k")
        await add(jobs, "2", client="a", kind="k")
        with pytest.raises(Refused, match="this client has 2 jobs waiting, and may have 2") as refused:
            await add(jobs, "3", client="a")
        assert refused.value.retry_after == 30  # two jobs of 30 seconds on two workers
        await add(jobs, "4", client="b", kind="k")
        with pytest.raises(Refused, match="the queue is full: 3 jobs are waiting, 3 may"):
            await add(jobs, "5", client="c")
        job, new = await add(jobs, "1", client="a", kind="k")  # an old one is no new one
        assert (job.id, new) == ("1", False)
        assert await jobs.get("5") is None

    queue(work, Limits(queue=3, per_client=2))


def test_durations_are_averaged_and_remembered(queue, clock):
    async def work(jobs):
        for i, seconds in enumerate((10, 20)):
            job, _ = await add(jobs, str(i), kind="k")
            jobs.claim("w")
            clock.now += seconds
            await jobs.finish(job.id, 1, DONE)
        assert jobs.estimate(job) == pytest.approx(10 + 0.3 * 10)
        return job

    job = queue(work)

    async def later(jobs):
        assert jobs.estimate(job) == pytest.approx(13)

    queue(later)


def test_a_restart_gives_running_jobs_out_again_once(queue):
    async def first(jobs):
        for name in ("a", "b"):
            await add(jobs, name)
        jobs.claim("w")

    queue(first)

    async def second(jobs):
        assert [(job.id, job.state, job.attempt) for job in jobs.waiting] == [
            ("a", "queued", 1),
            ("b", "queued", 0),
        ]
        assert "the server ended" in jobs.waiting[0].reason
        assert jobs.claim("w").attempt == 2

    queue(second)

    async def third(jobs):
        assert [job.id for job in jobs.waiting] == ["b"]
        assert (await jobs.get("a")).state == "failed"

    queue(third)


def test_forgetting_leaves_what_has_not_ended(queue, clock):
    async def work(jobs):
        for name in "abcd":
            await add(jobs, name)
        for name in "abc":
            jobs.claim("w")
            clock.now += 100
            await jobs.finish(name, 1, DONE)
        await jobs.forget(["a", "d", "nobody"])
        assert [job.id for job in await jobs.finished()] == ["b", "c"]
        assert [job.id for job in await jobs.retire(older_than=50, keep=10)] == ["b"]
        await jobs.forget()
        assert await jobs.finished() == []
        assert jobs.claim("w").id == "d"

    queue(work)


def test_keeping_the_newest(queue, clock):
    async def work(jobs):
        for name in "abc":
            await add(jobs, name)
            jobs.claim("w")
            clock.now += 1
            await jobs.finish(name, 1, DONE)
        assert [job.id for job in await jobs.retire(older_than=1e9, keep=2)] == ["a"]
        assert [job.id for job in await jobs.finished(limit=1, newest_first=True)] == ["c"]
        assert [job.id for job in await jobs.finished(offset=1)] == ["c"]
        assert await jobs.count_finished(["done"]) == 2

    queue(work)


def test_submits_that_wait_together_are_committed_together(queue):
    async def work(jobs):
        before = jobs._database.commits
        await asyncio.gather(*(add(jobs, str(i)) for i in range(200)))
        assert jobs._database.commits - before < 50

    queue(work)


def test_one_process_at_a_time(queue, path):
    async def work(jobs):
        with pytest.raises(Unusable, match=r"queue.sqlite3 is in use by process \d+"):
            await Jobs.open(path)

    queue(work)
    queue(lambda jobs: add(jobs, "a"))


def test_a_file_that_is_no_queue_or_a_newer_one(path, tmp_path):
    path.write_bytes(b"no database " * 100)
    with pytest.raises(Unusable, match="cannot be used as a queue"):
        asyncio.run(Jobs.open(path))
    newer = tmp_path / "newer"
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(Unusable, match="newer version"):
        asyncio.run(Jobs.open(newer))
    with pytest.raises(Unusable, match="cannot be written"):
        asyncio.run(Jobs.open(tmp_path / "nowhere" / "q"))


def test_a_disk_that_is_full_is_said_and_nothing_half_accepted(queue):
    async def work(jobs):
        await add(jobs, "a")
        jobs._database._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(Unusable, match="cannot be written"):
            await jobs.submit(job_id="b", prompt={"1": "x" * 1_000_000}, outputs=["1"])
        assert [job.id for job in jobs.waiting] == ["a"]

    queue(work)


@pytest.mark.slow
def test_killed_at_any_moment_nothing_accepted_is_lost(path, tmp_path):
    rng = random.Random(5)
    accepted, ended = set(), {}
    for _ in range(8):
        output = tmp_path / "said"
        with output.open("w") as said:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("crashing.py")), str(path)], stdout=said
            )
            while not output.stat().st_size and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.5))
            process.kill()
            assert process.wait() == -9
        for line in output.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                job_id, _, attempt = line.strip().partition("=")
                if attempt:
                    assert job_id not in ended
                    ended[job_id] = int(attempt)
                else:
                    accepted.add(job_id)

    async def check():
        jobs = await Jobs.open(path)
        for job_id in accepted:
            job = await jobs.get(job_id)
            assert job is not None
            assert job.state in ("queued", "done", "failed")
            assert job.state != "failed" or "worker died" in job.reason
            if job_id in ended:
                assert (job.state, job.results) == ("done", {"1": {"by": [ended[job_id]]}})
        jobs.close()

    asyncio.run(check())
    assert len(ended) > 20
