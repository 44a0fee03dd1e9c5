"""Who listens to a run on the command line: a progress bar for each node that counts steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from ..graph import events
from ..workflow.prompt import describe, title


class Watcher:
    """The sink of one run. Bars are drawn on stderr where that is a terminal; with `verbose` every node
    is named as it finishes."""

    def __init__(self, prompt: Mapping[str, Any], *, quiet: bool, verbose: bool):
        self._prompt = prompt
        self._verbose = verbose and not quiet
        self._bars = _bars() if sys.stderr.isatty() and not quiet else None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, float] = {}

    def __enter__(self) -> Watcher:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.NodeStarted():
                self._started.setdefault(event.node, time.perf_counter())
            case events.NodeProgress():
                self._advance(event)
            case events.NodeBlocked():
                self._say(f"{describe(self._prompt, event.real_node)} did not run: {event.message}")
            case events.NodeFinished() if self._verbose:
                seconds = time.perf_counter() - self._started.get(event.node, time.perf_counter())
                self._say(f"{describe(self._prompt, event.real_node)}: {seconds:.2f} s")

    def _advance(self, event: events.NodeProgress) -> None:
        if self._bars is None:
            return
        if event.node not in self._tasks:
            node = self._prompt.get(event.real_node, {})
            name = title(node) or node.get("class_type", event.node)
            self._tasks[event.node] = self._bars.add_task(name, total=event.total)
        self._bars.update(self._tasks[event.node], completed=event.value, total=event.total)

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=True)


def _bars():
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))
