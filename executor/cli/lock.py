"""`slipstream lock`, and what `run --locked` compares: the models and versions that a file runs with."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from ..hosts import bundled
from ..workflow.draft import Draft
from ..workflow.errors import WorkflowError
from ..workflow.schema import Schema
from ..workflow.survey import survey
from .errors import BadFile, Failure, LockDiffers, listed
from .load import read, unconvertible
from .options import folder_options

FORMAT = 1
SUFFIX = ".lock"
# What can change a picture's pixels.
LIBRARIES = (
    "torch",
    "diffusers",
    "transformers",
    "safetensors",
    "numpy",
    "pillow",
    "av",
    "torchsde",
    "spandrel",
)


@click.command(short_help="Note the models and versions that a workflow runs with.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@folder_options
def lock(files: tuple[Path, ...]) -> None:
    """Write NAME.lock beside each FILE: size and SHA-256 of every model file that it uses, and the
    versions of the node packs and libraries here. `slipstream run --locked` refuses to run where they differ.
    """
    host = bundled.host()
    schema = host.object_info()
    for path in files:
        workflow = read(path)
        try:
            draft = Draft(workflow, schema)
        except WorkflowError as error:
            raise unconvertible(workflow, error, host) from error
        content = record(draft.prompt, schema)
        place = beside(path)
        temporary = place.with_name(f".{place.name}.partial")
        try:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            temporary.replace(place)
        except OSError as error:
            raise Failure(f"{place}: cannot be written: {error.strerror or error}") from error
        click.echo(place)


def beside(path: Path) -> Path:
    return path.with_name(path.stem + SUFFIX)


def record(prompt: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The content of a lock file for what a prompt uses here and now. Raises Failure for a missing model."""
    from ..models import digests, folders

    held: dict[str, Path] = {}
    for model in survey(prompt, schema).models:
        if not (model.found and model.folder):
            raise Failure(f"{model.name} is missing: `slipstream inspect` says where to put it")
        try:
            found = digests.files(model.folder, model.name)
        except folders.ModelNotFound as error:
            raise Failure(str(error)) from error
        held |= {f"{model.folder}/{name}": path for name, path in found.items()}
    try:
        size = sum(path.stat().st_size for path in held.values())
        with click.progressbar(
            length=size, label="Reading models", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            models = {name: vars(digests.digest(path, bar.update)) for name, path in held.items()}
    except OSError as error:
        raise Failure(f"{error.filename}: cannot be read: {error.strerror or error}") from error
    return {
        "format": FORMAT,
        "models": dict(sorted(models.items())),
        "packs": {"slipstream": version("slipstream")},
        "libraries": {"python": platform.python_version(), **dict(_libraries())},
    }


def _libraries() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # some come with extras only
            yield name, version(name)


def hold(path: Path, prompt: Mapping[str, Any], schema: Schema) -> None:
    """Raises LockDiffers, with what differs, where `prompt` would not run with what the lock beside `path`
    names; BadFile where there is no lock."""
    place = beside(path)
    try:
        wanted = json.loads(place.read_bytes())
    except FileNotFoundError as error:
        raise BadFile(f"--locked: there is no {place}; `slipstream lock {path}` writes it") from error
    except (OSError, ValueError) as error:
        raise BadFile(f"--locked: {place} cannot be read: {error}") from error
    if not isinstance(wanted, dict) or wanted.get("format") != FORMAT:
        raise BadFile(f"--locked: {place} is no lock file of format {FORMAT}")
    lines = list(_differences(wanted, record(prompt, schema)))
    if lines:
        raise LockDiffers(listed(f"{path} would not run as it was locked:", lines))


def _differences(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for section in ("models", "packs", "libraries"):
        before, now = wanted.get(section) or {}, here[section]
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                yield f"{name}: locked {_said(before.get(name))}, here {_said(now.get(name))}"


def _said(entry: Any) -> str:
    if entry is None:
        return "nothing"
    if isinstance(entry, dict):
        return f"{entry['size']:,} bytes of sha256 {entry['sha256'][:16]}..."
    return str(entry)
