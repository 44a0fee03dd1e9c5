"""What a file is, told by its first bytes: names of files are often wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO, NamedTuple

from . import avif, headers, pictures, png, recordings
from .entries import Entry, workflow

BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
# Boxes that MP4 and QuickTime files begin with, behind their length.
BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")


class Kind(NamedTuple):
    name: str
    entries: Callable[[BinaryIO], Iterable[Entry]]


def _recording(demuxer: str) -> Kind:
    return Kind("recording", partial(recordings.entries, demuxer=demuxer))


PNG, WEBP, JPEG, AVIF = (
    Kind("picture", entries) for entries in (png.entries, pictures.webp, pictures.jpeg, avif.entries)
)
LATENT = Kind("safetensors file", headers.safetensors)
MODEL = Kind("3D model", headers.glb)
DRAWING = Kind("drawing", headers.svg)
MOV, MATROSKA, FLAC, MP3, OGG = map(_recording, ("mov", "matroska", "flac", "mp3", "ogg"))
BEGINNINGS = {
    png.SIGNATURE: PNG,
    b"\xff\xd8\xff": JPEG,
    b"\x1a\x45\xdf\xa3": MATROSKA,
    b"fLaC": FLAC,
    b"ID3": MP3,
    b"OggS": OGG,
    b"glTF": MODEL,
}


def of(head: bytes) -> Kind | None:
    """None for text, and for whatever carries no workflow."""
    for beginning, kind in BEGINNINGS.items():
        if head.startswith(beginning):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[:1] == b"\0" and head[4:8] in BOXES:
        return AVIF if head[8:12] in (b"avif", b"avis") else MOV
    if head[8:9] == b"{" and head[4:8] == bytes(4):  # a header of less than 4 GB follows its length
        return LATENT
    if head[:1] == b"\xff" and head[1:2] >= b"\xe0" and not head.startswith(BYTE_ORDER_MARKS):
        return MP3  # without tags: sound from the first byte on
    return DRAWING if head.removeprefix(BYTE_ORDER_MARKS[2]).lstrip().startswith(b"<") else None


def read(file: BufferedReader) -> dict[str, Any] | None:
    """The `prompt` and `workflow` in the file; None, with nothing read, where it is no kind that has them.

    Raises WorkflowError where it is such a kind, and has none or cannot be read.
    """
    kind = of(file.peek(64))
    return workflow(kind.entries(file), kind.name) if kind else None
