"""ComfyUI's own frontend at `/`, where its package is installed; otherwise a page that says how to get it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

FRONTEND = "comfyui_frontend_package"
TEMPLATES = "comfyui_workflow_templates_json"
WITHOUT = """<!doctype html><meta charset="utf-8"><title>Slipstream</title>
<body style="font-family: sans-serif; max-width: 40em; margin: 4em auto">
<h1>Slipstream</h1>
<p>This server speaks ComfyUI's API. For ComfyUI's canvas on this page, install its frontend and start the
server again:</p><pre>pip install 'slipstream[canvas]'</pre>
<p><a href="/queue">queue</a> &middot; <a href="/history">history</a> &middot;
<a href="/object_info">node classes</a> &middot; <a href="/ready">workers</a></p>"""
UNCACHED = {"Cache-Control": "no-cache"}
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm"}


def routes() -> list[web.RouteDef]:
    """To be added last: whatever no other route answers is a file of the frontend."""
    frontend, templates = _folder(FRONTEND, "static"), _folder(TEMPLATES, "templates")

    async def page(request: web.Request) -> web.StreamResponse:
        if frontend is None:
            return web.Response(text=WITHOUT, content_type="text/html")
        return web.FileResponse(frontend / "index.html", headers=UNCACHED)

    async def template(request: web.Request) -> web.StreamResponse:
        return _file(templates, request.match_info["path"])

    async def file(request: web.Request) -> web.StreamResponse:
        return _file(frontend, request.match_info["path"])

    return [web.get("/", page), web.get("/templates/{path:.+}", template), web.get("/{path:.+}", file)]


def _file(folder: Path | None, name: str) -> web.StreamResponse:
    if folder is None:
        raise web.HTTPNotFound
    try:
        path = (folder / name).resolve()
        found = path.is_relative_to(folder) and path.is_file()
    except (OSError, ValueError) as error:
        raise web.HTTPNotFound from error
    if not found:
        raise web.HTTPNotFound
    headers = {"Content-Type": TYPES[path.suffix]} if path.suffix in TYPES else {}
    return web.FileResponse(path, headers={**headers, **(UNCACHED if path.suffix == ".html" else {})})


def _folder(package: str, name: str) -> Path | None:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return (Path(spec.submodule_search_locations[0]) / name).resolve()
