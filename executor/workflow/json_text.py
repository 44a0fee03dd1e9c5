"""JSON text as ComfyUI and the programs around it write it, and what of it is refused."""

from __future__ import annotations

import json
import math
from typing import Any, BinaryIO

from .errors import WorkflowError

LIMIT = 256 * 2**20  # bytes; a thousand times the canvas files that people share
DEPTH = 200  # levels; real files have some twenty, and what handles them later descends level by level


def megabytes(size: int) -> str:
    return f"{size / 2**20:.0f} MB"


def read(file: BinaryIO) -> str:
    """All the text from here on: UTF-8, UTF-16 or UTF-32, with or without a byte order mark."""
    data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise WorkflowError(f"not read: more than {megabytes(LIMIT)} of text")
    return decode(data)


def decode(data: bytes) -> str:
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise WorkflowError("neither JSON text nor a kind of file that carries a workflow") from error


def parse(text: str) -> Any:
    """The value that the text stands for, with null for numbers that JSON has none for.

    Python writes `NaN`, `Infinity` and `-Infinity` into JSON. ComfyUI's frontend reads them as null, and so
    does this: every value here can be written as JSON again, and an input that needs a number is refused
    by name when the prompt is validated. The same goes for numbers too large for a float, such as `1e999`.
    """
    try:
        content = json.loads(text, parse_constant=_null, parse_float=_finite)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at").removesuffix(" starting")
        raise WorkflowError(f"not JSON: {what} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise WorkflowError(f"not read: JSON nested more than {DEPTH} levels deep") from error
    except ValueError as error:  # a whole number of more digits than Python reads
        raise WorkflowError(f"not JSON: {error}") from error
    if _is_deep(content):
        raise WorkflowError(f"not read: JSON nested more than {DEPTH} levels deep")
    return content


def _null(name: str) -> None:
    """For `NaN`, `Infinity` and `-Infinity`."""


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _is_deep(content: Any) -> bool:
    level = [content] if isinstance(content, (dict, list)) else []
    for _ in range(DEPTH):
        level = [
            child
            for holder in level
            for child in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
