"""Whole processes measured from outside: wall time and peak memory.

Run as a script it starts a command and prints what it cost. That is how `measure` uses it: a process
counts the memory of the one that started it as its own, so the starter has to be small.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Cost:
    seconds: float
    peak_bytes: int


def measure(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Cost:
    """Run `command` to its end. Raises RuntimeError with its last words where it fails or takes too long."""
    done = subprocess.run(
        [sys.executable, __file__, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS + 30,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of each."""
    return Cost(median(cost.seconds for cost in costs), int(median(cost.peak_bytes for cost in costs)))


def _start(command: Sequence[str]) -> int:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=sys.stderr)
    watchdog = threading.Timer(LIMIT_SECONDS, process.kill)
    watchdog.start()
    _, status, usage = os.wait4(process.pid, 0)
    watchdog.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps(asdict(Cost(time.perf_counter() - started, usage.ru_maxrss * unit))))
    return process.returncode if process.returncode >= 0 else 1


if __name__ == "__main__":
    sys.exit(_start(sys.argv[1:]))
