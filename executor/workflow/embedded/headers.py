"""Files with a header of JSON or XML, of which the workflow is a part."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from .. import json_text
from ..errors import WorkflowError
from .binary import exactly
from .entries import KEYS, Entry, named


def safetensors(file: BinaryIO) -> Iterator[Entry]:
    """Latents and checkpoints: `__metadata__` in the header, whose length the first eight bytes give."""
    (length,) = struct.unpack("<Q", exactly(file, 8))
    yield from _pairs(_header(exactly(file, length)), "__metadata__")


def glb(file: BinaryIO) -> Iterator[Entry]:
    """3D models: `asset.extras` in the first chunk, which is JSON (glTF 2.0, section 4.4)."""
    length, kind = struct.unpack("<12xI4s", exactly(file, 20))
    if kind == b"JSON":
        yield from _pairs(_header(exactly(file, length)), "asset", "extras")


def svg(file: BinaryIO) -> Iterator[Entry]:
    """Drawings: one JSON object with both, in the CDATA section of the first `metadata` element."""
    text = json_text.read(file)
    if "<svg" not in text:
        raise WorkflowError("not JSON: markup, such as a page of HTML")
    element = text.partition("<metadata>")[2].partition("</metadata>")[0].strip()
    if element.startswith("<![CDATA["):
        yield from _pairs(json_text.parse(element.removeprefix("<![CDATA[").removesuffix("]]>")))


def _header(data: bytes) -> Any:
    try:
        return json_text.parse(json_text.decode(data))
    except WorkflowError as error:
        raise WorkflowError("damaged: its header is not JSON") from error


def _pairs(content: Any, *path: str) -> Iterator[Entry]:
    for step in path:
        content = content.get(step) if isinstance(content, Mapping) else None
    if isinstance(content, Mapping):
        yield from ((key, value) for key, value in named(content.items()) if key in KEYS)
