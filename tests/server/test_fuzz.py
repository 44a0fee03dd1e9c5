"""Whatever comes in over HTTP is answered, and never with a fault of the server's own."""

import http.client
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

GET = [
    "/prompt",
    "/queue",
    "/history",
    "/history/{}",
    "/jobs",
    "/jobs/{}",
    "/object_info",
    "/object_info/{}",
    "/system_stats",
    "/features",
    "/embeddings",
    "/models",
    "/models/{}",
    "/experiment/models",
    "/experiment/models/{}",
    "/extensions",
    "/internal/folder_paths",
    "/internal/files/{}",
    "/view",
    "/view_metadata/{}",
    "/users",
    "/settings",
    "/settings/{}",
    "/userdata",
    "/userdata/{}",
    "/v2/userdata",
    "/v1/models",
    "/v1/models/{}",
    "/health",
    "/ready",
    "/metrics",
    "/ws",
    "/",
    "/templates/{}",
    "/{}",
]
POST = [
    "/prompt",
    "/queue",
    "/history",
    "/interrupt",
    "/free",
    "/jobs/cancel",
    "/jobs/{}/cancel",
    "/settings",
    "/settings/{}",
    "/upload/image",
    "/upload/mask",
    "/userdata/{}",
    "/userdata/{}/move/{}",
    "/v1/images/generations",
    "/v1/images/edits",
    "/nothing",
]
NAMES = st.one_of(
    st.text(max_size=12),
    st.integers(250, 300).map("x".__mul__),
    st.sampled_from(
        [
            "..",
            "../..",
            "/",
            "a/b",
            "loras",
            "input",
            "x" * 255,
            "x" * 300,
            "\0",
            "%",
            "%2e%2e",
            "shapes",
            "-1",
        ]
    ),
)
KEYS = [
    *("filename", "subfolder", "type", "preview", "channel", "max_items", "offset", "limit", "status", "dir"),
    *("recurse", "split", "full_info", "path", "overwrite", "clientId"),
]
QUERY = st.dictionaries(
    st.sampled_from(KEYS), st.one_of(NAMES, st.sampled_from(["true", "-5", "webp;50", "jpeg;x"])), max_size=4
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NODE = st.fixed_dictionaries(
    {},
    optional={
        "class_type": st.one_of(st.sampled_from(["Steps", "Fails", "Draw"]), JSON),
        "inputs": st.one_of(
            JSON, st.just({"steps": 1, "pause": 0}), st.just({"steps": ["1", 0], "pause": 0})
        ),
        "_meta": JSON,
    },
)
PROMPT = st.one_of(JSON, st.dictionaries(st.sampled_from(["1", "2", "a"]), st.one_of(NODE, JSON), max_size=3))
FIELDS = {
    "prompt": PROMPT,
    "prompt_id": JSON,
    "client_id": JSON,
    "number": JSON,
    "front": JSON,
    "extra_data": JSON,
    "partial_execution_targets": JSON,
    "delete": JSON,
    "clear": JSON,
    "job_ids": JSON,
    "unload_models": JSON,
    "model": st.one_of(JSON, st.just("hello")),
    "n": JSON,
    "size": JSON,
    "seed": JSON,
}
BODY = st.one_of(
    st.binary(max_size=60),
    st.fixed_dictionaries({}, optional=FIELDS).map(lambda content: json.dumps(content).encode()),
    JSON.map(lambda content: json.dumps(content).encode()),
)
TYPES = ["application/json", "text/plain", "multipart/form-data; boundary=x", "multipart/form-data", "x"]
FORM = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n--x--\r\n'


@pytest.fixture(scope="module")
def connection(server):
    """Kept open from one request to the next, as long as the server does."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    yield connection
    connection.close()


def ask(connection, method, path, query, body=None, headers=None):
    text = "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in query.items())
    try:
        connection.request(method, f"{path}?{text}", body, headers or {})
        answer = connection.getresponse()
        answer.read()
    except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):  # after what is no HTTP
        connection.close()
        return
    assert answer.status < 500, (method, path, query, body, answer.status)


def filled(path, names):
    for name in names:
        path = path.replace("{}", quote(name, safe=""), 1)
    return path.replace("{}", "x")


BUSY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@BUSY
@given(
    path=st.sampled_from(GET), names=st.lists(NAMES, min_size=2, max_size=2), query=QUERY, api=st.booleans()
)
def test_gets(connection, path, names, query, api):
    ask(connection, "GET", ("/api" if api else "") + filled(path, names), query)


@BUSY
@given(
    path=st.sampled_from(POST),
    names=st.lists(NAMES, min_size=2, max_size=2),
    query=QUERY,
    body=BODY,
    kind=st.sampled_from(TYPES),
)
def test_posts(connection, path, names, query, body, kind):
    ask(connection, "POST", filled(path, names), query, body, {"Content-Type": kind})


@BUSY
@given(
    path=st.sampled_from(["/upload/image", "/upload/mask", "/v1/images/edits"]),
    field=st.sampled_from([b"image", b"type", b"subfolder", b"original_ref", b"prompt", b""]),
    name=st.one_of(st.binary(max_size=10), st.sampled_from([b"a.png", b"../x", b"/etc/x", b"x.svg"])),
    content=st.binary(max_size=60),
)
def test_forms(connection, path, field, name, content):
    ask(
        connection,
        "POST",
        path,
        {},
        FORM % (field, name, content),
        {"Content-Type": "multipart/form-data; boundary=x"},
    )


def test_the_server_is_still_well(connection, server):
    ask(connection, "GET", "/ready", {})
    assert "Traceback" not in (server.folder / "log").read_text()
