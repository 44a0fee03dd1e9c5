"""The websockets of connected clients, by client id."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType, web

from ..graph.events import NodeProgress
from .messages import Message, preview

log = logging.getLogger(__name__)

WAITING_MESSAGES = 2000  # for one client; who is further behind is disconnected, and may come back
ALIVE_SECONDS = 30.0  # between pings
STATUS_SECONDS = 0.05  # after which clients hear how the queue stands, where the jobs are those of others


class Client:
    """One websocket. Messages wait in a queue, so that a slow client holds up nobody else."""

    def __init__(self, client_id: str, socket: web.WebSocketResponse):
        self.id = client_id
        self.wants_metadata = False
        self._socket = socket
        self._queue: asyncio.Queue[str | bytes | None] = asyncio.Queue(WAITING_MESSAGES)

    def send(self, content: str | bytes) -> None:
        """A preview is left out where too much waits; of the rest nothing may be lost."""
        if self._queue.full():
            if isinstance(content, bytes):
                return
            log.warning("client %s is too slow: disconnected", self.id)
            self._queue.get_nowait()
            content = ""
        self._queue.put_nowait(content or None)

    async def write(self) -> None:
        while (content := await self._queue.get()) is not None:
            if isinstance(content, bytes):
                await self._socket.send_bytes(content)
            else:
                await self._socket.send_str(content)
        await self._socket.close()


class Hub:
    """`greet(client)` sends what a client hears first; `flags` are the server's."""

    def __init__(self, greet: Callable[[Client], None], flags: dict[str, Any]):
        self._greet = greet
        self._flags = flags
        self._clients: dict[str, Client] = {}
        self._behind: set[Client] = set()  # those that have not heard the last status
        self._status = ""
        self._catching_up: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._clients)

    def send(self, message: Message, client: str | None) -> None:
        """To one client; where nobody asked for the run, to all if it is for all."""
        if client:
            if client in self._clients:
                self._clients[client].send(message.text())
        elif message.for_all:
            self.send_all(message)

    def send_all(self, message: Message) -> None:
        text = message.text()
        for client in list(self._clients.values()):
            client.send(text)

    def send_status(self, message: Message, client: str | None) -> None:
        """At once to the client whose job changed it. The others hear of several changes together: with many
        clients and short jobs, telling each of each would be most of a server's work."""
        if not client:
            self.send_all(message)
            self._behind.clear()
            return
        self._status = message.text()
        self._behind = set(self._clients.values())
        if client in self._clients:
            self._behind.discard(self._clients[client])
            self._clients[client].send(self._status)
        if self._behind and self._catching_up is None:
            self._catching_up = asyncio.get_running_loop().call_later(STATUS_SECONDS, self._catch_up)

    def _catch_up(self) -> None:
        self._catching_up = None
        for client in self._behind.intersection(self._clients.values()):
            client.send(self._status)
        self._behind.clear()

    def wants_metadata(self, client: str) -> bool:
        return client in self._clients and self._clients[client].wants_metadata

    def send_preview(self, event: NodeProgress, image: bytes, client: str | None) -> None:
        chosen = [self._clients[client]] if client in self._clients else []
        for each in list(self._clients.values()) if not client else chosen:
            each.send(preview(event, image, with_metadata=each.wants_metadata))

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """GET /ws: until the client leaves. A client that comes back under its id takes the place of what
        may be left of its old connection."""
        socket = web.WebSocketResponse(heartbeat=ALIVE_SECONDS, max_msg_size=1 << 20)
        await socket.prepare(request)
        client = Client(request.query.get("clientId") or uuid.uuid4().hex, socket)
        self._clients[client.id] = client
        self._greet(client)
        writer = asyncio.create_task(client.write())
        try:
            await self._listen(socket, client)
        finally:
            if self._clients.get(client.id) is client:
                del self._clients[client.id]
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return socket

    async def _listen(self, socket: web.WebSocketResponse, client: Client) -> None:
        """All that clients say is what they can do, in their first message."""
        first = True
        async for message in socket:
            if (
                message.type is WSMsgType.TEXT
                and first
                and (flags := _feature_flags(message.data)) is not None
            ):
                client.wants_metadata = flags.get("supports_preview_metadata") is True
                client.send(Message("feature_flags", self._flags).text())
            first = False

    async def close(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
        for client in list(self._clients.values()):
            client.send("")


def _feature_flags(text: str) -> dict[str, Any] | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("type") != "feature_flags":
        return None
    return content["data"] if isinstance(content.get("data"), dict) else None
