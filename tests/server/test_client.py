"""`slipstream submit`, `queue` and `cancel`, on a real server."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image
from serving import steps
from slipstream.executor import cli


@pytest.fixture
def slipstream(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPSTREAM_SERVER", server.url)
    (tmp_path / "flow.json").write_text(json.dumps(steps(steps=1)))
    return lambda *arguments: CliRunner().invoke(cli.cli, list(map(str, arguments)))


def test_submit_and_wait(slipstream):
    answer = slipstream("submit", "flow.json", "--set", "steps=4", "--wait", "--json")
    assert answer.exit_code == 0, answer.stderr
    content = json.loads(answer.stdout)
    assert (content["status"], content["outputs"]["1"]["steps"]) == ("success", [4])


def test_submit_queue_and_cancel(slipstream):
    ids = slipstream("submit", "flow.json", "--set", "1.pause=0.02", "--set", "steps=5000").stdout.split()
    ids += slipstream("submit", "flow.json", "flow.json", "--set", "pause=0.07").stdout.split()
    ids += slipstream("submit", "flow.json", "--set", "pause=0.08", "--front").stdout.split()
    lines = slipstream("queue").stdout.splitlines()
    assert [line.split()[1] for line in lines] == [ids[0], ids[3], ids[1], ids[2]]
    assert lines[0].startswith("running")
    assert lines[1].startswith("waiting")
    assert json.loads(slipstream("queue", "--json").stdout)["queue_running"][0][1] == ids[0]
    assert slipstream("cancel", ids[2]).exit_code == 0
    assert set(slipstream("cancel", "--all").stdout.split()) == {ids[0], ids[1], ids[3]}
    answer = slipstream("cancel")
    assert (answer.exit_code, "either ids of jobs, or --all" in answer.stderr) == (2, True)


def test_a_job_that_fails(slipstream, tmp_path):
    (tmp_path / "fails.json").write_text(json.dumps({"1": {"class_type": "Fails", "inputs": {}}}))
    answer = slipstream("submit", "fails.json", "--wait")
    assert answer.exit_code == 5
    assert "node 1 (Fails): as it was told to" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.json"], 3, "none.json"),
        (["flow.json", "--set", "stepz=1"], 2, "did you mean steps?"),
        (["flow.json", "--set", "steps=0"], 1, "node 1 (Steps): Value 0 smaller than min of 1"),
        (["flow.json", "--server", "http://127.0.0.1:9"], 1, "http://127.0.0.1:9: no answer"),
        (["flow.json", "--server", "gpu-box"], 2, "must begin with http"),
    ],
)
def test_refusals(slipstream, arguments, code, message):
    answer = slipstream("submit", *arguments)
    assert answer.exit_code == code
    assert message in answer.stderr


def test_upload_and_download(slipstream, server, tmp_path):
    Image.new("RGB", (4, 4), "red").save(tmp_path / "mine.png")
    (tmp_path / "copy.json").write_text(
        json.dumps({"1": {"class_type": "Copy", "inputs": {"image": "x.png"}}})
    )
    answer = slipstream("submit", "copy.json", "--set", "image=mine.png", "--download", "here")
    assert answer.exit_code == 0, answer.stderr
    assert answer.stdout.split() == ["here/copy.png"]
    assert (tmp_path / "here" / "copy.png").read_bytes() == (tmp_path / "mine.png").read_bytes()
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["copy.png"]
