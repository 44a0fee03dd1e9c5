"""`hello`: the README's first picture, whole processes from start to saved file, against plain diffusers.

Both sides start a fresh Python, load the bundled model, and draw the same prompt at the same size in the
same number of steps with guidance, one thread each. They take turns, after one that only warms the disk.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..hosts import bundled
from ..models import folders
from ..workflow import files
from . import processes
from .processes import Cost
from .registry import Figure, benchmark

WORKFLOW = Path(__file__).parents[2] / "workflows" / "hello.json"
PEER = Path(__file__).with_name("hello_peer.py")
RUNS = 5
SECONDS_TARGET = 1.3  # ours / diffusers, at most
MEMORY_TARGET = 1.1
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@benchmark("hello", "the first picture, whole process, against plain diffusers with the same model")
def measure() -> list[Figure]:
    ours, peer = costs()
    return [
        Figure("seconds, ours / diffusers", ours.seconds / peer.seconds, "x", SECONDS_TARGET, "<="),
        Figure("peak memory, ours / diffusers", ours.peak_bytes / peer.peak_bytes, "x", MEMORY_TARGET, "<="),
    ]


def costs(runs: int = RUNS) -> tuple[Cost, Cost]:
    """The typical cost of ours and of diffusers."""
    settings = drawn(WORKFLOW)
    model = folders.find("checkpoints", settings.pop("checkpoint"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        main = "from slipstream.executor.cli import main; main()"
        ours = [sys.executable, "-c", main, "run", str(WORKFLOW), "--device", "cpu", "--output", folder]
        peer = [
            sys.executable,
            str(PEER),
            str(model),
            str(place / "peer.png"),
            json.dumps(settings),
        ]
        turns = [
            [processes.measure(command, place, ONE_THREAD) for command in (ours, peer)]
            for _ in range(1 + runs)
        ]
    mine, theirs = zip(*turns[1:], strict=True)
    return processes.typical(mine), processes.typical(theirs)


def drawn(workflow: Path) -> dict[str, Any]:
    """What the workflow draws, in the peer's words; so that the two cannot drift apart."""
    file = files.read(workflow)
    prompt = file.to_prompt(bundled.host().object_info()).prompt
    values = {
        name: prompt[parameter.node]["inputs"][parameter.input] for name, parameter in file.parameters.items()
    }
    (sampler,) = (node["inputs"] for node in prompt.values() if node["class_type"] == "KSampler")
    (loader,) = (node["inputs"] for node in prompt.values() if node["class_type"] == "CheckpointLoaderSimple")
    return {**values, "cfg": sampler["cfg"], "checkpoint": loader["ckpt_name"]}
