"""Listing directory trees, remembered until they change, and telling whether a path stays inside one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

# A change within a file system's timestamp resolution of the last scan cannot be told from none.
TIMESTAMP_RESOLUTION = 2.0  # seconds; FAT's, the coarsest in use


class OutsideFolder(ValueError):
    """A name that leads out of the folder it should stay in."""


class BadName(OutsideFolder):
    """A name that no file can have, or a file type that there is not."""


@dataclass(frozen=True)
class Listing:
    """Relative names with `/`: all files, and the folders that hold the marker (not looked into)."""

    files: tuple[str, ...]
    marked: tuple[str, ...]


@dataclass(frozen=True)
class _Scan:
    listing: Listing
    modified: dict[str, int]  # directory -> mtime in ns
    taken: float  # time.time() when the scan began

    def is_fresh(self) -> bool:
        if not self.modified:  # the directory was missing
            return False
        if self.taken - max(self.modified.values()) / 1e9 < TIMESTAMP_RESOLUTION:
            return False
        try:
            return all(Path(path).stat().st_mtime_ns == mtime for path, mtime in self.modified.items())
        except OSError:
            return False


_scans: dict[tuple[Path, str], _Scan] = {}


def scan(directory: Path, marker: str) -> Listing:
    """List `directory` recursively, following symlinks. A missing directory is empty."""
    remembered = _scans.get((directory, marker))
    if remembered is None or not remembered.is_fresh():
        remembered = _scans[directory, marker] = _walk(directory, marker)
    return remembered.listing


def _walk(directory: Path, marker: str) -> _Scan:
    taken = time.time()
    files: list[str] = []
    marked: list[str] = []
    modified: dict[str, int] = {}
    visited: set[tuple[int, int]] = set()
    for path, subfolders, inside_path in os.walk(directory, followlinks=True):
        stat = Path(path).stat()
        if (stat.st_dev, stat.st_ino) in visited:  # a symlink back to where we have been
            subfolders.clear()
            continue
        visited.add((stat.st_dev, stat.st_ino))
        modified[path] = stat.st_mtime_ns
        relative = os.path.relpath(path, directory).replace(os.sep, "/")
        if marker in inside_path and relative != ".":
            marked.append(relative)
            subfolders.clear()
            continue
        subfolders[:] = sorted(name for name in subfolders if name != ".git")
        files += [name if relative == "." else f"{relative}/{name}" for name in inside_path]
    return _Scan(Listing(tuple(files), tuple(marked)), modified, taken)


def contained(directory: Path, relative: str) -> Path:
    """`directory / relative`, provided that it stays inside once every symlink is followed.

    Raises `OutsideFolder` otherwise, `BadName` for what the system refuses: too long, or with a NUL.
    """
    path = directory / relative
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # RuntimeError: symlinks in a circle
        raise BadName(f"{relative!r} cannot be a file's name: {error}") from error
    if not inside:
        raise OutsideFolder(f"{relative!r} leads out of {directory}")
    return path
