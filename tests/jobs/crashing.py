"""A server's queue that is killed: `python crashing.py FILE`. Prints `id` of each job once it is told that it
was accepted, and `id=n` of each once it is told that attempt n has ended it."""

import asyncio
import itertools
import sys
import uuid
from pathlib import Path

from slipstream.executor.jobs.records import Outcome
from slipstream.executor.jobs.store import Jobs


async def main():
    jobs = await Jobs.open(Path(sys.argv[1]))

    async def submit():
        for i in itertools.count():
            job_id = str(uuid.uuid4())
            await jobs.submit(job_id=job_id, prompt={"1": {"i": i}}, outputs=["1"], client=str(i % 3))
            print(job_id, flush=True)
            await asyncio.sleep(0.002)

    async def work():
        while True:
            job = jobs.claim("w")
            await asyncio.sleep(0.003)
            if job is not None:
                outcome = Outcome(state="done", results={"1": {"by": [job.attempt]}})
                if await jobs.finish(job.id, job.attempt, outcome):
                    print(f"{job.id}={job.attempt}", flush=True)

    await asyncio.gather(submit(), submit(), work(), work())


asyncio.run(main())
