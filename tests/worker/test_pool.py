"""Worker processes, real ones, on a host of trivial nodes."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest
import trivial_host
from slipstream.executor.graph import events
from slipstream.executor.worker.messages import Ready, Run, Setup
from slipstream.executor.worker.pool import Pool, Unavailable

SECONDS = 60  # that anything may take on a busy machine


class Listener:
    """Keeps what workers say, in order."""

    def __init__(self):
        self.heard = []
        self.changed = asyncio.Event()

    def _hear(self, entry):
        self.heard.append(entry)
        self.changed.set()

    def ready(self, worker):
        self._hear(("ready", worker.about.pid))

    def told(self, worker, report):
        self._hear(("told", report))

    def finished(self, worker, report):
        self._hear(("finished", report))

    def lost(self, worker, job, attempt, reason):
        self._hear(("lost", (job, attempt, reason)))

    async def until(self, kind, count=1):
        """The entries of a kind, once there are `count` of them."""

        async def wait():
            while len(self.of(kind)) < count:
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), SECONDS)
        return self.of(kind)

    def of(self, kind):
        return [said for what, said in self.heard if what == kind]


def steps(job, steps=3, pause=0.0, attempt=1, **options):
    prompt = {"1": {"class_type": "Steps", "inputs": {"steps": steps, "pause": pause}}}
    return Run(job, attempt, prompt, ["1"], **options)


def one_node(job, kind, **inputs):
    return Run(job, 1, {"1": {"class_type": kind, "inputs": inputs}}, ["1"])


@pytest.fixture
def with_pool(monkeypatch, tmp_path):
    """`with_pool(work)` runs `await work(pool, listener)` with a pool of one worker that is ready."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    setup = Setup(host="trivial_host:host", output=str(tmp_path))

    def run(work, *, setup=setup, workers=1, ready=True):
        async def main():
            listener = Listener()
            pool = Pool([msgspec.structs.replace(setup, name=f"cpu:{i}") for i in range(workers)], listener)
            pool.start()
            try:
                if ready:
                    await listener.until("ready", workers)
                await work(pool, listener)
            finally:
                await pool.stop()

        asyncio.run(main())

    return run


def test_a_run_is_told_step_by_step_with_previews(with_pool):
    async def work(pool, listener):
        pool.run(pool.workers[0], steps("a"))
        assert not pool.workers[0].is_idle
        (finished,) = await listener.until("finished")
        assert (finished.job, finished.attempt, finished.status) == ("a", 1, "success")
        assert finished.outputs["1"]["steps"] == [3]
        assert finished.outputs["1"]["pid"] == [pool.workers[0].about.pid]
        assert finished.executed == ["1"]
        told = listener.of("told")
        assert [type(said.event).__name__ for said in told] == [
            "ExecutionStarted",
            "ExecutionCached",
            "NodeStarted",
            *["NodeProgress"] * 3,
            "NodeOutput",
            "NodeFinished",
            "ExecutionSucceeded",
        ]
        steps_told = [said for said in told if isinstance(said.event, events.NodeProgress)]
        assert [said.event.value for said in steps_told] == [1, 2, 3]
        assert all(said.preview[:2] == b"\xff\xd8" for said in steps_told)  # JPEGs
        assert pool.workers[0].is_idle

        pool.run(pool.workers[0], steps("b"))  # the engine keeps results
        assert (await listener.until("finished", 2))[1].cached == ["1"]

    with_pool(work)


def test_validation_and_definitions_while_a_job_runs(with_pool):
    async def work(pool, listener):
        pool.run(pool.workers[0], steps("a", steps=1000, pause=0.05))
        await listener.until("told", 4)
        good = await pool.validate(steps("b", steps="7").prompt, None)
        assert (good.ok, good.outputs) == (True, ["1"])
        assert good.prompt["1"]["inputs"]["steps"] == 7
        bad = await pool.validate(steps("b", steps=0).prompt, None)
        assert not bad.ok
        assert bad.node_errors["1"]["errors"][0]["type"] == "value_smaller_than_min"
        assert set(json.loads(await pool.describe())) == set(trivial_host.NODES)
        assert set(json.loads(await pool.describe("Deaf"))) == {"Deaf"}
        assert json.loads(await pool.describe("None such")) == {}
        assert (await pool.measure(pool.workers[0])).resident > 10_000_000
        assert pool.cancel("a", 1)
        (finished,) = await listener.until("finished")
        assert finished.status == "interrupted"

    with_pool(work)


def test_cancel_hits_that_attempt_only(with_pool):
    async def work(pool, listener):
        pool.run(pool.workers[0], steps("a", steps=20, pause=0.05, attempt=2))
        await listener.until("told", 4)
        assert not pool.cancel("a", 1)
        assert not pool.cancel("b", 2)
        (finished,) = await listener.until("finished")
        assert (finished.status, finished.attempt) == ("success", 2)
        assert not pool.cancel("a", 2)

    with_pool(work)


