"""`server`: what the queue and its API cost, with durability on, for prompts that do next to nothing.

Where `SLIPSTREAM_PEER` is the address of a ComfyUI server, it gets the same load in the same run, and its
throughput is the target.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from .registry import Figure, benchmark

PEER = "SLIPSTREAM_PEER"
SUBMIT_MILLISECONDS = 5.0
START_SECONDS = 1.0
IDLE_MEGABYTES = 80.0
COMFYUI_JOBS_PER_SECOND = 740.0  # ComfyUI 0.3.64, queued EmptyImage to a node that does nothing
JOBS = 600
CLIENTS = 64
QUEUE = 100  # jobs that may wait, in the overload
OVERLOAD = 1.5
OVERLOAD_SECONDS = 5.0
READY_SECONDS = 120.0
_numbers = count(1)


def prompt() -> dict[str, Any]:
    """Never the same twice, so that nothing is found in a cache; and no picture: printing that
    would cost more than all the rest."""
    return {
        "1": {"class_type": "PrimitiveInt", "inputs": {"value": next(_numbers)}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }


@contextmanager
def served(*options: str) -> Iterator[tuple[str, int, float]]:
    """Address and process id of a server, and the seconds that it took to listen; its worker is ready."""
    command = [
        sys.executable,
        "-c",
        "from slipstream.executor.cli import main; main()",
        "serve",
        "--port",
        "0",
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--data", f"{folder}/data", *options], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        try:
            url = process.stdout.readline().split()[-1].rstrip("/")
            seconds = time.perf_counter() - started
            _wait_until_ready(url)
            yield url, process.pid, seconds
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(url):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server at {url} did not become ready")
        time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ready"):
            return True
    except urllib.error.HTTPError:
        return False


@benchmark("server", "cost of the queue and its API: submits, jobs per second, memory, overload")
def measure() -> list[Figure]:
    peer = os.environ.get(PEER)
    target = asyncio.run(_queued(peer.rstrip("/"), JOBS)) if peer else COMFYUI_JOBS_PER_SECOND
    with served("--max-queue", "100000", "--max-per-client", "100000") as (url, pid, start):
        resident = _resident(pid)
        submits = asyncio.run(_submits(url, 200))
        queued = asyncio.run(_queued(url, JOBS))
        together = asyncio.run(_together(url, CLIENTS, JOBS))
    with served("--max-queue", str(QUEUE), "--max-per-client", str(QUEUE)) as (url, _, _):
        slowest, refused = asyncio.run(_overload(url, queued * OVERLOAD, OVERLOAD_SECONDS))
    whose = "the peer's" if peer else "ComfyUI's recorded"
    return [
        Figure("submit answered, median", median(submits) * 1e3, "ms", SUBMIT_MILLISECONDS, "<="),
        Figure(f"queued jobs a second, against {whose}", queued, "/s", target, ">="),
        Figure(f"jobs a second, {CLIENTS} clients that wait for each", together, "/s", target / 2, ">="),
        Figure("from start to listening", start, "s", START_SECONDS, "<="),
        Figure("memory of the idle server process", resident / 1e6, "MB", IDLE_MEGABYTES, "<="),
        # A job that is accepted waits for at most a full queue.
        Figure(f"p99 of accepted jobs at {OVERLOAD}x", slowest, "s", 2 * QUEUE / queued + 0.5, "<="),
        Figure(f"refused with 429 at {OVERLOAD}x", float(refused), "jobs", 1.0, ">="),
    ]


def _resident(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def _submits(url: str, number: int) -> list[float]:
    """Seconds of each POST, one after the other."""
    import aiohttp

    taken = []
    async with aiohttp.ClientSession() as session:
        for _ in range(number):
            started = time.perf_counter()
            async with session.post(f"{url}/prompt", json={"prompt": prompt()}) as answer:
                await answer.read()
                assert answer.status == 200
            taken.append(time.perf_counter() - started)
        await _drained(session, url)
    return taken


async def _queued(url: str, number: int) -> float:
    """Jobs a second, posted as fast as they are taken, until the last has ended."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        started = time.perf_counter()

        async def post() -> None:
            async with session.post(f"{url}/prompt", json={"prompt": prompt()}) as answer:
                await answer.read()

        for first in range(0, number, 50):
            await asyncio.gather(*(post() for _ in range(first, min(number, first + 50))))
        await _drained(session, url)
        return number / (time.perf_counter() - started)


async def _together(url: str, clients: int, number: int) -> float:
    """Jobs a second of clients that each wait for theirs on their websocket."""
    import aiohttp

    async def client(session: aiohttp.ClientSession, name: str) -> None:
        async with session.ws_connect(f"{url}/ws?clientId={name}") as socket:
            for _ in range(number // clients):
                async with session.post(
                    f"{url}/prompt", json={"prompt": prompt(), "client_id": name}
                ) as answer:
                    job = (await answer.json())["prompt_id"]
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT and '"executing"' in message.data:
                        content = json.loads(message.data)
                        if content["data"] == {"node": None, "prompt_id": job}:
                            break

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        started = time.perf_counter()
        await asyncio.gather(*(client(session, f"bench-{index}") for index in range(clients)))
        return number // clients * clients / (time.perf_counter() - started)


async def _overload(url: str, rate: float, seconds: float) -> tuple[float, int]:
    """99th percentile of the seconds from submit to end of the jobs taken, and how many were refused."""
    import aiohttp

    refused = 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post() -> None:
            nonlocal refused
            async with session.post(f"{url}/prompt", json={"prompt": prompt()}) as answer:
                refused += answer.status == 429
                await answer.read()

        tasks, started = [], time.perf_counter()
        while (now := time.perf_counter() - started) < seconds:
            tasks += [asyncio.create_task(post()) for _ in range(int(now * rate) - len(tasks))]
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)
        await _drained(session, url)
        async with session.get(f"{url}/api/jobs?status=completed") as answer:
            jobs = (await answer.json())["jobs"]
    waits = [(job["execution_end_time"] - job["create_time"]) / 1e3 for job in jobs]
    return quantiles(waits, n=100)[98], refused


async def _drained(session: Any, url: str) -> None:
    while True:
        async with session.get(f"{url}/prompt") as answer:
            if (await answer.json())["exec_info"]["queue_remaining"] == 0:
                return
        await asyncio.sleep(0.005)
