"""`slipstream submit`, `queue` and `cancel`: jobs on a server."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..workflow.draft import Draft
from ..workflow.errors import SettingError, WorkflowError
from .errors import BadFile, NodeFailure, Stopped, UsageFailure
from .load import read
from .remote import Remote, connected, server_options
from .run import pair

WATCH_SECONDS = 1.0


@click.command(short_help="Queue workflow files on a server.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="As for `slipstream run`.")
@click.option("--seed", type=int, metavar="N", help="Set every seed, or the parameter `seed`.")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, metavar="N", help="Queue N, seeds one higher each."
)
@click.option("--front", is_flag=True, help="Before everything that waits.")
@click.option("--wait", is_flag=True, help="Until the jobs have ended; the exit code is 5 where one failed.")
@click.option(
    "--download",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Wait, and keep what the jobs made in DIR.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each job.")
@server_options
def submit(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    seed: int | None,
    count: int,
    front: bool,
    wait: bool,
    download: Path | None,
    as_json: bool,
    server: str,
    token: str | None,
) -> None:
    """Queue workflow files on a server, with its own node definitions. Prints the ids of the jobs; with
    --download the files that they made.

    \b
      slipstream submit workflows/hello.json --set prompt="a red circle" --download .
      slipstream submit my.json --server http://gpu-box:8188
    """
    pairs = [pair(setting) for setting in settings]
    workflows = [read(path) for path in files]

    async def work() -> bool:
        async with connected(server, token) as remote:
            schema = await remote.object_info()
            uploads = {text: await _uploaded(remote, text) for _, text in pairs}
            drafts = [
                _draft(file, schema, pairs, uploads, seed, index)
                for file in workflows
                for index in range(count)
            ]
            jobs = [(d, await remote.submit(d.prompt, d.extra_data, front=front)) for d in drafts]
            ended = (
                [await _follow(remote, prompt_id, download) for _, prompt_id in jobs]
                if wait or download
                else []
            )
            for (_, prompt_id), end in zip(jobs, ended or [None] * len(jobs), strict=True):
                _print(prompt_id, end, as_json=as_json)
            return all(end["status"]["completed"] for end in ended)

    if not asyncio.run(work()):
        raise NodeFailure("not every job succeeded")


@click.command(short_help="Show what waits and runs on a server.")
@click.option("--watch", is_flag=True, help="Until Ctrl-C, whenever it changes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the server answers.")
@server_options
def queue(watch: bool, as_json: bool, server: str, token: str | None) -> None:
    """Show the jobs that run and wait on a server: state, id, number, and what they make."""

    async def work() -> None:
        shown = None
        async with connected(server, token) as remote:
            while True:
                content = await remote.ask("GET", "/queue")
                lines = [json.dumps(content)] if as_json else _lines(content)
                if lines != shown:
                    click.echo("\n".join([*([""] if shown else []), *lines]))
                shown = lines
                if not watch:
                    return
                await asyncio.sleep(WATCH_SECONDS)

    try:
        asyncio.run(work())
    except KeyboardInterrupt as error:
        raise Stopped("interrupted") from error


@click.command(short_help="Cancel jobs on a server.")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="All that run and wait.")
@server_options
def cancel(ids: tuple[str, ...], everything: bool, server: str, token: str | None) -> None:
    """Cancel the jobs with these ids, whether they wait or run."""
    if bool(ids) == everything:
        raise UsageFailure("either ids of jobs, or --all")

    async def work() -> None:
        async with connected(server, token) as remote:
            chosen = list(ids)
            if everything:
                content = await remote.ask("GET", "/queue")
                # Those that wait first, so that none of them starts meanwhile.
                chosen = [item[1] for name in ("queue_pending", "queue_running") for item in content[name]]
            for prompt_id in chosen:
                await remote.cancel(prompt_id)
                click.echo(prompt_id)

    asyncio.run(work())


async def _uploaded(remote: Remote, text: str) -> Path | str:
    """What to set an input to that names a file: the name on the server of one that is here."""
    path = Path(text).expanduser()
    try:
        is_here = path.is_file()
    except OSError:
        return text
    return await remote.upload(path) if is_here else text


def _draft(
    file: Any,
    schema: Mapping[str, Any],
    pairs: list[tuple[str, str]],
    uploads: Mapping[str, Any],
    seed: int | None,
    index: int,
) -> Draft:
    try:
        draft = Draft(file, schema, random.Random((seed or 0) + index), lambda text: str(uploads[text]))
        for key, text in pairs:
            draft.assign(key, text)
        draft.reseed(seed, index)
    except WorkflowError as error:
        raise BadFile(f"{file.name}: {error}") from error
    except SettingError as error:
        raise UsageFailure(f"{file.name}: {error}") from error
    return draft


async def _follow(remote: Remote, prompt_id: str, folder: Path | None) -> dict[str, Any]:
    """The job's entry in the history, with the paths of what was downloaded as `paths`."""
    started = time.monotonic()
    entry = await remote.end(prompt_id)
    references = [
        one
        for shown in entry.get("outputs", {}).values()
        for entries in shown.values()
        for one in (entries if isinstance(entries, list) else ())
        if isinstance(one, Mapping) and "filename" in one and one.get("type") != "temp"
    ]
    paths = [str(await remote.download(one, folder)) for one in references] if folder else []
    return {**entry, "paths": paths, "seconds": time.monotonic() - started}


def _print(prompt_id: str, end: dict[str, Any] | None, *, as_json: bool) -> None:
    if as_json:
        content: dict[str, Any] = {"prompt_id": prompt_id}
        if end is not None:
            content |= {
                "status": end["status"]["status_str"],
                "outputs": end["outputs"],
                "paths": end["paths"],
            }
        click.echo(json.dumps(content))
        return
    if end is None:
        click.echo(prompt_id)
        return
    for path in end["paths"]:
        click.echo(path)
    if not end["status"]["completed"]:
        click.echo(f"{prompt_id}: {_reason(end)}", err=True)
    elif not end["paths"]:
        click.echo(prompt_id)


def _reason(end: Mapping[str, Any]) -> str:
    """Why a job did not succeed, in the words of the history's last message."""
    messages = end["status"].get("messages") or [["error", {}]]
    kind, data = messages[-1]
    if kind == "execution_interrupted":
        return "interrupted"
    said = str(data.get("exception_message", "failed")).strip()
    return f"node {data['node_id']} ({data.get('node_type')}): {said}" if data.get("node_id") else said


def _lines(content: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, state in (("queue_running", "running"), ("queue_pending", "waiting")):
        for number, prompt_id, prompt, *_ in content[name]:
            kinds = dict.fromkeys(node["class_type"] for node in prompt.values())
            made = [kind for kind in kinds if kind.startswith(("Save", "Preview"))] or list(kinds)
            lines.append(f"{state}  {prompt_id}  {number:g}  {len(prompt)} nodes, {', '.join(made[:3])}")
    return lines or ["nothing waits or runs"]
