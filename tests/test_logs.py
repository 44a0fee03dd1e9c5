"""What a log line holds."""

import json
import logging
import subprocess
import sys

import pytest
from slipstream.executor import logs


@pytest.fixture
def logged(capsys):
    """`logged(form, work)`: the lines that `work(log)` leaves."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def lines(form, work, verbose=1, always=dict):
        root.handlers = []
        logs.configure(form, verbose, always)
        work(logging.getLogger("a.b"))
        return capsys.readouterr().err.splitlines()

    yield lines
    root.handlers = handlers
    root.setLevel(level)


def test_json_lines_hold_the_job(logged):
    def work(log):
        log.info("ended %d", 1, extra={"job": "j 1", "state": "done", "seconds": 1.5, "reason": ""})
        log.debug("not at this level")

    (line,) = logged("json", work)
    content = json.loads(line)
    assert content.pop("time").endswith("Z")
    assert content == {
        "level": "info",
        "logger": "a.b",
        "message": "ended 1",
        "job": "j 1",
        "state": "done",
        "seconds": 1.5,
    }


def test_text_lines_hold_the_job(logged):
    (line,) = logged("text", lambda log: log.info("ended", extra={"job": "j", "reason": 'a "b" c'}))
    assert line.endswith(r'INFO a.b: ended job=j reason="a \"b\" c"')


def test_what_every_record_is_about(logged):
    (line,) = logged("json", lambda log: log.warning("x"), always=lambda: {"worker": "cpu", "job": None})
    content = json.loads(line)
    assert content["worker"] == "cpu"
    assert "job" not in content


def test_an_exception_is_one_line(logged):
    def work(log):
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("failed")

    (line,) = logged("json", work)
    assert "ValueError: no" in json.loads(line)["exception"]


def test_it_needs_no_torch():
    code = "import sys, slipstream.executor.logs; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
