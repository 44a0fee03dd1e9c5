"""Who may ask: Host and Origin checks against other sites' pages, and a token where others can reach us."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE = "slipstream_token"
OPEN_PATHS = frozenset({"/health", "/login"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
LOGIN = """<!doctype html><meta charset="utf-8"><title>Slipstream</title>
<form method="post" action="/login" style="font-family: sans-serif; margin: 4em auto; width: 20em">
<label>Token <input type="password" name="token" autofocus></label> <button>Log in</button></form>"""


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def guard(token: str | None) -> Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]:
    """The middleware. Without a token, only requests by a name of this machine are answered, so that no
    other site's name can be made to point here (DNS rebinding); in any case a page of another origin is
    refused, on the websocket too."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = urlsplit(f"//{request.host}").hostname or ""
        if token is None and not is_loopback(host):
            raise web.HTTPForbidden(text=f"not served under the name {host!r}")
        if _is_foreign(request):
            raise web.HTTPForbidden(text="requests of pages of other sites are refused")
        if token is not None and request.path not in OPEN_PATHS and not _has_token(request, token):
            if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
                raise web.HTTPFound("/login")
            raise web.HTTPUnauthorized(
                text="a token is needed: Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"}
            )
        return await handler(request)

    return checked


def _is_foreign(request: web.Request) -> bool:
    """Whether a browser says that a page of another origin sent this."""
    origin = request.headers.get("Origin")
    if origin is not None:
        return urlsplit(origin).netloc.lower() != request.host.lower()
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
    return site == "cross-site" and (is_socket or request.method not in READING)


def _has_token(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else ""
    return any(
        hmac.compare_digest(candidate.encode(), token.encode())
        for candidate in (bearer, request.cookies.get(COOKIE, ""))
    )


def login_routes(token: str) -> list[web.RouteDef]:
    """The page on which a browser is given the cookie that stands for the token."""

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=LOGIN, content_type="text/html")

    async def enter(request: web.Request) -> web.Response:
        given = (await request.post()).get("token", "")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), token.encode()):
            return web.Response(status=401, text=LOGIN, content_type="text/html")
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict", path="/")
        return answer

    return [web.get("/login", show), web.post("/login", enter)]
