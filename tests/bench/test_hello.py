import os
import sys
from pathlib import Path

import pytest
from slipstream.executor.bench import hello
from slipstream.executor.bench.processes import Cost, measure, typical

needs_wait4 = pytest.mark.skipif(not hasattr(os, "wait4"), reason="memory of a child is read with os.wait4")


@needs_wait4
def test_the_memory_of_the_command_is_measured_and_not_that_of_who_asks(tmp_path):
    held = b"1" * 300_000_000
    small = measure([sys.executable, "-c", "pass"], tmp_path, {})
    large = measure([sys.executable, "-c", "held = b'1' * 100_000_000"], tmp_path, {})
    assert len(held) > small.peak_bytes
    assert 90_000_000 < large.peak_bytes - small.peak_bytes < 110_000_000


@needs_wait4
def test_time_environment_and_folder(tmp_path):
    program = "import os, time; time.sleep(0.3); open('here', 'w').write(os.environ['WORD'])"
    cost = measure([sys.executable, "-c", program], tmp_path, {"WORD": "yes"})
    assert 0.3 <= cost.seconds < 10
    assert (tmp_path / "here").read_text() == "yes"


@needs_wait4
def test_a_command_that_fails_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, {})


def test_typical_is_the_median_of_each():
    assert typical([Cost(1.0, 30), Cost(9.0, 20), Cost(2.0, 10)]) == Cost(2.0, 20)


def test_both_sides_draw_what_the_workflow_says():
    settings = hello.drawn(hello.WORKFLOW)
    assert (settings["steps"], settings["width"], settings["height"]) == (20, 128, 128)
    assert {"prompt", "negative_prompt", "seed", "cfg", "checkpoint"} <= set(settings)
    assert Path(hello.PEER).is_file()
