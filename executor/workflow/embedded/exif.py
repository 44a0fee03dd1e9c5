"""EXIF, the metadata of WebP, JPEG and AVIF: a TIFF directory of tags (TIFF 6.0, section 2; Exif 2.32).

Which tag a saver uses does not matter, only what stands in it:

- `prompt:{...}` and `workflow:{...}`: ComfyUI, in Model and in Make and the tags below it. The WAS suite
  writes `Prompt:` and `Workflow:` into Make and ImageDescription, Save Image Extended adds a blank;
- JSON without a key: SaveImgAdv, in Make and ImageDescription;
- `{"prompt": ..., "workflow": ...}`: Extended Image Formats, in UserComment. That tag belongs into the Exif
  directory, where a character code of eight bytes precedes the text, but this saver puts it among the others.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

from ..errors import WorkflowError
from .binary import lenient
from .entries import COMMENT, KEYS, Entry

PREFIX = b"Exif\0\0"
ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
EXIF_DIRECTORY = 0x8769
BYTES, ASCII, UNDEFINED, UTF8 = 1, 2, 7, 129  # the types of one byte an element that texts are written in
CODES = (b"ASCII\0\0\0", b"UNICODE\0", b"JIS\0\0\0\0\0", b"\0" * 8)


def entries(data: bytes) -> Iterator[Entry]:
    data = data.removeprefix(PREFIX)
    try:
        for value in _values(data):
            key, colon, rest = (text := _text(value)).partition(":")
            if colon and key.strip().lower() in KEYS:
                yield key.strip().lower(), rest
            elif text.lstrip().startswith("{"):
                yield COMMENT, text
    except struct.error as error:
        raise WorkflowError("damaged: its EXIF data breaks off") from error


def _values(data: bytes) -> Iterator[bytes]:
    """The values that can be text, of the first directory and of the Exif directory it points to."""
    order = ORDERS.get(data[:4])
    if order is None:
        raise WorkflowError("damaged: its EXIF data does not begin as such")
    left = len(data)  # values that overlap could be made to fill any memory; those of real files do not
    directories = list(struct.unpack_from(f"{order}I", data, 4))
    for place in directories:
        (count,) = struct.unpack_from(f"{order}H", data, place)
        for index in range(count):
            tag, kind, length, at = struct.unpack_from(f"{order}HHII", data, place + 2 + 12 * index)
            if tag == EXIF_DIRECTORY and len(directories) == 1:
                directories.append(at)
            elif kind in (BYTES, ASCII, UNDEFINED, UTF8) and 4 < length <= left:  # up to 4 stand in `at`
                left -= length
                yield data[at : at + length]


def _text(value: bytes) -> str:
    if value.startswith(CODES):
        value = value[8:]
    # UNICODE does not say in which order the two bytes come, and savers take either: the JSON tells.
    encoding = json.detect_encoding(value)
    if encoding.startswith("utf-16"):
        return value.decode(encoding, "replace").rstrip("\0")
    return lenient(value.rstrip(b"\0"))
