"""Bringing a file into the input directory, where nodes such as LoadImage look for it."""

from __future__ import annotations

import filecmp
import shutil
import uuid
from pathlib import Path

from . import folders
from .naming import claim


def bring(source: Path) -> str:
    """Copy a file into the input directory; returns its name there.

    A file of that name with the same content serves; beside one with other content the copy is called
    `name (1).png`, as ComfyUI names uploads. Raises OSError.
    """
    directory = folders.input_dir()
    inside = source.resolve()
    if inside.is_relative_to(directory.resolve()):
        return inside.relative_to(directory.resolve()).as_posix()
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{uuid.uuid4().hex}{source.suffix}"
    try:
        shutil.copyfile(source, temporary)
        name, number = source.name, 0
        while not (_same(temporary, directory / name) or claim(temporary, directory / name)):
            number += 1
            name = f"{source.stem} ({number}){source.suffix}"
        return name
    finally:
        temporary.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
