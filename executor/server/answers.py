"""What routes have in common: reading JSON, and refusing with a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

BLOCK = 1 << 16
LONGEST_FIELD = 1 << 16  # bytes of a text in a form


def refuse(status: int, kind: str, message: str, details: str = "", **headers: str) -> web.Response:
    """An error in the form that ComfyUI's clients know."""
    error = {"type": kind, "message": message, "details": details, "extra_info": {}}
    return web.json_response({"error": error, "node_errors": {}}, status=status, headers=headers)


async def body(request: web.Request) -> dict[str, Any]:
    """The object in the request's body; an empty one where there is no body. Raises HTTPBadRequest."""
    content = await value(request) if (await request.read()).strip() else {}
    if not isinstance(content, dict):
        raise bad_request("a JSON object is needed")
    return content


async def value(request: web.Request) -> Any:
    """The JSON value in the request's body. Raises HTTPBadRequest."""
    try:
        return json.loads(await request.read(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not JSON: {error}") from error


class Part(NamedTuple):
    """A field of a form; `filename` is None for a text."""

    name: str
    filename: str | None
    content: bytes


async def form(request: web.Request, largest: int) -> AsyncIterator[Part]:
    """The named fields of a multipart form. Raises HTTPBadRequest, or HTTPRequestEntityTooLarge for a file of
    more than `largest` bytes."""
    if not request.content_type.startswith("multipart/"):
        raise bad_request("multipart/form-data is needed")
    try:
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name:
                most = LONGEST_FIELD if part.filename is None else largest
                yield Part(part.name, part.filename, await _content(part, most))
    except (ValueError, AssertionError, LookupError, HttpProcessingError) as error:  # for damaged forms
        raise bad_request(f"the form cannot be read: {error}") from error


async def _content(part: BodyPartReader, most: int) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(BLOCK):
        content += chunk
        if len(content) > most:
            raise web.HTTPRequestEntityTooLarge(most, len(content))
    return bytes(content)


def bad_request(message: str) -> web.HTTPBadRequest:
    content = {"error": {"type": "invalid_request", "message": message, "details": "", "extra_info": {}}}
    return web.HTTPBadRequest(
        text=json.dumps({**content, "node_errors": {}}), content_type="application/json"
    )


def number(request: web.Request, name: str, default: int | None) -> int | None:
    """A whole number, 0 or more, of the query. Raises HTTPBadRequest."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise bad_request(f"{name} must be a whole number, not {text!r}") from error
    return value


def _no_number(name: str) -> None:
    """NaN and Infinity are no JSON; an input cannot hold them."""
    raise ValueError(f"{name} is not allowed")
