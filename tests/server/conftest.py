"""Real server processes on a host of trivial nodes."""

import pytest
from serving import Server


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
