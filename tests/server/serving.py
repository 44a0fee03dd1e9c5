"""A client that talks to a server as ComfyUI's clients do, and prompts for trivial nodes."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp

SECONDS = 60  # that anything may take on a busy machine


class Client:
    """Talks to a server as ComfyUI's clients do. `heard` are its websocket's messages."""

    def __init__(self, session, url, client_id):
        self.session = session
        self.url = url
        self.id = client_id
        self.heard = []

    async def get(self, path, status=200, **options):
        async with self.session.get(self.url + path, **options) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json() if answer.content_type == "application/json" else await answer.read()

    async def post(self, path, content=None, status=200, **options):
        if content is not None:
            options["json"] = content
        async with self.session.post(self.url + path, **options) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return json.loads(text) if answer.content_type == "application/json" else text

    async def submit(self, prompt, status=200, **rest):
        content = {"prompt": prompt, "client_id": self.id, **rest}
        return await self.post("/prompt", content, status)

    async def ended(self, prompt_id):
        """The job's entry in the history, once it is there."""

        async def wait():
            while not (entry := (await self.get(f"/history/{prompt_id}")).get(prompt_id)):
                await asyncio.sleep(0.02)
            return entry

        return await asyncio.wait_for(wait(), SECONDS)

    async def listen(self, until):
        """Take in messages up to the one that `until(kind, data)` holds for."""

        async def wait():
            async for message in self.socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    self.heard.append(("binary", message.data))
                    continue
                content = json.loads(message.data)
                self.heard.append((content["type"], content["data"]))
                if until(content["type"], content["data"]):
                    return
            raise AssertionError("the connection ended")

        await asyncio.wait_for(wait(), SECONDS)

    async def listen_to_the_end_of(self, prompt_id):
        await self.listen(
            lambda kind, data: kind == "executing" and data == {"node": None, "prompt_id": prompt_id}
        )


@asynccontextmanager
async def connected(url, client_id="me", flags=None, **options):
    async with aiohttp.ClientSession(**options) as session:
        client = Client(session, url, client_id)
        async with session.ws_connect(f"{url}/ws?clientId={client_id}") as client.socket:
            if flags is not None:
                await client.socket.send_json({"type": "feature_flags", "data": flags})
            yield client


def steps(steps=2, pause=0.0, node="1"):
    return {node: {"class_type": "Steps", "inputs": {"steps": steps, "pause": pause}}}


def one_node(kind, **inputs):
    return {"1": {"class_type": kind, "inputs": inputs}}
