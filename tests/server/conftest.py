"""Real server processes on a host of trivial nodes."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from serving import SECONDS

WORKER_NODES = Path(__file__).parents[1] / "worker"


class Server:
    """`slipstream serve` in a folder of its own. Start it again and it finds its queue."""

    def __init__(self, folder, *options):
        self.folder = folder
        self._options = options
        self.url = ""

    def start(self):
        environment = {**os.environ, "SLIPSTREAM_HOST": "trivial_host:host", "PYTHONPATH": str(WORKER_NODES)}
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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server")).start().wait_until_ready()
    yield server
    server.stop()


@pytest.fixture
def start_server(tmp_path):
    """`start_server(*options)`: a server of the test's own."""
    started = []

    def start(*options, ready=True):
        server = Server(tmp_path, *options).start()
        started.append(server)
        return server.wait_until_ready() if ready else server

    yield start
    for server in started:
        server.stop()
