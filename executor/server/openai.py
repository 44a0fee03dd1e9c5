"""OpenAI's images API over workflow files: each file is a model, called by its name.

Fields of a request set the parameters that the file declares (`extra.slipstream.parameters`): `prompt`,
`seed`, `width` and `height` (from `size`), `image`, `mask`, and any other by its own name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from ..graph.events import NodeProgress
from ..jobs.records import Job, Refused, Unusable
from ..models import folders
from ..worker.messages import Told
from ..worker.pool import Unavailable
from ..workflow import files
from ..workflow.draft import Draft
from ..workflow.errors import SettingError, WorkflowError
from . import submission
from .answers import body, form
from .dispatcher import Dispatcher
from .files import write_upload
from .watching import Watch

SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,5}\Z")
SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
MOST = 10  # pictures of a request
SCHEMA_SECONDS = 60.0  # for which node definitions are kept
# What OpenAI's clients send that means nothing to a workflow which does not declare it.
IGNORED = frozenset(
    {
        "background",
        "input_fidelity",
        "model",
        "moderation",
        "n",
        "output_compression",
        "output_format",
        "partial_images",
        "quality",
        "response_format",
        "size",
        "stream",
        "style",
        "user",
    }
)
# Other servers' names for what workflows usually call otherwise.
OTHER_NAMES = {"num_inference_steps": "steps", "guidance_scale": "guidance"}


class Bad(Exception):
    """A request that cannot be met; `field` is the one to blame."""

    def __init__(
        self, message: str, field: str | None = None, status: int = 400, retry_after: int | None = None
    ):
        super().__init__(message)
        self.field = field
        self.status = status
        self.retry_after = retry_after


class Images:
    """`workflows` are folders and files."""

    def __init__(self, dispatcher: Dispatcher, workflows: Iterable[Path], largest: int):
        self._dispatcher = dispatcher
        self._places = list(workflows)
        self._largest = largest
        self._schema: tuple[float, Mapping[str, Any]] = (float("-inf"), {})

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self.models),
            web.get("/v1/models/{model}", self.model),
            web.post("/v1/images/generations", self.generate),
            web.post("/v1/images/edits", self.edit),
        ]

    async def models(self, request: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._files)
        return web.json_response({"object": "list", "data": [_model(n, p) for n, p in sorted(found.items())]})

    async def model(self, request: web.Request) -> web.Response:
        name, found = request.match_info["model"], await asyncio.to_thread(self._files)
        if name not in found:
            return _error(Bad(f"there is no model {name!r}", "model", 404))
        return web.json_response(_model(name, found[name]))

    async def generate(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, await body(request), "image_generation")

    async def edit(self, request: web.Request) -> web.StreamResponse:
        content = await self._form(request)
        if "image" not in content:
            return _error(Bad("an image is needed", "image"))
        return await self._answer(request, content, "image_edit")

    async def _answer(self, request: web.Request, content: dict[str, Any], kind: str) -> web.StreamResponse:
        jobs: list[str] = []
        try:
            drafts = await self._drafts(content)
            if _flag(content.get("stream")):
                partial = _whole(content, "partial_images", 0, 3, 0)
                if len(drafts) > 1:
                    raise Bad("a stream gives one picture: n must be 1", "n")
                return await self._stream(request, drafts[0], kind, partial, jobs)
            ended = await asyncio.gather(*(self._run(draft, jobs) for draft in drafts))
            made = [picture for job in ended for picture in _pictures(job)]
            if content.get("response_format") == "url":
                data = [{"url": _url(request, picture)} for picture in made]
            else:
                data = [{"b64_json": await asyncio.to_thread(_encoded, picture)} for picture in made]
            return web.json_response({"created": int(time.time()), "data": data})
        except Bad as bad:
            return _error(bad)
        except asyncio.CancelledError:  # the client has gone: nobody can fetch what the jobs make
            for job_id in jobs:
                await asyncio.shield(self._dispatcher.cancel(job_id))
            raise

    async def _run(self, draft: Draft, jobs: list[str]) -> Job:
        job_id = str(uuid.uuid4())
        with self._dispatcher.watches.on(job_id) as watch:
            await self._submit(job_id, draft)
            jobs.append(job_id)
            return _succeeded(await watch.end())

    async def _stream(
        self, request: web.Request, draft: Draft, kind: str, partial: int, jobs: list[str]
    ) -> web.StreamResponse:
        """Server-sent events: up to `partial` previews, spread over the run, then the picture."""
        job_id = str(uuid.uuid4())
        with self._dispatcher.watches.on(job_id) as watch:
            await self._submit(job_id, draft)
            jobs.append(job_id)
            answer = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
            )
            await answer.prepare(request)
            try:
                await self._send_events(answer, watch, kind, partial)
            except Bad as bad:
                await _send(answer, "error", {"type": "error", "error": _body(bad)["error"]})
            await answer.write_eof()
        return answer

    async def _send_events(self, answer: web.StreamResponse, watch: Watch, kind: str, partial: int) -> None:
        sent, ended = 0, None
        async for entry in watch:
            if isinstance(entry, Job):
                ended = _succeeded(entry)
            elif sent < partial and _is_due(entry, sent, partial):
                content = {"b64_json": base64.b64encode(entry.preview).decode(), "partial_image_index": sent}
                name = f"{kind}.partial_image"
                await _send(
                    answer,
                    name,
                    {"type": name, "created_at": int(time.time()), "output_format": "jpeg", **content},
                )
                sent += 1
        for picture in _pictures(ended):
            name = f"{kind}.completed"
            content = {"b64_json": await asyncio.to_thread(_encoded, picture), "output_format": "png"}
            await _send(
                answer, name, {"type": name, "created_at": int(time.time()), **content, "usage": USAGE}
            )

    async def _submit(self, job_id: str, draft: Draft) -> None:
        try:
            await submission.submit(
                self._dispatcher,
                job_id=job_id,
                prompt=draft.prompt,
                extra_data=draft.extra_data,
                client="openai",
            )
        except submission.Invalid as error:
            first = next(iter(error.checked.node_errors.values()), None)
            said = (
                f": {first['errors'][0]['message']} ({first['errors'][0]['details']})"
                if first and first["errors"]
                else ""
            )
            raise Bad(f"{error}{said}") from error
        except Refused as error:
            raise Bad(error.reason, status=429, retry_after=error.retry_after) from error
        except (Unavailable, Unusable) as error:
            raise Bad(str(error), status=503, retry_after=5) from error

    async def _drafts(self, content: Mapping[str, Any]) -> list[Draft]:
        """One for each picture that is asked for."""
        found = await asyncio.to_thread(self._files)
        name = content.get("model") or next(iter(found), None)
        if not isinstance(name, str) or name not in found:
            raise Bad(f"there is no model {name!r}; there is {', '.join(sorted(found))}", "model", 404)
        settings = _settings(content)
        count = _whole(content, "n", 1, MOST, 1)
        asked = content.get("seed") is not None
        seed = _whole(content, "seed", 0, 2**64 - 1, random.randrange(2**53))
        schema = await self._definitions()
        return [
            self._draft(found[name], schema, settings, seed + index, asked=asked) for index in range(count)
        ]

    def _draft(
        self, path: Path, schema: Mapping[str, Any], settings: Mapping[str, str], seed: int, *, asked: bool
    ) -> Draft:
        """`asked`: the seed is the client's, and not just any."""
        try:
            draft = Draft(files.read(path), schema, random.Random(seed))
            for key, text in settings.items():
                if key in draft.parameters:
                    draft.assign(key, text)
                elif key not in IGNORED:
                    raise Bad(f"the model {path.stem} has no parameter {key!r}", key)
            if asked or draft.reseed(None, 0):  # a workflow may well have no seeds
                draft.reseed(seed, 0)
        except WorkflowError as error:
            raise Bad(str(error), "model", 500) from error
        except SettingError as error:
            raise Bad(str(error)) from error
        return draft

    async def _definitions(self) -> Mapping[str, Any]:
        when, schema = self._schema
        if time.monotonic() - when > SCHEMA_SECONDS:
            try:
                schema = json.loads(await self._dispatcher.pool.describe())
            except Unavailable as error:
                raise Bad(str(error), status=503, retry_after=5) from error
            self._schema = (time.monotonic(), schema)
        return schema

    def _files(self) -> dict[str, Path]:
        """The workflow files by name; those that declare no prompt are no models."""
        found: dict[str, Path] = {}
        for place in self._places:
            for path in sorted(place.glob("*.json")) if place.is_dir() else [place]:
                if _declares_prompt(path):
                    found.setdefault(path.stem, path)
        return found

    async def _form(self, request: web.Request) -> dict[str, Any]:
        """The fields of a form; files are kept in the input folder and stand for their names there."""
        content: dict[str, Any] = {}
        async for part in form(request, self._largest):
            name = part.name.removesuffix("[]")
            if part.filename is None:
                content[name] = part.content.decode("utf-8", "replace")
            elif name not in content:
                suffix = SUFFIX.search(part.filename)
                target = folders.input_dir() / f"{uuid.uuid4().hex}{suffix[0].lower() if suffix else ''}"
                content[name] = await asyncio.to_thread(write_upload, target, part.content, overwrite=False)
        return content


