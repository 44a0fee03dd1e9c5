"""What model files hold, to the bit: sizes and SHA-256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import folders

BLOCK = 1 << 22  # bytes read at once


@dataclass(frozen=True)
class Digest:
    size: int
    sha256: str


def files(kind: str, name: str) -> dict[str, Path]:
    """The files of one of `folders.names(kind)`, by name: itself, or for a pipeline in diffusers' layout its
    index and all that is in its components' folders. Raises ModelNotFound."""
    path = folders.find(kind, name)
    if path.is_file():
        return {name: path}
    return {f"{name}/{file.relative_to(path).as_posix()}": file for file in sorted(_pipeline(path))}


def _pipeline(folder: Path) -> Iterator[Path]:
    index = folder / folders.DIFFUSERS_INDEX
    yield index
    for component in json.loads(index.read_bytes()):
        if (folder / component).is_dir():
            yield from (file for file in (folder / component).rglob("*") if file.is_file())


_known: dict[tuple[Path, int, int], Digest] = {}


def digest(path: Path, advance: Callable[[int], object] = int) -> Digest:
    """Reads the whole file, once in this process as long as it does not change; `advance` is told the bytes
    done. Raises OSError."""
    stat = path.stat()
    key = (path, stat.st_size, stat.st_mtime_ns)
    if key not in _known:
        found = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                found.update(block)
                advance(len(block))
        _known[key] = Digest(stat.st_size, found.hexdigest())
    return _known[key]
