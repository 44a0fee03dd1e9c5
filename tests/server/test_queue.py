"""Prompts, queue, history, cancel: as ComfyUI's clients see them. The order of messages is that of the
captures which tests/graph/test_protocol.py compares with."""

import asyncio
import itertools
import struct
import uuid

import pytest
from serving import connected, one_node, steps


def run(work):
    return asyncio.run(work)


def kinds(heard):
    return [kind for kind, _ in heard]


def test_a_run_from_post_to_history(server):
    async def work():
        async with connected(server.url, "run") as client:
            answer = await client.submit(
                steps(steps=2, pause=0.01), extra_data={"extra_pnginfo": {"workflow": {}}}
            )
            assert set(answer) == {"prompt_id", "number", "node_errors"}
            prompt_id = answer["prompt_id"]
            await client.listen_to_the_end_of(prompt_id)
            assert kinds(client.heard) == [
                "status",
                "status",
                "status",
                "execution_start",
                "execution_cached",
                "progress_state",
                "executing",
                *["progress_state", "progress", "binary"] * 2,
                "executed",
                "progress_state",
                "execution_success",
                "status",
                "executing",
            ]
            assert client.heard[0][1]["sid"] == "run"
            remaining = [
                data["status"]["exec_info"]["queue_remaining"]
                for kind, data in client.heard
                if kind == "status"
            ]
            assert remaining == [0, 1, 1, 0]
            binary = next(data for kind, data in client.heard if kind == "binary")
            assert struct.unpack(">II", binary[:8]) == (1, 1)
            assert binary[8:10] == b"\xff\xd8"
            entry = (await client.get(f"/history/{prompt_id}"))[prompt_id]
            assert entry["prompt"] == [
                answer["number"],
                prompt_id,
                steps(steps=2, pause=0.01),
                {"extra_pnginfo": {"workflow": {}}, "client_id": "run"},
                ["1"],
            ]
            assert entry["outputs"]["1"]["steps"] == [2]
            status = entry["status"]
            assert (status["status_str"], status["completed"]) == ("success", True)
            assert kinds(status["messages"]) == ["execution_start", "execution_cached", "execution_success"]
            assert entry["meta"]["1"] == {
                "node_id": "1",
                "display_node": "1",
                "parent_node": None,
                "real_node_id": "1",
            }

    run(work())


def test_previews_with_metadata_come_before_the_progress(server):
    async def work():
        async with connected(server.url, "flags", {"supports_preview_metadata": True}) as client:
            await client.listen(lambda kind, data: kind == "feature_flags")
            assert client.heard[-1][1] == {"supports_preview_metadata": True, "max_upload_size": 104857600}
            answer = await client.submit(steps(steps=3, pause=0.011))
            await client.listen_to_the_end_of(answer["prompt_id"])
            names = kinds(client.heard)
            at = names.index("binary")
            assert names[at - 1 : at + 2] == ["progress_state", "binary", "progress"]
            kind, length = struct.unpack(">II", client.heard[at][1][:8])
            assert kind == 4
            assert client.heard[at][1][8 + length :][:2] == b"\xff\xd8"

    run(work())


def test_a_run_without_a_client_id_is_told_to_all_in_part(server):
    async def work():
        async with connected(server.url, "bystander") as client:
            answer = await client.post("/prompt", {"prompt": steps(steps=1, pause=0.012)})
            await client.ended(answer["prompt_id"])
            await client.listen(
                lambda kind, data: kind == "status" and not data["status"]["exec_info"]["queue_remaining"]
            )
            await client.listen(
                lambda kind, data: kind == "status" and not data["status"]["exec_info"]["queue_remaining"]
            )
            assert set(kinds(client.heard)) == {"status", "progress_state", "progress", "binary"}

    run(work())


def test_short_jobs_in_a_row_are_told_one_after_the_other_and_others_hear_how_the_queue_stands(server):
    jobs = [f"row-{index}" for index in range(30)]

    async def work():
        async with connected(server.url) as client, connected(server.url, "other") as other:
            posts = [client.submit(steps(1), prompt_id=job, number=n) for n, job in enumerate(jobs)]
            await asyncio.gather(*posts)
            for _ in jobs:
                await client.listen(lambda kind, data: kind == "executing" and data["node"] is None)
            history = await client.get("/history")
            await other.listen(lambda kind, data: data == {"status": {"exec_info": {"queue_remaining": 0}}})
            return client.heard, history, other.heard

    heard, history, of_others = run(work())
    told = [data["prompt_id"] for kind, data in heard if kind not in ("status", "binary")]
    assert len([job for job, _ in itertools.groupby(told)]) == len(jobs)  # none begins before another ends
    assert set(jobs) <= set(history)
    assert {kind for kind, _ in of_others} == {"status"}