# Servers that count tokens tell how many; there are none here.
USAGE = {
    "input_tokens": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
}


def _declares_prompt(path: Path) -> bool:
    try:
        return "prompt" in files.read(path).parameters
    except WorkflowError:
        return False


def _settings(content: Mapping[str, Any]) -> dict[str, str]:
    prompt = content.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise Bad("a prompt is needed", "prompt")
    settings = {
        OTHER_NAMES.get(key, key): value if isinstance(value, str) else json.dumps(value)
        for key, value in content.items()
        if value is not None and key != "seed"
    }
    size = settings.get("size", "auto")
    if size != "auto":
        match = SIZE.fullmatch(size)
        if match is None:
            raise Bad(f"size must be WIDTHxHEIGHT, such as 1024x1024, not {size!r}", "size")
        settings |= {"width": match[1], "height": match[2]}
    return settings


def _whole(content: Mapping[str, Any], name: str, least: int, most: int, default: int) -> int:
    value = content.get(name)
    if value is None or value == "":
        return default
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise Bad(f"{name} must be a whole number", name) from error
    if isinstance(value, bool) or not least <= number <= most:
        raise Bad(f"{name} must be {least} to {most}", name)
    return number


def _flag(value: Any) -> bool:
    return value is True or value in ("true", "True", "1")


