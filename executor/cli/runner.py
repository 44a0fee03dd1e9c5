"""Planning and running drafts on one host and one engine: later runs find what earlier ones loaded."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..graph import Engine, Result, validate
from ..hosts.base import Host
from ..workflow.draft import Draft
from ..workflow.errors import SettingError, WorkflowError
from ..workflow.files import WorkflowFile
from ..workflow.prompt import describe
from ..workflow.survey import pack_of
from . import report
from .batch import Row
from .errors import Failure, InvalidPrompt, NodeFailure, Stopped, UsageFailure, listed, validation_lines
from .load import unconvertible
from .lock import hold
from .watch import Watcher


@dataclass(frozen=True)
class Plan:
    """One run to come: `row` of a batch, if it is from one, `seeds` by `node.input`, and the `outputs` that
    can run."""

    file: str
    row: str
    draft: Draft
    seeds: Mapping[str, int]
    outputs: Sequence[str]


class Runner:
    def __init__(self, host: Host, cache: str, *, as_json: bool, verbose: bool):
        self._host = host
        self._schema = host.object_info()
        self._as_json = as_json
        self._verbose = verbose
        try:
            self._engine = Engine(host.nodes, cache=cache)
        except ValueError as error:
            raise UsageFailure(f"--cache {cache}: {error}") from error

    def plan(
        self,
        file: WorkflowFile,
        settings: Sequence[tuple[str, str]],
        row: Row,
        seed: int | None,
        index: int,
        *,
        locked: bool,
    ) -> Plan:
        """The `index`th run of a file: converted, its values set, validated. Raises Failure."""
        where = f"{file.name} ({row.where})" if row.where else file.name
        try:
            draft = Draft(file, self._schema, random.Random((seed or 0) + index), _brought)
            for key, value in (*settings, *row.settings):
                draft.assign(key, value)
            seeds = draft.reseed(seed, index)
        except WorkflowError as error:
            raise unconvertible(file, error, self._host) from error
        except SettingError as error:
            raise UsageFailure(f"{where}: {error}") from error
        validation = validate(draft.prompt, self._host.nodes)
        lines = validation_lines(draft.prompt, self._schema, validation.error, validation.node_errors)
        if not validation.ok:
            packs = {node["class_type"]: pack_of(node) for node in draft.prompt.values()}
            lines += [self._host.missing(*item) for item in packs.items() if item[0] not in self._host.nodes]
            raise InvalidPrompt(listed(f"{where} is not valid:", lines))
        for line in lines:
            click.echo(f"Warning: {where}: an output is left out: {line}", err=True)
        if locked:
            hold(Path(file.name), draft.prompt, self._schema)
        return Plan(file.name, row.where, draft, seeds, validation.outputs)

    def run(self, plan: Plan, cancelled: Callable[[], bool], *, keep_going: bool) -> bool:
        """Run and report; whether it succeeded. Raises Failure where it was stopped or, without `keep_going`,
        a node failed."""
        prompt, prompt_id = plan.draft.prompt, str(uuid.uuid4())
        started = time.perf_counter()
        with Watcher(prompt, quiet=self._as_json, verbose=self._verbose) as watcher:
            result = self._engine.run(
                prompt,
                prompt_id=prompt_id,
                outputs=plan.outputs,
                extra_data=plan.draft.extra_data,
                sink=watcher,
                cancelled=cancelled,
            )
        work = report.seconds_by_work(prompt, self._schema, result.seconds)
        seconds = {"total": time.perf_counter() - started, **work}
        if self._as_json:
            about = {"file": plan.file, "row": plan.row or None, "prompt_id": prompt_id, "seeds": plan.seeds}
            click.echo(json.dumps(report.as_json(result, seconds=seconds, **about)))
        else:
            _print_outputs(result)
        if result.status != "success":
            failure = _failure(prompt, result, verbose=self._verbose)
            if isinstance(failure, Stopped) or not keep_going:
                raise failure
            failure.show()
        elif not self._as_json:
            click.echo(report.timing(seconds), err=True)
        return result.status == "success"


def _brought(text: str) -> str:
    """What to set an input to that names a file: where the text leads to one, it is copied to the input
    directory."""
    from ..models import input_files

    source = Path(text).expanduser()
    try:
        is_there = source.is_file()
    except OSError:  # no text that could be a path
        return text
    try:
        return input_files.bring(source) if is_there else text
    except OSError as error:
        raise UsageFailure(f"{text}: cannot be copied to where nodes look for it: {error}") from error


def _print_outputs(result: Result) -> None:
    here = Path.cwd()
    for _, path in report.paths(result.outputs):
        click.echo(path.relative_to(here) if path.is_relative_to(here) else path)
    for _, text in report.texts(result.outputs):
        click.echo(text)


def _failure(prompt: Mapping[str, Any], result: Result, *, verbose: bool) -> Failure:
    error = result.error
    where = describe(prompt, error.real_node)
    if result.status == "interrupted":
        return Stopped(f"interrupted at {where}")
    kind = error.exception_type.rpartition(".")[2]
    message = f"{where} failed: {kind}: {error.exception_message.strip()}"
    return NodeFailure(listed(message, "".join(error.traceback).splitlines() if verbose else ()))
