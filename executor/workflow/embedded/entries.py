"""What a file holds by key, made into a prompt and a canvas.

A reader gives pairs of a key and its value, JSON text as a rule. Savers differ in what they put where:

- under `prompt` and `workflow`: JSON text (ComfyUI), an object (its SVG files), JSON text in JSON text (its
  videos, where a value was text already), and an empty text where there was no prompt (its latents);
- in one comment: `{"prompt": ..., "workflow": ...}` (VideoHelperSuite; savers using EXIF's UserComment), or
  the canvas or the prompt itself, without a key (savers using EXIF).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import WorkflowError
from ..json_text import parse

KEYS = ("prompt", "workflow")
COMMENT = "comment"
Entry = tuple[str, Any]  # a key of KEYS or COMMENT, and its value


def named(pairs: Iterable[tuple[Any, Any]]) -> list[Entry]:
    """Those of the pairs that count. Matroska holds names in capitals, some savers write `Prompt`."""
    return [(str(key).lower(), value) for key, value in pairs if str(key).lower() in (*KEYS, COMMENT)]


def workflow(entries: Iterable[Entry], carrier: str) -> dict[str, Any]:
    """The `prompt` and the `workflow`, whichever are there. Raises WorkflowError where neither is.

    Damage is no reason to refuse what was read before it, or beside it: ComfyUI's frontend too takes the one
    where it cannot read the other.
    """
    held: dict[str, Any] = {}
    commented: dict[str, Any] = {}
    faults: list[str] = []
    for key, value in _whole(entries, faults):
        part = _part(key, value, faults)
        if key == COMMENT:
            commented |= part
        else:
            held |= part
    if found := commented | held:
        return found
    raise WorkflowError(
        faults[0] if faults else f"this {carrier} carries no workflow (neither a prompt nor a workflow entry)"
    )


def _whole(entries: Iterable[Entry], faults: list[str]) -> Iterator[Entry]:
    """The entries before the file turns out to be damaged."""
    try:
        yield from entries
    except WorkflowError as error:
        faults.append(str(error))


def _part(key: str, value: Any, faults: list[str]) -> dict[str, Any]:
    try:
        return _of_comment(value) if key == COMMENT else _of_key(key, value)
    except WorkflowError as error:
        faults.append(f"its {key} is {error}")
        return {}


def _of_key(key: str, value: Any) -> dict[str, Any]:
    content = _unwrapped(value)
    if content is not None and not isinstance(content, Mapping):
        raise WorkflowError("not a JSON object")
    return {key: content} if content else {}


def _unwrapped(value: Any) -> Any:
    """The object in a text; it may have been made a text twice."""
    for _ in range(2):
        if not isinstance(value, str):
            break
        text = value.strip("\0 \t\r\n")
        value = parse(text) if text else None
    return value


def _of_comment(value: Any) -> dict[str, Any]:
    """Comments are mostly something else: only what looks like JSON is taken for it."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return {}
    content = _unwrapped(value)
    if not isinstance(content, Mapping):
        return {}
    if any(key in content for key in KEYS):
        return {name: part for key in KEYS for name, part in _of_key(key, content.get(key)).items()}
    if isinstance(content.get("nodes"), list):
        return {"workflow": content}
    is_prompt = content and all(isinstance(node, dict) and "class_type" in node for node in content.values())
    return {"prompt": content} if is_prompt else {}
