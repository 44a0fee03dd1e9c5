"""Reading a binary file piece by piece, however long and however damaged it is."""

from __future__ import annotations

from typing import BinaryIO

from ..errors import WorkflowError
from ..json_text import LIMIT, megabytes

BREAKS_OFF = "damaged: the file breaks off"


def exactly(file: BinaryIO, length: int) -> bytes:
    """The next `length` bytes. Raises WorkflowError where they are too many, or not all there."""
    if length > LIMIT:
        raise WorkflowError(f"not read: {megabytes(length)} of metadata, more than {megabytes(LIMIT)}")
    data = file.read(length)
    if len(data) < length:
        raise WorkflowError(BREAKS_OFF)
    return data


def size(file: BinaryIO) -> int:
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return end


def lenient(data: bytes) -> str:
    """UTF-8, or else Latin-1. Both are written where a format has only the second, or leaves it open."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
