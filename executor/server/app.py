"""The server put together: queue, workers, routes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from ..jobs.limits import Limits
from ..jobs.store import Jobs
from ..worker.messages import Setup
from . import about, canvas, security
from .about import About
from .answers import refuse
from .dispatcher import Dispatcher
from .files import Files
from .hub import Hub
from .openai import Images
from .prompts import Prompts
from .retention import keep_retiring
from .userdata import UserData

log = logging.getLogger(__name__)

# Routes have ComfyUI's paths as they are, and again below /api.
ALONE = re.compile(r"/(api|ws|$)")


@dataclass(frozen=True)
class Settings:
    """Sizes are bytes, times seconds. `workflows` are the folders and files that OpenAI's API offers as
    models."""

    data: Path
    workers: list[Setup]
    token: str | None = None
    limits: Limits = field(default_factory=Limits)
    job_timeout: float = 0.0
    largest_body: int = 100 << 20
    largest_picture: int = 100_000_000  # pixels
    keep_seconds: float = 30 * 86400.0
    keep_jobs: int = 10_000
    delete_outputs: bool = False
    workflows: tuple[Path, ...] = ()


async def application(settings: Settings) -> web.Application:
    """Ready to be served. Raises `jobs.records.Unusable` where the queue's file cannot be used."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    jobs = await Jobs.open(settings.data / "queue.sqlite3", settings.limits)
    dispatcher = Dispatcher(jobs, settings.workers, settings.job_timeout)
    flags = about.flags(settings.largest_body)
    dispatcher.hub = hub = Hub(dispatcher.greet, flags)
    app = web.Application(
        middlewares=[security.guard(settings.token), _plain_errors], client_max_size=settings.largest_body
    )
    routes = [
        *Prompts(dispatcher).routes(),
        *Files(settings.largest_body, settings.largest_picture).routes(),
        *About(dispatcher, flags).routes(),
        *Images(dispatcher, settings.workflows, settings.largest_body).routes(),
        *UserData(settings.data / "user").routes(),
        web.get("/ws", hub.serve),
    ]
    app.add_routes([*routes, *_below_api(routes), *_health(dispatcher)])
    if settings.token is not None:
        app.add_routes(security.login_routes(settings.token))
    app.add_routes(canvas.routes())

    async def running(app: web.Application) -> AsyncIterator[None]:
        dispatcher.start()
        retiring = asyncio.create_task(
            keep_retiring(
                jobs,
                keep_seconds=settings.keep_seconds,
                keep_jobs=settings.keep_jobs,
                delete_outputs=settings.delete_outputs,
            )
        )
        yield
        retiring.cancel()
        with suppress(asyncio.CancelledError):
            await retiring
        await dispatcher.stop()
        await asyncio.to_thread(jobs.close)

    async def leaving(app: web.Application) -> None:
        await hub.close()

    app.cleanup_ctx.append(running)
    app.on_shutdown.append(leaving)
    return app


def _below_api(routes: Iterable[web.RouteDef]) -> list[web.RouteDef]:
    return [web.route(route.method, f"/api{route.path}", route.handler) for route in routes]


def _health(dispatcher: Dispatcher) -> list[web.RouteDef]:
    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(request: web.Request) -> web.Response:
        """Whether a worker can take a job, and what each of them is doing."""
        workers = [
            {
                "name": worker.name,
                "state": "starting" if worker.about is None else "idle" if worker.is_idle else "busy",
                "job": worker.running[0] if worker.running else None,
                "reason": worker.why,
            }
            for worker in dispatcher.pool.workers
        ]
        up = any(worker.about is not None for worker in dispatcher.pool.workers)
        content: dict[str, Any] = {"ready": up, "workers": workers, "remaining": dispatcher.jobs.remaining}
        return web.json_response(content, status=200 if up else 503)

    return [
        web.get("/health", health),
        web.get("/ready", ready),
        web.get("/metrics", dispatcher.metrics.show),
    ]


@web.middleware
async def _plain_errors(request: web.Request, handler: security.Handler) -> web.StreamResponse:
    """What goes wrong here is logged, and told without a traceback."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except asyncio.CancelledError:
        raise
    except Exception:  # the last resort: a fault of ours must not end the connection without a word
        log.exception("%s %s", request.method, request.path)
        return refuse(500, "internal_error", "the server failed to answer; its log says why")
