"""WebP and JPEG: where each keeps its EXIF data. ComfyUI writes the first, other savers both."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import WorkflowError
from . import exif
from .binary import BREAKS_OFF, exactly, size
from .entries import Entry

APP1, START_OF_SCAN, END_OF_IMAGE = 0xE1, 0xDA, 0xD9
WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}


def webp(file: BinaryIO) -> Iterator[Entry]:
    """The chunk `EXIF` of the RIFF file, behind the pixels (WebP container specification)."""
    end = size(file)
    (claimed,) = struct.unpack("<4xI4x", exactly(file, 12))
    while end - file.tell() >= 8:
        kind, length = struct.unpack("<4sI", exactly(file, 8))
        after = file.tell() + length + length % 2
        if kind == b"EXIF":
            yield from exif.entries(exactly(file, length))
        file.seek(after)
    if end < 8 + claimed:
        raise WorkflowError(BREAKS_OFF)


def jpeg(file: BinaryIO) -> Iterator[Entry]:
    """Segments APP1 that begin with `Exif`, before the pixels (ITU T.81, B.1.1; Exif 2.32, 4.7.2).

    One segment holds 64 kB at most; where there are several, each goes on where the one before ended.
    """
    parts: list[bytes] = []
    damage = None
    try:
        parts.extend(_exif_segments(file))
    except WorkflowError as error:
        damage = error
    if parts:
        yield from exif.entries(b"".join(parts))
    if damage:
        raise damage


def _exif_segments(file: BinaryIO) -> Iterator[bytes]:
    file.seek(2)
    while True:
        start, marker = exactly(file, 2)
        while marker == 0xFF:  # any number of these may come before a marker
            (marker,) = exactly(file, 1)
        if start != 0xFF:
            raise WorkflowError("damaged: a JPEG marker is missing")
        if marker in (START_OF_SCAN, END_OF_IMAGE):
            return
        if marker in WITHOUT_LENGTH:
            continue
        (length,) = struct.unpack(">H", exactly(file, 2))
        data = exactly(file, max(length - 2, 0))
        if marker == APP1 and data.startswith(exif.PREFIX):
            yield data.removeprefix(exif.PREFIX)
