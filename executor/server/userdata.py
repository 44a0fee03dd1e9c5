"""Routes of what users keep on the server: settings, saved workflows. There is one user."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from ..models.directories import OutsideFolder, contained
from .answers import bad_request, body, value

SETTINGS = "settings.json"
TRUE = ("true", "1")


class UserData:
    """Everything is below `folder`; settings stand beside what users see of it."""

    def __init__(self, folder: Path):
        self._files = folder / "files"
        self._settings = folder / SETTINGS

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/users", self.users),
            web.get("/settings", self.settings),
            web.post("/settings", self.change_settings),
            web.get("/settings/{id}", self.setting),
            web.post("/settings/{id}", self.change_setting),
            web.get("/userdata", self.listing),
            web.get("/v2/userdata", self.entries),
            web.get("/userdata/{file}", self.read),
            web.post("/userdata/{file}", self.write),
            web.delete("/userdata/{file}", self.delete),
            web.post("/userdata/{file}/move/{to}", self.move),
        ]

    async def users(self, request: web.Request) -> web.Response:
        return web.json_response({"storage": "server", "migrated": True})

    async def settings(self, request: web.Request) -> web.Response:
        return web.json_response(self._load())

    async def change_settings(self, request: web.Request) -> web.Response:
        self._save({**self._load(), **await body(request)})
        return web.Response()

    async def setting(self, request: web.Request) -> web.Response:
        return web.json_response(self._load().get(request.match_info["id"]))

    async def change_setting(self, request: web.Request) -> web.Response:
        self._save({**self._load(), request.match_info["id"]: await value(request)})
        return web.Response()

    async def listing(self, request: web.Request) -> web.Response:
        """GET /userdata?dir=&recurse=&full_info=&split="""
        name = request.query.get("dir", "")
        if not name:
            raise web.HTTPBadRequest(text="dir is missing")
        folder = self._path(name)
        if not folder.is_dir():
            return web.Response(status=404)
        query = request.query
        found = sorted(_files(folder, recurse=query.get("recurse", "").lower() in TRUE))
        names = [path.relative_to(folder).as_posix() for path in found]
        if query.get("full_info", "").lower() in TRUE:
            return web.json_response([_about(path, name) for path, name in zip(found, names, strict=True)])
        if query.get("split", "").lower() in TRUE:
            return web.json_response([[name, *name.split("/")] for name in names])
        return web.json_response(names)

    async def entries(self, request: web.Request) -> web.Response:
        """GET /v2/userdata?path=: files and folders."""
        folder = self._path(request.query.get("path", ""))
        if not folder.is_dir():
            return web.Response(status=404)
        found = []
        for path in sorted(folder.iterdir()):
            name = path.relative_to(self._files).as_posix()
            if path.is_dir():
                found.append({"name": path.name, "path": name, "type": "directory"})
            else:
                found.append({"name": path.name, "type": "file", **_about(path, name)})
        return web.json_response(found)

    async def read(self, request: web.Request) -> web.StreamResponse:
        path = self._path(request.match_info["file"])
        if not path.is_file():
            return web.Response(status=404)
        # Whatever it is, a browser is to keep it as a file and not to show it as a page of ours.
        headers = {
            "Content-Type": "application/json" if path.suffix == ".json" else "application/octet-stream",
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        }
        return web.FileResponse(path, headers=headers)

    async def write(self, request: web.Request) -> web.Response:
        name = request.match_info["file"]
        path = self._path(name)
        if path.exists() and request.query.get("overwrite", "true").lower() not in TRUE:
            return web.Response(status=409, text="the file exists")
        _write(path, await request.read())
        full = request.query.get("full_info", "").lower() in TRUE
        relative = path.relative_to(self._files).as_posix()
        return web.json_response(_about(path, relative) if full else relative)

    async def delete(self, request: web.Request) -> web.Response:
        path = self._path(request.match_info["file"])
        if not path.is_file():
            return web.Response(status=404)
        path.unlink()
        return web.Response(status=204)

    async def move(self, request: web.Request) -> web.Response:
        source, target = self._path(request.match_info["file"]), self._path(request.match_info["to"])
        if not source.is_file():
            return web.Response(status=404)
        if target.exists() and request.query.get("overwrite", "true").lower() not in TRUE:
            return web.Response(status=409, text="the file exists")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)
        full = request.query.get("full_info", "").lower() in TRUE
        relative = target.relative_to(self._files).as_posix()
        return web.json_response(_about(target, relative) if full else relative)

    def _path(self, name: str) -> Path:
        """A place below the folder of files. Raises 403 for one that is not."""
        try:
            return contained(self._files, name.lstrip("/"))
        except OutsideFolder as error:
            raise web.HTTPForbidden(text=f"not a place for user data: {name!r}") from error

    def _load(self) -> dict[str, Any]:
        try:
            content = json.loads(self._settings.read_bytes())
        except FileNotFoundError:
            return {}
        return content if isinstance(content, dict) else {}

    def _save(self, settings: dict[str, Any]) -> None:
        _write(self._settings, json.dumps(settings, indent=1).encode())


def _files(folder: Path, *, recurse: bool) -> Iterator[Path]:
    for parent, names, files in os.walk(folder):
        if not recurse:
            names.clear()
        yield from (Path(parent) / file for file in files if not file.startswith("."))


def _about(path: Path, name: str) -> dict[str, Any]:
    stat = path.stat()
    return {
        "path": name,
        "size": stat.st_size,
        "modified": int(stat.st_mtime * 1000),
        "created": int(stat.st_ctime * 1000),
    }


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid.uuid4().hex}")
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise bad_request(f"{path.name} cannot be written: {error.strerror or error}") from error
