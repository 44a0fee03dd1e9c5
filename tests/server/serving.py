"""A real server process on a host of trivial nodes, and a client that talks to it as ComfyUI's clients do."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

SECONDS = 60  # that anything may take on a busy machine


NODES_FOLDER = Path(__file__).parents[1] / "worker"


class Server:
    """`slipstream serve` in a folder of its own. Start it again and it finds its queue."""

    def __init__(self, folder, *options, host="trivial_host:host"):
        self.folder = folder
        self._options = options
        self._host = host
        self.url = ""

    def start(self):
        path = os.pathsep.join(filter(None, [str(NODES_FOLDER), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "SLIPSTREAM_HOST": self._host, "PYTHONPATH": path}
        command = [sys.executable, "-c", "from slipstream.executor.cli import main; main()", "serve"]
        self._log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(
            [*command, "--port", "0", *self._options],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("Slipstream on http://"), (self.folder / "log").read_text()
        self.url = line.split()[-1].rstrip("/")
        return self

    def wait_until_ready(self, token=None):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            try:
                with urllib.request.urlopen(urllib.request.Request(f"{self.url}/ready", headers=headers)):
                    return self
            except urllib.error.HTTPError:
                time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._log.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(SECONDS)
        self.process.stdout.close()
        self._log.close()


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
