"""What Prometheus reads."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families
from serving import connected, one_node, steps


async def read(client):
    """Values by name and first label."""
    text = (await client.get("/metrics")).decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics(start_server):
    server = start_server("--max-queue", "1")

    async def work():
        async with connected(server.url) as client:
            for prompt in (steps(steps=1), steps(steps=1), one_node("Fails"), one_node("Dies", by="kill")):
                await client.ended((await client.submit(prompt))["prompt_id"])
            await client.submit(steps(steps=0), status=400)
            running = (await client.submit(steps(steps=5000, pause=0.02)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress" and data["max"] == 5000)
            waiting = (await client.submit(steps(pause=0.5), extra_data={"lane": "bulk"}))["prompt_id"]
            await client.submit(steps(pause=0.6), status=429)
            values = await read(client)
            assert values["slipstream_jobs_total", "done"] == 2
            assert values["slipstream_jobs_total", "failed"] == 2
            assert values["slipstream_workers_died_total", "auto"] == 2
            assert values["slipstream_refused_total", "invalid"] == 1
            assert values["slipstream_refused_total", "queue_full"] == 1
            assert values["slipstream_nodes_total", "executed"] == 1
            assert values["slipstream_nodes_total", "cached"] == 1
            assert values["slipstream_waiting_jobs", "bulk"] == 1
            assert values["slipstream_waiting_jobs", "interactive"] == 0
            assert values["slipstream_running_jobs", ""] == 1
            assert values["slipstream_worker_up", "auto"] == values["slipstream_worker_busy", "auto"] == 1
            assert sum(v for (name, _), v in values.items() if name == "slipstream_run_seconds_count") == 4
            await client.post(f"/api/jobs/{waiting}/cancel")
            await client.post(f"/api/jobs/{running}/cancel")
            await client.ended(running)
            values = await read(client)
            assert values["slipstream_jobs_total", "cancelled"] == 2

    asyncio.run(work())
