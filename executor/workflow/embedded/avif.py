"""AVIF: the item of type `Exif` (HEIF, ISO 23008-12, annex A), found through the boxes `iinf` and `iloc`.

ComfyUI's frontend reads these files; what writes them are savers beside ComfyUI.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import WorkflowError
from . import exif
from .binary import BREAKS_OFF, exactly, size
from .entries import Entry

META_HEADER = 4  # version and flags, before the boxes in it


def entries(file: BinaryIO) -> Iterator[Entry]:
    try:
        for place, length in _exif_items(_meta(file)):
            file.seek(place)
            data = exactly(file, length)
            (skipped,) = struct.unpack_from(">I", data)  # bytes between this number and the TIFF header
            yield from exif.entries(data[4 + skipped :])
    except struct.error as error:
        raise WorkflowError("damaged: its list of items breaks off") from error


def _meta(file: BinaryIO) -> bytes:
    """The box `meta`, which all that is not pixels stands in."""
    end = size(file)
    file.seek(0)
    while file.tell() < end:
        length, kind = struct.unpack(">I4s", exactly(file, 8))
        if length < 8:  # 0: to the end of the file; 1: a length of 64 bits; only pixels are as long
            break
        if kind == b"meta":
            return exactly(file, length - 8)
        file.seek(length - 8, 1)
    raise WorkflowError(BREAKS_OFF)


def _boxes(data: bytes, start: int) -> Iterator[tuple[bytes, bytes]]:
    while start + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, start)
        if length < 8:
            return
        yield kind, data[start + 8 : start + length]
        start += length


def _exif_items(meta: bytes) -> Iterator[tuple[int, int]]:
    """Where in the file each EXIF item stands, and its length."""
    boxes = dict(_boxes(meta, META_HEADER))
    wanted = set(_exif_ids(boxes.get(b"iinf", b"")))
    yield from (place for item, place in _places(boxes.get(b"iloc", b"")) if item in wanted)


def _exif_ids(iinf: bytes) -> Iterator[int]:
    for kind, entry in _boxes(iinf, 6 if iinf[:1] == b"\0" else 8):
        if kind == b"infe" and entry[:1] in (b"\2", b"\3"):
            number, item_type = struct.unpack_from(">H2x4s" if entry[:1] == b"\2" else ">I2x4s", entry, 4)
            if item_type == b"Exif":
                yield number


def _places(iloc: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """Items with the place of their first extent, in version 0, 1 or 2 of the box."""
    version, sizes, more_sizes = struct.unpack_from(">B3xBB", iloc)
    number = ">I" if version == 2 else ">H"
    (count,) = struct.unpack_from(number, iloc, 6)
    at = 6 + struct.calcsize(number)

    def take(length: int) -> int:
        nonlocal at
        if at + length > len(iloc):
            raise WorkflowError("damaged: its list of items breaks off")
        at += length
        return int.from_bytes(iloc[at - length : at], "big")

    for _ in range(count):
        item = take(struct.calcsize(number))
        in_file = not version or not take(2) & 15  # otherwise it stands in a box of its own
        take(2)
        base = take(more_sizes >> 4)
        for index in range(take(2)):
            take(more_sizes & 15 if version else 0)
            place, length = base + take(sizes >> 4), take(sizes & 15)
            if in_file and index == 0:
                yield item, (place, length)
