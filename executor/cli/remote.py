"""A server that speaks ComfyUI's API: Slipstream's own or ComfyUI itself."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from .errors import Failure, UsageFailure

DEFAULT = "http://127.0.0.1:8188"
ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.5
BLOCK = 1 << 20

_OPTIONS = (
    click.option(
        "--server",
        default=DEFAULT,
        envvar="SLIPSTREAM_SERVER",
        show_default=True,
        metavar="URL",
        help="Where the server is: Slipstream's, or ComfyUI itself.",
    ),
    click.option(
        "--token", envvar="SLIPSTREAM_TOKEN", metavar="TOKEN", help="What the server wants to know."
    ),
)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --server and --token."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Remote:
    """Raises Failure for what goes wrong on the way, and for answers that are refusals."""

    def __init__(self, session: Any, url: str):
        self._session = session
        self.url = url
        self.client_id = uuid.uuid4().hex

    async def object_info(self) -> dict[str, Any]:
        return await self.ask("GET", "/object_info")

    async def ask(self, method: str, path: str, *, accept: tuple[int, ...] = (), **options: Any) -> Any:
        """The decoded JSON of an answer; of one whose status is in `accept`, the status."""
        import aiohttp

        try:
            async with self._session.request(method, self.url + path, **options) as answer:
                if answer.status in accept:
                    return answer.status
                text = await answer.text()
                if answer.status >= 400:
                    raise Failure(f"{self.url}{path}: {_refusal(answer.status, text)}")
                return json.loads(text) if text.strip() else None
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise Failure(f"{self.url}: no answer: {error or 'it took too long'}") from error
        except ValueError as error:
            raise Failure(f"{self.url}{path}: not JSON: {error}") from error

    async def submit(self, prompt: dict[str, Any], extra_data: dict[str, Any], *, front: bool) -> str:
        content = {"prompt": prompt, "extra_data": extra_data, "client_id": self.client_id}
        answer = await self.ask("POST", "/prompt", json={**content, "front": True} if front else content)
        return str(answer["prompt_id"])

    async def upload(self, path: Path) -> str:
        """The name under which nodes find the file."""
        import aiohttp

        form = aiohttp.FormData(quote_fields=False)
        with path.open("rb") as file:
            form.add_field("image", file, filename=path.name)
            answer = await self.ask("POST", "/upload/image", data=form)
        name, subfolder = answer["name"], answer.get("subfolder") or ""
        return f"{subfolder}/{name}" if subfolder else name

    async def end(self, prompt_id: str) -> dict[str, Any]:
        """The job's entry in the history, once it has ended. Raises Failure where the server knows no such
        job any more."""
        while True:
            entry = (await self.ask("GET", f"/history/{prompt_id}")).get(prompt_id)
            if entry is not None:
                return entry
            queue = await self.ask("GET", "/queue")
            known = {item[1] for items in queue.values() for item in items}
            if prompt_id not in known:
                entry = (await self.ask("GET", f"/history/{prompt_id}")).get(prompt_id)
                if entry is None:
                    raise Failure(f"{self.url} does not know the job {prompt_id} any more")
                return entry
            await asyncio.sleep(POLL_SECONDS)

    async def download(self, reference: dict[str, str], folder: Path) -> Path:
        """Keep a file that a job has made, under its own name."""
        name = Path(reference["filename"].replace("\\", "/")).name
        query = urlencode({key: reference.get(key, "") for key in ("filename", "subfolder", "type")})
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{name}.partial"
        async with self._session.get(f"{self.url}/view?{query}") as answer:
            if answer.status != 200:
                raise Failure(f"{self.url}: {name} cannot be had: status {answer.status}")
            with temporary.open("wb") as file:
                async for block in answer.content.iter_chunked(BLOCK):
                    file.write(block)
        temporary.replace(folder / name)
        return folder / name

    async def cancel(self, prompt_id: str) -> None:
        """By id, whether it waits or runs; older servers have two routes for it."""
        status = await self.ask("POST", f"/api/jobs/{prompt_id}/cancel", accept=(404, 405))
        if status in (404, 405):
            await self.ask("POST", "/queue", json={"delete": [prompt_id]})
            await self.ask("POST", "/interrupt", json={"prompt_id": prompt_id})


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncIterator[Remote]:
    import aiohttp

    if not url.startswith(("http://", "https://")):
        raise UsageFailure(f"--server {url}: must begin with http:// or https://")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=ANSWER_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield Remote(session, url.rstrip("/"))


def _refusal(status: int, text: str) -> str:
    """The reason in an answer of ComfyUI's kind, with one line for each input that is wrong."""
    try:
        content = json.loads(text)
        error = content["error"]
        said = " ".join(part for part in (error["message"], error.get("details") or "") if part)
        lines = [
            f"node {node_id} ({node['class_type']}): {one['message']} ({one['details']})"
            for node_id, node in (content.get("node_errors") or {}).items()
            for one in node["errors"]
        ]
        return "\n  ".join([said, *lines])
    except (ValueError, KeyError, TypeError):
        return f"status {status}: {text.strip()[:300]}"