def _is_due(entry: Told, sent: int, partial: int) -> bool:
    """Previews are spread evenly over the steps."""
    event = entry.event
    return (
        isinstance(event, NodeProgress)
        and bool(entry.preview)
        and event.value * (partial + 1) >= event.total * (sent + 1)
    )


def _succeeded(job: Job) -> Job:
    if job.state != "done":
        raise Bad(job.reason or job.state, status=500 if job.state == "failed" else 503)
    return job


def _pictures(job: Job) -> list[Mapping[str, str]]:
    """What its nodes saved or, if nothing, what they showed."""
    made = [
        one
        for shown in job.results.values()
        for one in (shown.get("images") or ())
        if isinstance(one, Mapping) and "filename" in one
    ]
    return [one for one in made if one.get("type") == "output"] or made


def _encoded(picture: Mapping[str, str]) -> str:
    path = folders.by_type(picture["type"]) / picture.get("subfolder", "") / picture["filename"]
    return base64.b64encode(path.read_bytes()).decode()


def _url(request: web.Request, picture: Mapping[str, str]) -> str:
    query = {key: picture.get(key, "") for key in ("filename", "subfolder", "type")}
    return str(request.url.origin().with_path("/view").with_query(query))


def _model(name: str, path: Path) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(path.stat().st_mtime), "owned_by": "slipstream"}


def _body(bad: Bad) -> dict[str, Any]:
    kind = "invalid_request_error" if bad.status < 500 else "server_error"
    kind = "rate_limit_error" if bad.status == 429 else kind
    return {"error": {"message": str(bad), "type": kind, "param": bad.field, "code": None}}


def _error(bad: Bad) -> web.Response:
    headers = {"Retry-After": str(bad.retry_after)} if bad.retry_after else {}
    return web.json_response(_body(bad), status=bad.status, headers=headers)


async def _send(answer: web.StreamResponse, name: str, content: Mapping[str, Any]) -> None:
    await answer.write(f"event: {name}\ndata: {json.dumps(content)}\n\n".encode())
