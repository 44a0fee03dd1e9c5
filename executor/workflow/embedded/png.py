"""PNG: text chunks (PNG specification, section 11.3.3) called `prompt` and `workflow`.

ComfyUI writes `tEXt`, and into animated PNG `comf` (key, NUL, JSON) after the last frame; Pillow makes `iTXt`
of a text beyond Latin-1; optimisers and other savers write `zTXt` and compressed `iTXt`, or EXIF in `eXIf`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ..errors import WorkflowError
from ..json_text import megabytes
from . import exif
from .binary import BREAKS_OFF, exactly, lenient, size
from .entries import Entry, named

SIGNATURE = b"\x89PNG\r\n\x1a\n"
INFLATED = 64 * 2**20  # bytes that the compressed texts of a file may become


def entries(file: BinaryIO) -> Iterator[Entry]:
    """Chunk by chunk, without decoding pixels."""
    end, left = size(file), INFLATED
    file.seek(len(SIGNATURE))
    while file.tell() < end:
        length, kind = struct.unpack(">I4s", exactly(file, 8))
        if kind == b"IEND":
            return
        after = file.tell() + length + 4
        if kind == b"eXIf":
            yield from exif.entries(exactly(file, length))
        elif kind in (b"tEXt", b"zTXt", b"iTXt", b"comf"):
            key, _, rest = exactly(file, length).partition(b"\0")
            for name, _ in named([(key.decode("latin-1"), None)]):
                text = _text(kind, rest, left)
                left -= max(len(text) - len(rest), 0)
                yield name, lenient(text)
        file.seek(after)
    raise WorkflowError(BREAKS_OFF)


def _text(kind: bytes, rest: bytes, left: int) -> bytes:
    """What follows a chunk's key, without the fields before the text."""
    if kind == b"zTXt":  # the method of compression
        return _inflated(rest[1:], left)
    if kind == b"iTXt":  # whether it is compressed, the method, the language, the key in that language
        text = rest[2:].split(b"\0", 2)[-1]
        return _inflated(text, left) if rest[:1] == b"\1" else text
    return rest


def _inflated(data: bytes, left: int) -> bytes:
    """A few kilobytes may inflate to gigabytes, so that this stops at a limit."""
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data, max(left, 0) + 1)
    except zlib.error as error:
        raise WorkflowError("damaged: a compressed text cannot be inflated") from error
    if len(text) > left:
        raise WorkflowError(f"not read: compressed texts of more than {megabytes(INFLATED)}")
    if not inflater.eof:
        raise WorkflowError("damaged: a compressed text breaks off")
    return text
