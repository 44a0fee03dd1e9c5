"""Jobs that ended long ago go, and with them their files."""

import asyncio

import pytest
from slipstream.executor.jobs.records import Outcome
from slipstream.executor.jobs.store import Jobs
from slipstream.executor.models import folders
from slipstream.executor.server.retention import retire

DAY = 86400.0


@pytest.fixture
def places(tmp_path):
    for name in ("input", "output", "temp"):
        (tmp_path / name / "sub").mkdir(parents=True)
    before = folders.current()
    folders.use(
        folders.Folders(
            models=[], **{name: tmp_path / name for name in ("input", "output", "temp")}, extra=[]
        )
    )
    yield tmp_path
    folders.use(before)


def retired(places, shown, *, delete_outputs):
    """Jobs that show these files (kind, subfolder, name), the first one long ago, the second today."""
    now = [0.0]

    async def work():
        jobs = await Jobs.open(places / "queue.sqlite3", clock=lambda: now[0])
        for index, files in enumerate(shown):
            prompt = {"1": {"class_type": "X", "inputs": {}}}
            await jobs.submit(job_id=str(index), prompt=prompt, outputs=["1"])
            jobs.claim("w")
            entries = [{"type": t, "subfolder": s, "filename": n} for t, s, n in files]
            await jobs.finish(str(index), 1, Outcome(state="done", results={"1": {"images": entries}}))
            now[0] += 5 * DAY
        await retire(jobs, keep_seconds=7 * DAY, keep_jobs=10, delete_outputs=delete_outputs)
        left = [job.id for job in await jobs.finished()]
        jobs.close()
        return left

    return asyncio.run(work())


def written(places, *names):
    paths = [places / name for name in names]
    for path in paths:
        path.write_bytes(b"x")
    return paths


@pytest.mark.parametrize("delete_outputs", [False, True])
def test_files_go_with_their_job(places, delete_outputs):
    preview, saved, new = written(places, "temp/a.png", "output/sub/b.png", "output/c.png")
    shown = [[("temp", "", "a.png"), ("output", "sub", "b.png")], [("output", "", "c.png")]]
    assert retired(places, shown, delete_outputs=delete_outputs) == ["1"]
    assert not preview.exists()
    assert saved.exists() is not delete_outputs
    assert new.exists()


def test_a_file_that_another_job_shows_stays(places):
    (shared,) = written(places, 'output/a "b".png')
    entry = ("output", "", 'a "b".png')
    assert retired(places, [[entry], [entry]], delete_outputs=True) == ["1"]
    assert shared.exists()


def test_nothing_else_can_be_deleted(places):
    kept = written(places, "secret", "input/a.png", "output/sub/x")
    bad = [("output", "..", "secret"), ("output", "", "../secret"), ("output", "", str(places / "secret"))]
    odd = [("input", "", "a.png"), ("nowhere", "", "a.png"), ("output", "", "sub")]
    odd += [
        ("output", "", "gone.png"),
        ("output", 3, "x"),
        ("output", "", None),
        ("output", "", "x" * 300),
        ("output", "", "a\0b"),
    ]
    assert retired(places, [bad + odd, []], delete_outputs=True) == ["1"]
    assert all(path.exists() for path in kept)
