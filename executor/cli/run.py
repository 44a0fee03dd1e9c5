"""`slipstream run`: run workflow files in this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..hosts import bundled
from .batch import Row, rows
from .errors import NodeFailure, UsageFailure
from .load import read
from .options import device_options, folder_options


@click.command(short_help="Run workflow files.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter that the file declares (prompt=...), an input that only one node has (steps=8), or an "
    "input of a node by its id, title or class (3.steps=8). A file given to a node such as LoadImage is "
    "copied to where the node looks. May be given several times.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Set every seed, or the parameter `seed` if there is one."
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Run N times, seeds one higher each time.",
)
@click.option(
    "--batch",
    "table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A .csv or .jsonl file of settings: one run for each row, named as for --set.",
)
@click.option("--keep-going", is_flag=True, help="Go on with the next run when one fails.")
@click.option("--locked", is_flag=True, help="Refuse to run with other models or versions than the lock's.")
@click.option(
    "--cache",
    default="classic",
    metavar="MODE",
    show_default=True,
    help="Results to keep from one run to the next: classic, lru:N or none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each run instead of lines.")
@click.option("-v", "--verbose", is_flag=True, help="Time every node, and show tracebacks.")
@device_options
@folder_options
def run(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    seed: int | None,
    count: int,
    table: Path | None,
    keep_going: bool,
    locked: bool,
    cache: str,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run workflow files: canvas or API JSON, or a picture saved by ComfyUI or Slipstream.

    Paths of results go to stdout; progress, warnings and timing to stderr.

    \b
      slipstream run workflows/hello.json --set prompt="a big red star at night"
      slipstream run output/hello_00001_.png --seed 8 --count 4
      slipstream run workflows/hello.json --batch prompts.csv
    """
    pairs = tuple(pair(setting) for setting in settings)
    batch = rows(table) if table else [Row("", ())]
    workflows = [read(path) for path in files]

    from .runner import Runner  # the engine is not needed to show help, or to refuse a file

    runner = Runner(bundled.host(), cache, as_json=as_json, verbose=verbose)
    plans = [
        runner.plan(workflow, pairs, row, seed, index, locked=locked)
        for workflow in workflows
        for row in batch
        for index in range(count)
    ]
    with _interruptible() as cancelled:
        done = [runner.run(plan, cancelled, keep_going=keep_going) for plan in plans]
    if not all(done):
        raise NodeFailure(f"{done.count(False)} of {len(plans)} runs failed")


def pair(setting: str) -> tuple[str, str]:
    """`KEY=VALUE` taken apart. Raises UsageFailure."""
    key, equals, value = setting.partition("=")
    if not (key and equals):
        raise UsageFailure(f"--set {setting}: KEY=VALUE is needed")
    return key, value


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks the run to stop at its next step; a second one kills the process."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.write(2, b"\nStopping after this step (Ctrl-C again: at once)\n")

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, previous)