def test_a_job_that_does_not_stop_costs_its_process(with_pool):
    async def work(pool, listener):
        pool.run(pool.workers[0], one_node("a", "Deaf", seconds=1000))
        await listener.until("told", 4)  # the node itself: before that, the run would still stop
        before = pool.workers[0].about.pid
        assert pool.cancel("a", 1, grace=0.2)
        ((job, attempt, reason),) = await listener.until("lost")
        assert (job, attempt) == ("a", 1)
        assert "SIGKILL" in reason
        _, after = await listener.until("ready", 2)
        assert after != before
        pool.run(pool.workers[0], steps("b"))
        assert (await listener.until("finished"))[0].status == "success"

    with_pool(work)


@pytest.mark.parametrize("turns", range(5))  # of the event loop
def test_a_question_to_a_worker_that_dies_once_it_is_ready(turns, monkeypatch):
    monkeypatch.setattr("slipstream.executor.worker.pool.ANSWER_SECONDS", 0.05)

    async def work():
        pool = Pool([Setup(name="cpu")], Listener())
        question = asyncio.ensure_future(pool.validate({}, None))
        await asyncio.sleep(0.01)
        pool._handle(pool.workers[0], Ready(1, "cpu", "cpu", 0, 1, {}))
        for _ in range(turns):
            await asyncio.sleep(0)
        pool.workers[0].ended("killed")
        with pytest.raises(Unavailable, match="worker cpu"):
            await question

    asyncio.run(work())


@pytest.mark.parametrize(
    ("by", "reason"), [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("exit", "exit code 3")]
)
def test_a_worker_that_dies_is_replaced_and_the_job_reported_lost(with_pool, by, reason):
    async def work(pool, listener):
        pool.run(pool.workers[0], one_node("a", "Dies", by=by))
        ((job, attempt, said),) = await listener.until("lost")
        assert (job, attempt) == ("a", 1)
        assert reason in said
        with pytest.raises(Unavailable):
            await pool.measure(pool.workers[0])
        await listener.until("ready", 2)

    with_pool(work)


def test_a_failing_node_is_no_loss_of_the_worker(with_pool):
    async def work(pool, listener):
        pool.run(pool.workers[0], one_node("a", "Fails"))
        (finished,) = await listener.until("finished")
        assert finished.status == "error"
        assert finished.error.exception_type == "RuntimeError"
        assert finished.error.exception_message.startswith("as it was told to")

    with_pool(work)


@pytest.mark.parametrize("fails", [True, False])
def test_memory_comes_back_after_a_failure_and_a_cancel(with_pool, fails):
    megabytes = 200

    async def work(pool, listener):
        (worker,) = pool.workers
        pool.run(worker, steps("first"))
        await listener.until("finished")
        before = (await pool.measure(worker)).resident
        for number in range(1, 4):
            pool.run(worker, one_node(f"{number}", "Holds", megabytes=megabytes, fails=fails))
            if not fails:
                while (await pool.measure(worker)).resident < before + (megabytes << 20):
                    await asyncio.sleep(0.02)
                assert pool.cancel(f"{number}", 1)
            finished = (await listener.until("finished", number + 1))[-1]
            assert finished.status == ("error" if fails else "interrupted")
            after = (await pool.measure(worker)).resident
            assert after < before + (20 << 20)

    with_pool(work)


def test_a_host_that_cannot_load_says_why(with_pool):
    async def work(pool, listener):
        with pytest.raises(Unavailable):
            await pool.until_ready(3)
        while "no nodes today" not in pool.workers[0].why:
            await asyncio.sleep(0.1)
        with pytest.raises(Unavailable, match="no nodes today"):
            await pool.until_ready(0.1)

    with_pool(work, setup=Setup(host="trivial_host:broken"), ready=False)


def test_workers_end_with_whoever_started_them(with_pool):
    """Their standard input ends; a job that listens is stopped."""
    pids = []

    async def work(pool, listener):
        pids.append(pool.workers[0].about.pid)
        pool.run(pool.workers[0], steps("a", steps=100_000 // 10, pause=0.02))
        await listener.until("told", 4)
        pool.workers[0].process.stdin.close()  # as when the server is killed
        (finished,) = await listener.until("finished")
        assert finished.status == "interrupted"

    with_pool(work)
    deadline = time.monotonic() + SECONDS
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pids[0], 0)
            time.sleep(0.05)


def test_stopping_ends_idle_workers_at_once(with_pool):
    async def work(pool, listener):
        pids.extend(worker.about.pid for worker in pool.workers)

    pids = []
    with_pool(work, workers=2)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