def test_an_error_in_a_node(server):
    async def work():
        async with connected(server.url, "error") as client:
            answer = await client.submit(one_node("Fails"))
            await client.listen_to_the_end_of(answer["prompt_id"])
            assert kinds(client.heard)[-3:] == ["execution_error", "status", "executing"]
            error = client.heard[-3][1]
            assert (error["node_id"], error["node_type"], error["exception_type"]) == (
                "1",
                "Fails",
                "RuntimeError",
            )
            entry = (await client.get(f"/history/{answer['prompt_id']}"))[answer["prompt_id"]]
            assert entry["status"]["status_str"] == "error"
            job = await client.get(f"/jobs/{answer['prompt_id']}")
            assert job["status"] == "failed"
            assert job["execution_error"]["exception_message"].startswith("as it was told to")

    run(work())


@pytest.mark.parametrize("how", ["interrupt", "interrupt that one", "cancel", "queue"])
def test_stopping_a_running_job(server, how):
    async def work():
        async with connected(server.url, f"stop {how}") as client:
            prompt_id = (await client.submit(steps(steps=5000, pause=0.02)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress")
            if how == "interrupt":
                await client.post("/interrupt")
            elif how == "interrupt that one":
                await client.post("/interrupt", {"prompt_id": "another"})
                await client.post("/interrupt", {"prompt_id": prompt_id})
            elif how == "cancel":
                answer = await client.post(f"/api/jobs/{prompt_id}/cancel")
                assert answer == {"id": prompt_id, "status": "in_progress", "cancelling": True}
            else:
                await client.post("/queue", {"delete": [prompt_id]})  # is for those that wait
                assert (await client.get(f"/jobs/{prompt_id}"))["status"] == "in_progress"
                await client.post("/api/jobs/cancel", {"job_ids": [prompt_id]})
            await client.listen_to_the_end_of(prompt_id)
            assert kinds(client.heard)[-3:] == ["execution_interrupted", "status", "executing"]
            job = await client.get(f"/jobs/{prompt_id}")
            assert (job["status"], job["reason"]) == ("cancelled", "interrupted")

    run(work())


def test_the_queue_and_what_can_be_done_with_it(server):
    async def work():
        async with connected(server.url, "queue") as client:
            running = (await client.submit(steps(steps=5000, pause=0.02)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress")
            answers = [await client.submit(steps(steps=1, pause=0.02 + i)) for i in range(3)]
            front = await client.submit(steps(steps=1, pause=0.5), front=True)
            assert front["number"] == -(answers[-1]["number"] + 1)
            queue = await client.get("/api/queue")
            assert [item[1] for item in queue["queue_running"]] == [running]
            assert [item[1] for item in queue["queue_pending"]] == [
                front["prompt_id"],
                *(answer["prompt_id"] for answer in answers),
            ]
            assert (await client.get("/prompt"))["exec_info"]["queue_remaining"] == 5
            jobs = await client.get("/api/jobs?status=in_progress,pending&limit=2")
            assert [job["status"] for job in jobs["jobs"]] == ["in_progress", "pending"]
            assert all(job["estimated_seconds"] >= 0 for job in jobs["jobs"])
            assert jobs["pagination"] == {"offset": 0, "limit": 2, "total": 5, "has_more": True}
            await client.post("/queue", {"delete": [answers[1]["prompt_id"]]})
            assert (await client.get(f"/jobs/{answers[1]['prompt_id']}"))["status"] == "cancelled"
            await client.post("/queue", {"clear": True})
            queue = await client.get("/queue")
            assert queue["queue_pending"] == []
            assert len(queue["queue_running"]) == 1
            await client.post("/interrupt")
            await client.ended(running)

    run(work())


def test_history_windows_delete_and_clear(server):
    async def work():
        async with connected(server.url, "history") as client:
            await client.post("/history", {"clear": True})
            assert await client.get("/history") == {}
            ids = []
            for i in range(4):
                ids.append((await client.submit(steps(steps=i + 1)))["prompt_id"])
                await client.ended(ids[-1])
            assert list(await client.get("/history")) == ids
            assert list(await client.get("/history?max_items=2")) == ids[2:]
            assert list(await client.get("/history?max_items=2&offset=1")) == ids[1:3]
            jobs = await client.get("/jobs?status=completed&limit=3&offset=0")
            assert [job["id"] for job in jobs["jobs"]] == ids[:0:-1]
            assert jobs["pagination"]["has_more"] is True
            await client.post("/history", {"delete": [ids[0]]})
            assert await client.get(f"/history/{ids[0]}") == {}
            await client.get(f"/jobs/{ids[0]}", status=404)
            assert list(await client.get("/history")) == ids[1:]

    run(work())


def test_the_same_prompt_id_again_is_the_same_job(server):
    async def work():
        async with connected(server.url, "again") as client:
            prompt_id = str(uuid.uuid4())
            answers = await asyncio.gather(
                *(client.submit(steps(steps=1, pause=0.3), prompt_id=prompt_id) for _ in range(5))
            )
            assert len({answer["number"] for answer in answers}) == 1
            await client.ended(prompt_id)
            assert (await client.submit(steps(steps=1, pause=0.3), prompt_id=prompt_id)) == answers[0]
            await client.submit(steps(steps=2), prompt_id=prompt_id, status=409)
            history = await client.get("/history")
            assert list(history).count(prompt_id) == 1

    run(work())


def test_coming_back_while_the_job_runs_and_after(server):
    async def work():
        async with connected(server.url, "back") as client:
            prompt_id = (await client.submit(steps(steps=40, pause=0.05)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress")
        async with connected(server.url, "back") as again:
            await again.listen(lambda kind, data: kind == "progress")
            assert kinds(again.heard)[:2] == ["status", "executing"]
            assert again.heard[1][1] == {"node": "1"}
            await again.listen_to_the_end_of(prompt_id)
            assert (await again.get(f"/history/{prompt_id}"))[prompt_id]["status"]["completed"]

    run(work())


def test_what_was_told_can_be_asked_for_later(server):
    async def work():
        async with connected(server.url, "later") as client:
            prompt_id = (await client.submit(steps(steps=30, pause=0.03)))["prompt_id"]
            await client.listen(lambda kind, data: kind == "progress" and data["value"] == 3)
            early = await client.get(f"/jobs/{prompt_id}/events")
            assert not early["ended"]
            await client.listen_to_the_end_of(prompt_id)
            late = await client.get(f"/api/jobs/{prompt_id}/events?after={early['next']}")
            assert late["ended"]
            heard = [entry for entry in client.heard if entry[0] not in ("status", "binary")][:-1]
            told = early["events"] + late["events"]
            assert [(one["type"], one["data"]) for one in told] == heard
            assert [one["number"] for one in told] == list(range(len(heard)))
            await client.get("/jobs/nobody/events", status=404)

    run(work())


def test_a_second_connection_of_a_client_takes_over(server):
    """In ComfyUI 0.3.64 closing the older one cuts off the newer one."""

    async def work():
        async with connected(server.url, "twice") as new:
            async with connected(server.url, "twice"):
                pass
            async with connected(server.url, "twice") as newest:
                await new.socket.close()
                answer = await newest.submit(steps(steps=1))
                await newest.listen_to_the_end_of(answer["prompt_id"])

    run(work())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({}, "no_prompt"),
        ({"prompt": {}}, "prompt_no_outputs"),
        ({"prompt": []}, "invalid_prompt"),
        ({"prompt": {"1": {"inputs": {}}}}, "invalid_prompt"),
        ({"prompt": {"1": {"class_type": "NoSuchThing", "inputs": {}}}}, "invalid_prompt"),
        (
            {"prompt": {"1": {"class_type": "Steps", "inputs": {"steps": 0, "pause": 0}}}},
            "prompt_outputs_failed_validation",
        ),
        ({"prompt": {"1": {"class_type": "Fails", "inputs": {}}}, "prompt_id": "../x"}, "invalid_prompt_id"),
        ({"prompt": {"1": {"class_type": "Fails", "inputs": {}}}, "number": "abc"}, "invalid_number"),
        ({"prompt": {"1": {"class_type": "Fails", "inputs": {}}}, "extra_data": []}, "invalid_extra_data"),
        ({"prompt": {"1": {"class_type": "Fails", "inputs": {}}}, "client_id": 5}, "invalid_client_id"),
        (
            {"prompt": {"1": {"class_type": "Fails", "inputs": {}}}, "partial_execution_targets": "1"},
            "invalid_targets",
        ),
        (
            {
                "prompt": {"1": {"class_type": "Fails", "inputs": {}}},
                "extra_data": {"lane": "bulk"},
                "partial_execution_targets": [],
            },
            "prompt_no_outputs",
        ),
    ],
)
def test_what_is_refused(server, content, kind):
    async def work():
        async with connected(server.url) as client:
            answer = await client.post("/prompt", content, status=400)
            assert answer["error"]["type"] == kind
            assert "node_errors" in answer

    run(work())


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, '{"prompt": NaN}', "\x00"])
@pytest.mark.parametrize("path", ["/prompt", "/queue", "/history", "/interrupt", "/free", "/settings"])
def test_a_body_that_is_no_json_object(server, path, text):
    async def work():
        async with connected(server.url) as client:
            await client.post(path, data=text, status=400)

    run(work())
