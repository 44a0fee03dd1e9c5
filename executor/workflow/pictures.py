"""The workflow that a saved picture carries, as ComfyUI writes it.

PNG: text chunks `prompt` and `workflow`; animated PNG: the same two in `comf` chunks (key, NUL, JSON);
WebP: EXIF strings `prompt:{...}` and `workflow:{...}`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from .errors import WorkflowError

KEYS = ("prompt", "workflow")
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def embedded(path: Path) -> dict[str, str]:
    """The JSON texts found, by key. Raises WorkflowError where there are none, OSError as opening does."""
    with path.open("rb") as file:
        is_png = file.read(len(PNG_SIGNATURE)) == PNG_SIGNATURE
    texts = _png_texts(path) if is_png else _exif_texts(path)
    found = {key: text for key, text in texts if key in KEYS}
    if not found:
        raise WorkflowError("this picture carries no workflow (neither a prompt nor a workflow entry)")
    return found


def _png_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Chunk by chunk, without decoding pixels: in an animated PNG the texts follow the last frame."""
    with path.open("rb") as file:
        file.seek(len(PNG_SIGNATURE))
        while len(header := file.read(8)) == 8:
            length, kind = struct.unpack(">I4s", header)
            if kind not in (b"tEXt", b"iTXt", b"comf"):
                file.seek(length + 4, 1)
                continue
            key, _, text = file.read(length).partition(b"\0")
            file.seek(4, 1)
            if (
                kind == b"iTXt" and text[:1] == b"\0"
            ):  # not compressed: flag, method, language, translated key
                text = text[2:].split(b"\0", 2)[-1]
            encoding = "latin-1" if kind == b"tEXt" else "utf-8"
            yield key.decode("latin-1"), text.decode(encoding, "replace")


def _exif_texts(path: Path) -> Iterator[tuple[str, str]]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            values = list(image.getexif().values())
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise WorkflowError(f"cannot be read as a picture: {error}") from error
    for value in values:
        if isinstance(value, str):
            key, _, text = value.partition(":")
            yield key, text.rstrip("\0")
