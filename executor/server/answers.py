"""What routes have in common: reading JSON, and refusing with a reason."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


def refuse(status: int, kind: str, message: str, details: str = "", **headers: str) -> web.Response:
    """An error in the form that ComfyUI's clients know."""
    error = {"type": kind, "message": message, "details": details, "extra_info": {}}
    return web.json_response({"error": error, "node_errors": {}}, status=status, headers=headers)


async def body(request: web.Request) -> dict[str, Any]:
    """The object in the request's body; an empty one where there is no body. Raises HTTPBadRequest."""
    text = await request.text()
    if not text.strip():
        return {}
    try:
        content = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise bad_request("a JSON object is needed")
    return content


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
