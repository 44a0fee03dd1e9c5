"""Options from a file, and what the log tells of a job."""

import asyncio
import json
import subprocess
import sys

import pytest
from serving import connected, one_node, steps


def test_options_from_a_file_and_a_log_line_for_each_thing_that_happens_to_a_job(start_server, tmp_path):
    (tmp_path / "slipstream.toml").write_text(
        'max-queue = 1\nlog-format = "json"\nverbose = 1\ndata = "kept"\n'
    )
    server = start_server("--config", "slipstream.toml")

    async def work():
        async with connected(server.url) as client:
            for job, prompt in (("good", steps(steps=1)), ("bad", one_node("Fails"))):
                await client.submit(prompt, prompt_id=job)
                await client.ended(job)
            await client.submit(steps(steps=5000, pause=0.02), prompt_id="long")
            await client.listen(lambda kind, data: kind == "progress" and data["max"] == 5000)
            await client.submit(steps(pause=0.5), prompt_id="waiting")
            await client.submit(steps(pause=0.6), status=429)  # max-queue
            await client.post("/api/jobs/waiting/cancel")
            await client.post("/api/jobs/long/cancel")
            await client.ended("long")
            return client.id

    client = asyncio.run(work())
    assert (tmp_path / "kept" / "queue.sqlite3").exists()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    told = {}
    for line in lines:
        if "job" in line:
            told.setdefault(line["job"], []).append(line)
    assert [(line["message"], line.get("state")) for line in told["good"]] == [
        ("queued", None),
        ("started", None),
        ("ended", "done"),
    ]
    assert told["good"][0]["client"] == client
    assert told["good"][1]["worker"] == "auto"
    assert float(told["good"][2]["seconds"]) >= 0
    assert told["bad"][-1]["level"] == "warning"
    assert "as it was told to" in told["bad"][-1]["reason"]
    assert [line.get("state") for line in told["waiting"]] == [None, "cancelled"]
    assert told["long"][-1]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "there is no option prot"),
        ("port = 'x'", "--port"),
        ("port = 99999", "99999 is not in the range"),
        ("port: 1", "cannot be read"),
        ("log-format = 'xml'", "'text', 'json'"),
    ],
)
def test_a_bad_file_of_options_is_one_message(tmp_path, text, said):
    path = tmp_path / "x.toml"
    path.write_text(text)
    code = "from slipstream.executor.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--config", str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
