"""`slipstream models`: what the model folders hold."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .errors import UsageFailure
from .options import folder_options


@click.command(short_help="List the models found.")
@click.argument("kind", required=False)
@folder_options
def models(kind: str | None) -> None:
    """List the models found, by kind: name, size, folder. KIND (checkpoints, loras ...) shows one kind,
    with the folders searched for it."""
    from ..models import folders

    if kind is not None and folders.canonical(kind) not in folders.kinds():
        raise UsageFailure(
            f"there is no kind of model {kind!r}; the kinds are {', '.join(sorted(folders.kinds()))}"
        )
    listed = [folders.canonical(kind)] if kind else folders.kinds()
    for each in listed:
        _print_kind(each, searched=kind is not None)


def _print_kind(kind: str, *, searched: bool) -> None:
    from ..models import folders

    names = folders.names(kind)
    if names:
        click.echo(kind)
        width = max(map(len, names))
        for name in names:
            path = folders.find(kind, name)
            click.echo(f"  {name:<{width}}  {_size(path):>8}  {path.parent}")
    if searched:
        if not names:
            click.echo(f"no {kind} found")
        click.echo("searched: " + ", ".join(map(str, folders.directories(kind))))


def _size(path: Path) -> str:
    size = path.stat().st_size if path.is_file() else _folder_size(path)
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {unit}"
    return f"{size} B"


def _folder_size(folder: Path) -> int:
    return sum((Path(parent) / name).stat().st_size for parent, _, names in os.walk(folder) for name in names)
