"""`slipstream convert`: workflow files as prompts, what ComfyUI's server takes."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import click

from ..hosts import bundled
from ..hosts.base import Host
from ..workflow.errors import WorkflowError
from ..workflow.schema import Schema
from .errors import BadFile, Failure, UsageFailure
from .load import read, unconvertible
from .options import folder_options

OBJECT_INFO = "/object_info"
TIMEOUT = 30.0  # seconds


@click.command(short_help="Convert workflow files to the API format.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("-o", "--output-file", "target", metavar="FILE", help="Where to write; for one FILE.")
@click.option(
    "--output-dir",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write DIR/NAME.json.",
)
@click.option(
    "--object-info",
    metavar="FILE_OR_URL",
    help="Node definitions to go by instead of Slipstream's own: a saved /object_info, or a running server.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Draws the alternatives of {a|b} in prompts.")
@folder_options
def convert(
    files: tuple[Path, ...], target: str | None, folder: Path | None, object_info: str | None, seed: int
) -> None:
    """Convert canvas files (and pictures with a workflow inside) to the API format, as ComfyUI's frontend
    does before it queues. The prompt goes to stdout, or where -o or --output-dir say. All FILEs are tried;
    the exit code is 3 where one could not be converted.

    \b
      slipstream convert workflow.json -o workflow_api.json
      slipstream convert *.json --output-dir api --object-info http://127.0.0.1:8188
    """
    if len(files) > 1 and folder is None:
        raise UsageFailure("several files: say where they go with --output-dir DIR")
    if target is not None and folder is not None:
        raise UsageFailure("-o and --output-dir exclude each other")
    targets = _targets(files, target, folder)
    host = bundled.host()
    schema = _definitions(object_info) if object_info else host.object_info()
    converted = [_convert(path, place, schema, host, seed) for path, place in targets.items()]
    if not all(converted):
        click.get_current_context().exit(BadFile.exit_code)


def _convert(path: Path, place: Path | None, schema: Schema, host: Host, seed: int) -> bool:
    """Whether it could be converted; if not, the reason has been shown."""
    try:
        workflow = read(path)
        conversion = workflow.to_prompt(schema, random.Random(seed))
    except BadFile as error:
        error.show()
        return False
    except WorkflowError as error:
        unconvertible(workflow, error, host).show()
        return False
    _write(conversion.prompt, place)
    for warning in conversion.warnings:
        click.echo(f"Warning: {path}: {warning}", err=True)
    return True


def _targets(files: tuple[Path, ...], target: str | None, folder: Path | None) -> dict[Path, Path | None]:
    """Where each file's prompt goes; None is stdout. Refuses to write over what is read, or twice."""
    if folder is None:
        targets = {path: Path(target) if target and target != "-" else None for path in files}
    else:
        targets = {path: folder / f"{path.stem}.json" for path in files}
    taken = Counter(place for place in targets.values() if place is not None)
    sources = {path.resolve() for path in files}
    for path, place in targets.items():
        if place is not None and place.resolve() in sources:
            raise UsageFailure(f"{place} would be written over, and it is one of the files to convert")
        if place is not None and taken[place] > 1:
            raise UsageFailure(f"{path} and another file would both be written to {place}")
    return targets


def _write(prompt: dict[str, Any], place: Path | None) -> None:
    text = json.dumps(prompt, indent=2, ensure_ascii=False)
    if place is None:
        click.echo(text)
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.partial")
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(place)
    except OSError as error:
        raise Failure(f"{place}: cannot be written: {error.strerror or error}") from error


def _definitions(source: str) -> dict[str, Any]:
    """Node definitions from a file or from a server's /object_info."""
    try:
        if source.startswith(("http://", "https://")):
            url = source.rstrip("/")
            url = url if url.endswith(OBJECT_INFO) else url + OBJECT_INFO
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                content = json.loads(answer.read())
        else:
            content = json.loads(Path(source).read_text(encoding="utf-8-sig"))
    except (OSError, urllib.error.URLError) as error:
        raise UsageFailure(f"--object-info {source}: cannot be read: {error}") from error
    except ValueError as error:
        raise UsageFailure(f"--object-info {source}: not JSON: {error}") from error
    if not isinstance(content, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("input"), dict) for entry in content.values()
    ):
        raise UsageFailure(f"--object-info {source}: not node definitions as /object_info gives them")
    return content
