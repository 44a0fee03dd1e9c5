"""Routes that describe: node classes, models, this machine, what the server can do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from aiohttp import web

from ..models import folders
from ..worker.pool import Unavailable
from .answers import refuse
from .dispatcher import Dispatcher

COMFYUI_VERSION = "0.3.64"  # whose API this is


class About:
    def __init__(self, dispatcher: Dispatcher, flags: dict[str, Any]):
        self._dispatcher = dispatcher
        self._flags = flags

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/object_info", self.object_info),
            web.get("/object_info/{name}", self.object_info),
            web.get("/system_stats", self.system_stats),
            web.get("/features", self.features),
            web.get("/embeddings", self.embeddings),
            web.get("/models", self.kinds),
            web.get("/models/{kind}", self.models),
            web.get("/experiment/models", self.model_folders),
            web.get("/experiment/models/{kind}", self.model_files),
            web.get("/extensions", self.nothing_listed),
            web.get("/internal/folder_paths", self.folder_paths),
            web.get("/internal/logs", self.logs),
            web.get("/internal/logs/raw", self.raw_logs),
            web.patch("/internal/logs/subscribe", self.accepted),
            web.get("/internal/files/{kind}", self.listed_files),
            web.get("/i18n", self.nothing),
            web.get("/workflow_templates", self.nothing),
            web.get("/global_subgraphs", self.nothing),
            web.get("/node_replacements", self.nothing),
        ]

    async def object_info(self, request: web.Request) -> web.Response:
        try:
            content = await self._dispatcher.pool.describe(request.match_info.get("name"))
        except Unavailable as error:
            return refuse(503, "no_worker", "No worker can answer", str(error), **{"Retry-After": "5"})
        return web.Response(body=content, content_type="application/json", charset="utf-8")

    async def system_stats(self, request: web.Request) -> web.Response:
        total, free = memory()
        workers = self._dispatcher.pool.workers
        versions = next((w.about.versions for w in workers if w.about), {})
        system = {
            "os": os.name,
            "ram_total": total,
            "ram_free": free,
            "comfyui_version": COMFYUI_VERSION,
            "python_version": sys.version,
            "pytorch_version": versions.get("torch", ""),
            "embedded_python": False,
            "argv": ["slipstream", "serve"],
            "slipstream_version": versions.get("slipstream", ""),
        }
        return web.json_response({"system": system, "devices": [await self._device(w) for w in workers]})

    async def _device(self, worker: Any) -> dict[str, Any]:
        total, free = memory()
        device: dict[str, Any] = {"name": worker.name, "type": worker.name.partition(":")[0], "index": None}
        if worker.about is not None and worker.about.memory:
            try:
                measured = await self._dispatcher.pool.measure(worker)
                total, free = measured.device_total, measured.device_free
            except Unavailable:
                total, free = worker.about.memory, 0
            kind, _, index = worker.about.device.partition(":")
            device = {"name": worker.about.device_name, "type": kind, "index": int(index or 0)}
        return {
            **device,
            "vram_total": total,
            "vram_free": free,
            "torch_vram_total": total,
            "torch_vram_free": free,
        }

    async def features(self, request: web.Request) -> web.Response:
        return web.json_response(self._flags)

    async def embeddings(self, request: web.Request) -> web.Response:
        return web.json_response([name.rpartition(".")[0] or name for name in folders.names("embeddings")])

    async def kinds(self, request: web.Request) -> web.Response:
        return web.json_response(folders.kinds())

    async def models(self, request: web.Request) -> web.Response:
        try:
            return web.json_response(list(folders.names(request.match_info["kind"])))
        except folders.ModelNotFound:
            return web.Response(status=404)

    async def model_folders(self, request: web.Request) -> web.Response:
        kinds = [kind for kind in folders.kinds() if kind not in ("configs", "custom_nodes")]
        return web.json_response(
            [{"name": k, "folders": list(map(str, folders.directories(k)))} for k in kinds]
        )

    async def model_files(self, request: web.Request) -> web.Response:
        try:
            kind = request.match_info["kind"]
            where, names = folders.directories(kind), folders.names(kind)
        except folders.ModelNotFound:
            return web.Response(status=404)
        found = []
        for name in names:
            path = folders.find(kind, name)
            if path.is_file():
                index = next((i for i, folder in enumerate(where) if path.is_relative_to(folder)), 0)
                stat = path.stat()
                found.append(
                    {"name": name, "pathIndex": index, "modified": stat.st_mtime, "size": stat.st_size}
                )
        return web.json_response(found)

    async def folder_paths(self, request: web.Request) -> web.Response:
        return web.json_response({k: list(map(str, folders.directories(k))) for k in folders.kinds()})

    async def listed_files(self, request: web.Request) -> web.Response:
        """The newest first, as choices for nodes that read from the output folder."""
        kind = request.match_info["kind"]
        if kind not in ("input", "output", "temp"):
            return web.json_response({"error": "Invalid directory type"}, status=400)
        folder = folders.by_type(kind)
        files = [entry for entry in os.scandir(folder) if entry.is_file()] if folder.is_dir() else []
        files.sort(key=lambda entry: -entry.stat().st_mtime)
        suffix = "" if kind == "input" else f" [{kind}]"
        return web.json_response([entry.name + suffix for entry in files if not entry.name.startswith(".")])

    async def logs(self, request: web.Request) -> web.Response:
        return web.json_response("")

    async def raw_logs(self, request: web.Request) -> web.Response:
        return web.json_response({"entries": [], "size": {"cols": 80, "rows": 24}})

    async def accepted(self, request: web.Request) -> web.Response:
        return web.Response()

    async def nothing(self, request: web.Request) -> web.Response:
        return web.json_response({})

    async def nothing_listed(self, request: web.Request) -> web.Response:
        return web.json_response([])


def memory() -> tuple[int, int]:
    """Bytes of this machine's memory, in all and free; 0 where there is no telling."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0, 0
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return found.get("MemTotal", 0), found.get("MemAvailable", 0)


def flags(largest_upload: int) -> dict[str, Any]:
    """What the server says it can do."""
    return {"supports_preview_metadata": True, "max_upload_size": largest_upload}
