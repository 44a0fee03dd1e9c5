"""Routes of the queue: /prompt, /queue, /history, /interrupt, /free, and /jobs as the newer frontend asks."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from ..jobs.records import FINISHED, Conflict, Job, Refused, State, Unusable
from ..worker.pool import Unavailable
from . import submission
from .answers import bad_request, body, number, refuse
from .dispatcher import Dispatcher, decode
from .messages import Translator

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAXIMUM_NODES = 20_000
# ComfyUI's names for the states of the newer frontend.
STATUS: dict[State, str] = {
    "queued": "pending",
    "running": "in_progress",
    "done": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
SECRET = ("auth_token_comfy_org", "api_key_comfy_org")


class Prompts:
    def __init__(self, dispatcher: Dispatcher):
        self._dispatcher = dispatcher
        self._jobs = dispatcher.jobs

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/prompt", self.remaining),
            web.post("/prompt", self.submit),
            web.get("/queue", self.queue),
            web.post("/queue", self.edit_queue),
            web.get("/history", self.history),
            web.get("/history/{id}", self.history_of),
            web.post("/history", self.edit_history),
            web.post("/interrupt", self.interrupt),
            web.post("/free", self.free),
            web.get("/jobs", self.list_jobs),
            web.get("/jobs/{id}", self.one_job),
            web.get("/jobs/{id}/events", self.events),
            web.post("/jobs/cancel", self.cancel_jobs),
            web.post("/jobs/{id}/cancel", self.cancel_job),
        ]

    async def remaining(self, request: web.Request) -> web.Response:
        return web.json_response({"exec_info": {"queue_remaining": self._jobs.remaining}})

    async def submit(self, request: web.Request) -> web.Response:
        """POST /prompt. The job is on disk when the answer goes out; the same request under the same
        prompt_id is answered as the first time."""
        content = await body(request)
        if "prompt" not in content:
            return refuse(400, "no_prompt", "No prompt provided", "No prompt provided")
        prompt_id = content.get("prompt_id") or str(uuid.uuid4())
        if not isinstance(prompt_id, str) or not ID.fullmatch(prompt_id):
            return refuse(400, "invalid_prompt_id", "prompt_id must be 1 to 64 letters, digits, - or _")
        place = content.get("number")
        if place is not None and (not isinstance(place, (int, float)) or isinstance(place, bool)):
            return refuse(400, "invalid_number", "number must be a number", repr(place))
        targets = content.get("partial_execution_targets")
        if targets is not None and not (
            isinstance(targets, list) and all(isinstance(t, str) for t in targets)
        ):
            return refuse(400, "invalid_targets", "partial_execution_targets must be a list of node ids")
        prompt, extra_data = content["prompt"], content.get("extra_data", {})
        if not isinstance(extra_data, dict):
            return refuse(400, "invalid_extra_data", "extra_data must be an object")
        if isinstance(prompt, dict) and len(prompt) > MAXIMUM_NODES:
            return refuse(413, "prompt_too_large", f"a prompt may have {MAXIMUM_NODES} nodes")
        client = content.get("client_id") or ""
        if not isinstance(client, str):
            return refuse(400, "invalid_client_id", "client_id must be text")
        if client:
            extra_data = {**extra_data, "client_id": client}
        try:
            job, checked = await submission.submit(
                self._dispatcher,
                job_id=prompt_id,
                prompt=prompt,
                targets=targets,
                extra_data=extra_data,
                client=client,
                number=place,
                front=bool(content.get("front")),
            )
        except submission.Invalid as error:
            checked = error.checked
            return web.json_response({"error": checked.error, "node_errors": checked.node_errors}, status=400)
        except Unavailable as error:
            return refuse(
                503, "no_worker", "No worker can take the prompt", str(error), **{"Retry-After": "5"}
            )
        except Refused as error:
            after = {"Retry-After": str(error.retry_after)}
            return refuse(429, "queue_full", error.reason, f"try again in {error.retry_after} s", **after)
        except Conflict as error:
            return refuse(409, "prompt_id_in_use", str(error))
        except Unusable as error:
            return refuse(507, "queue_unusable", str(error))
        answer = {"prompt_id": job.id, "number": _shown(job.number), "node_errors": checked.node_errors}
        return web.json_response(answer)

    async def queue(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "queue_running": [_item(job) for job in self._jobs.running],
                "queue_pending": [_item(job) for job in self._jobs.waiting],
            }
        )

    async def edit_queue(self, request: web.Request) -> web.Response:
        content = await body(request)
        ids = [job.id for job in self._jobs.waiting] if content.get("clear") else _ids(content, "delete")
        for job_id in ids:
            job = self._jobs.unfinished(job_id)
            if job is not None and job.state == "queued":
                await self._dispatcher.cancel(job_id)
        return web.Response()

    async def history(self, request: web.Request) -> web.Response:
        """GET /history?max_items=N: the last N; with offset, N from there on."""
        limit, offset = number(request, "max_items", None), number(request, "offset", -1)
        if limit is not None and offset is not None and offset < 0:
            jobs = await self._jobs.finished(states=RAN, limit=limit, newest_first=True)
            jobs.reverse()
        else:
            jobs = await self._jobs.finished(states=RAN, limit=limit, offset=max(0, offset or 0))
        return web.json_response({job.id: _history(job) for job in jobs})

    async def history_of(self, request: web.Request) -> web.Response:
        job = await self._jobs.get(request.match_info["id"])
        return web.json_response({job.id: _history(job)} if job is not None and job.is_finished else {})

    async def edit_history(self, request: web.Request) -> web.Response:
        content = await body(request)
        await self._jobs.forget(None if content.get("clear") else _ids(content, "delete"))
        return web.Response()

    async def interrupt(self, request: web.Request) -> web.Response:
        """POST /interrupt {"prompt_id"?}: that job if it is running; without an id, whatever is running."""
        content = await body(request)
        wanted = content.get("prompt_id")
        for job in self._jobs.running:
            if wanted in (None, job.id):
                await self._dispatcher.cancel(job.id)
        return web.Response()

    async def free(self, request: web.Request) -> web.Response:
        content = await body(request)
        models, results = bool(content.get("unload_models")), bool(content.get("free_memory"))
        self._dispatcher.pool.free(models=models, results=results)
        return web.Response()

    async def list_jobs(self, request: web.Request) -> web.Response:
        """GET /jobs?status=a,b&limit=&offset=: what waits and runs, then what has ended, newest first."""
        known = {status: state for state, status in STATUS.items()}
        asked = [name for name in request.query.get("status", "").split(",") if name]
        if unknown := [name for name in asked if name not in known]:
            raise bad_request(f"status {', '.join(unknown)}: must be among {', '.join(known)}")
        states = [known[name] for name in asked or known]
        limit, offset = number(request, "limit", None), number(request, "offset", 0) or 0
        limit = None if limit is not None and limit < 0 else limit
        live = [job for job in (*self._jobs.running, *self._jobs.waiting) if job.state in states]
        ended = [state for state in states if state in FINISHED]
        total = len(live) + (await self._jobs.count_finished(ended) if ended else 0)
        shown = live[offset:] if limit is None else live[offset : offset + limit]
        if ended and (limit is None or len(shown) < limit):
            rest = None if limit is None else limit - len(shown)
            skipped = max(0, offset - len(live))
            shown += await self._jobs.finished(states=ended, limit=rest, offset=skipped, newest_first=True)
        more = offset + len(shown) < total
        pagination = {"offset": offset, "limit": limit, "total": total, "has_more": more}
        return web.json_response({"jobs": [self._summary(job) for job in shown], "pagination": pagination})

    async def one_job(self, request: web.Request) -> web.Response:
        job = await self._jobs.get(request.match_info["id"])
        if job is None:
            return refuse(404, "not_found", f"there is no job {request.match_info['id']}")
        history = _history(job)
        return web.json_response(
            {
                **self._summary(job),
                "workflow": {"prompt": job.prompt, "extra_data": _open(job.extra_data)},
                "outputs": job.results,
                "execution_status": history["status"],
                "execution_meta": job.meta,
                "update_time": _milliseconds(job.ended or job.started or job.created),
            }
        )

    def _summary(self, job: Job) -> dict[str, Any]:
        """A job as the newer frontend lists it; of one that has not ended, how long it will about run."""
        if job.is_finished:
            return _summary(job)
        return {**_summary(job), "estimated_seconds": round(self._jobs.estimate(job), 3)}

    async def events(self, request: web.Request) -> web.Response:
        """GET /jobs/{id}/events?after=N: the websocket's messages of a job from number N on, for a client
        that was away; `next` is what to ask for then."""
        job_id, after = request.match_info["id"], number(request, "after", 0) or 0
        job = await self._jobs.get(job_id)
        if job is None:
            return refuse(404, "not_found", f"there is no job {job_id}")
        told = self._dispatcher.told_of(job_id)
        if told is None:
            told = decode(await self._jobs.events(job_id))
        translator = Translator()
        said = [{"type": m.kind, "data": m.data} for event in told for m in translator.messages(event)]
        numbered = [{"number": n, **message} for n, message in enumerate(said) if n >= after]
        return web.json_response({"events": numbered, "next": len(said), "ended": job.is_finished})

    async def cancel_job(self, request: web.Request) -> web.Response:
        job = await self._dispatcher.cancel(request.match_info["id"])
        if job is None:
            return refuse(404, "not_found", f"there is no job {request.match_info['id']}")
        return web.json_response({"id": job.id, "status": STATUS[job.state], "cancelling": job.cancelling})

    async def cancel_jobs(self, request: web.Request) -> web.Response:
        for job_id in _ids(await body(request), "job_ids"):
            await self._dispatcher.cancel(job_id)
        return web.Response()


RAN: tuple[State, ...] = ("done", "failed", "cancelled")


def _ids(content: Mapping[str, Any], name: str) -> list[str]:
    ids = content.get(name) or []
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise bad_request(f"{name} must be a list of ids")
    return ids


def _shown(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _open(extra_data: Mapping[str, Any]) -> dict[str, Any]:
    """Without what only the nodes of the job may see."""
    return {name: value for name, value in extra_data.items() if name not in SECRET}


def _item(job: Job) -> list[Any]:
    return [_shown(job.number), job.id, job.prompt, _open(job.extra_data), job.outputs]


def _history(job: Job) -> dict[str, Any]:
    status = {
        "status_str": "success" if job.state == "done" else "error",
        "completed": job.state == "done",
        "messages": job.messages,
    }
    return {"prompt": _item(job), "outputs": job.results, "status": status, "meta": job.meta}


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _summary(job: Job) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "id": job.id,
        "status": STATUS[job.state],
        "create_time": _milliseconds(job.created),
        "priority": _shown(job.number),
        "outputs_count": sum(
            len(entries)
            for shown in job.results.values()
            for entries in shown.values()
            if isinstance(entries, list)
        ),
    }
    for name, value in (("execution_start_time", job.started), ("execution_end_time", job.ended)):
        if value is not None:
            summary[name] = _milliseconds(value)
    if job.reason:
        summary["reason"] = job.reason
    if preview := _preview_output(job):
        summary["preview_output"] = preview
    if job.state == "failed":
        summary["execution_error"] = _error(job)
    workflow = (job.extra_data.get("extra_pnginfo") or {}).get("workflow") or {}
    if isinstance(workflow, Mapping) and isinstance(workflow.get("id"), str):
        summary["workflow_id"] = workflow["id"]
    return summary


def _preview_output(job: Job) -> dict[str, Any] | None:
    """The last file that a node saved, or else the last preview."""
    found: list[dict[str, Any]] = [
        {**entry, "nodeId": node, "mediaType": media}
        for node, shown in job.results.items()
        for media, entries in shown.items()
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and "filename" in entry
    ]
    saved = [entry for entry in found if entry.get("type") == "output"]
    return (saved or found or [None])[-1]


def _error(job: Job) -> dict[str, Any]:
    error = job.error or {}
    return {
        "node_id": error.get("real_node", ""),
        "node_type": error.get("node_type", ""),
        "exception_message": error.get("exception_message", job.reason),
        "exception_type": error.get("exception_type", "WorkerDied"),
        "traceback": error.get("traceback", []),
    }
