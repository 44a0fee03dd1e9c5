"""Workers and servers that die: what was accepted ends once, with a result or a reason."""

import asyncio
import os
import random
import signal
from pathlib import Path

import aiohttp
import pytest
from serving import SECONDS, connected, one_node, steps


def run(work):
    return asyncio.run(work)


async def pids(client):
    """Of the workers, told by a job that each runs."""
    answer = await client.submit(steps(steps=1, pause=random.random() / 1000))
    return (await client.ended(answer["prompt_id"]))["outputs"]["1"]["pid"][0]


def test_a_worker_that_dies_costs_its_job_a_second_try_then_it_has_failed(start_server):
    server = start_server()

    async def work():
        async with connected(server.url) as client:
            answer = await client.submit(one_node("Dies", by="kill"))
            await client.listen_to_the_end_of(answer["prompt_id"])
            error = next(data for kind, data in client.heard if kind == "execution_error")
            assert error["exception_type"] == "WorkerDied"
            assert "its worker died 2 times" in error["exception_message"]
            assert "SIGKILL" in error["exception_message"]
            job = await client.get(f"/jobs/{answer['prompt_id']}")
            assert (job["status"], job["reason"]) == ("failed", error["exception_message"])
            after = await client.submit(steps())
            assert (await client.ended(after["prompt_id"]))["status"]["completed"]

    run(work())


def test_a_job_that_takes_too_long_is_stopped(start_server):
    server = start_server("--job-timeout", "0.5")

    async def work():
        async with connected(server.url) as client:
            answer = await client.submit(steps(steps=5000, pause=0.02))
            await client.ended(answer["prompt_id"])
            job = await client.get(f"/jobs/{answer['prompt_id']}")
            assert job["status"] == "failed"
            assert "longer than the 0.5 seconds" in job["reason"]

    run(work())


def test_a_full_queue_says_when_to_come_back(start_server):
    server = start_server("--max-queue", "2")

    async def work():
        async with connected(server.url) as client:
            running = await client.submit(steps(steps=5000, pause=0.02))
            await client.listen(lambda kind, data: kind == "progress")
            for i in range(2):
                await client.submit(steps(pause=0.1 + i))
            body = {"prompt": steps(pause=0.9)}
            async with client.session.post(f"{server.url}/prompt", json=body) as answer:
                assert answer.status == 429
                assert int(answer.headers["Retry-After"]) >= 1
                assert (
                    "the queue is full: 2 jobs are waiting, 2 may"
                    in (await answer.json())["error"]["message"]
                )
            await client.post("/queue", {"clear": True})
            await client.post("/interrupt")
            await client.ended(running["prompt_id"])

    run(work())


def test_a_killed_server_goes_on_where_it_was(start_server):
    server = start_server()

    async def before():
        async with connected(server.url) as client:
            done = (await client.submit(steps(steps=1)))["prompt_id"]
            await client.ended(done)
            running = (await client.submit(steps(steps=20, pause=0.05)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress")
            waiting = [(await client.submit(steps(steps=i + 2)))["prompt_id"] for i in range(3)]
            return done, running, waiting

    done, running, waiting = run(before())
    server.kill()
    server.start().wait_until_ready()

    async def after():
        async with connected(server.url) as client:
            for prompt_id in (done, running, *waiting):
                entry = await client.ended(prompt_id)
                assert entry["status"]["completed"], prompt_id
            assert list(await client.get("/history")) == [done, running, *waiting]

    run(after())


def test_a_second_server_on_the_same_queue_is_refused(start_server):
    server = start_server()
    with pytest.raises(AssertionError, match="is in use by process"):
        type(server)(server.folder).start()


def test_stopping_leaves_jobs_for_the_next_start(start_server):
    server = start_server()

    async def before():
        async with connected(server.url) as client:
            running = (await client.submit(steps(steps=50, pause=0.02)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress")
            return running

    prompt_id = run(before())
    server.stop()
    assert server.process.returncode == 0
    server.start().wait_until_ready()

    async def after():
        async with connected(server.url) as client:
            assert (await client.ended(prompt_id))["status"]["completed"]

    run(after())


@pytest.mark.slow
def test_two_hundred_jobs_while_everything_is_being_killed(start_server):
    """Every accepted job ends done, or failed with a reason; none is lost, none ends twice."""
    server = start_server("--workers", "2")
    rng = random.Random(11)
    accepted: dict[str, int] = {}

    async def submit(count):
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                number = len(accepted)
                prompt_id = f"job-{number}"
                body = {"prompt": steps(steps=2, pause=0.001 + number / 1e5), "prompt_id": prompt_id}
                try:
                    async with session.post(f"{server.url}/prompt", json=body) as answer:
                        if answer.status == 200:
                            accepted[prompt_id] = number
                        else:
                            assert answer.status == 503, await answer.text()
                except aiohttp.ClientError:
                    return

    def workers():
        """Children of the server process."""
        pid = server.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    deadline = 40
    while len(accepted) < 200 and deadline:
        deadline -= 1
        run(submit(rng.randint(5, 20)))
        if rng.random() < 0.3:
            server.kill()
            server.start().wait_until_ready()
        elif alive := workers():
            os.kill(rng.choice(alive), signal.SIGKILL)
    server.wait_until_ready()
    assert len(accepted) >= 200

    async def check():
        async with aiohttp.ClientSession() as session:

            async def all_ended():
                while True:
                    async with session.get(f"{server.url}/api/jobs?limit=1000") as answer:
                        jobs = (await answer.json())["jobs"]
                    if all(job["status"] in ("completed", "failed", "cancelled") for job in jobs):
                        return {job["id"]: job for job in jobs}
                    await asyncio.sleep(0.1)

            return await asyncio.wait_for(all_ended(), 3 * SECONDS)

    jobs = run(check())
    assert accepted.keys() <= jobs.keys()
    assert {jobs[name]["status"] for name in accepted} <= {"completed", "failed"}
    for name in accepted:
        if jobs[name]["status"] == "failed":
            assert "worker died" in jobs[name]["reason"]
    assert sum(jobs[name]["status"] == "completed" for name in accepted) > 150
