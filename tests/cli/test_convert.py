"""`slipstream convert`."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

PROMPT = {
    "1": {
        "inputs": {"ckpt_name": "shapes"},
        "class_type": "Load",
        "_meta": {"title": "Load Checkpoint"},
    },
    "3": {
        "inputs": {"seed": 5, "steps": 3, "cfg": 4.0, "text": "a star", "pause": 0.0, "model": ["1", 0]},
        "class_type": "Sample",
        "_meta": {"title": "My sampler"},
    },
    "9": {"inputs": {"prefix": "out", "latent": ["3", 0]}, "class_type": "Save", "_meta": {"title": "Save"}},
}


def test_to_stdout_and_to_a_file(slipstream, workflow):
    answer = slipstream("convert", workflow)
    assert answer.exit_code == 0
    assert json.loads(answer.stdout) == PROMPT
    assert slipstream("convert", workflow, "-o", "made/api.json").stdout == ""
    assert json.loads(Path("made/api.json").read_text()) == PROMPT
    assert json.loads(slipstream("convert", "made/api.json").stdout) == PROMPT  # a prompt stays what it is


def test_many_files_go_into_a_folder_and_bad_ones_do_not_stop_the_others(slipstream, workflow, canvas):
    Path("bad.json").write_text("{")
    canvas["links"][0][1] = 77
    Path("dangling.json").write_text(json.dumps(canvas))
    answer = slipstream("convert", "bad.json", "dangling.json", workflow, "--output-dir", "api")
    assert answer.exit_code == 3
    assert "bad.json: not JSON" in answer.stderr
    assert "dangling.json: a link comes from node 77" in answer.stderr
    assert [path.name for path in Path("api").iterdir()] == ["flow.json"]


def test_warns_of_what_was_converted_without_a_definition(slipstream, workflow, canvas):
    canvas["nodes"].append({"id": 4, "type": "Elsewhere", "widgets_values": {"depth": 2}})
    workflow.write_text(json.dumps(canvas))
    answer = slipstream("convert", workflow)
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["4"]["inputs"] == {"depth": 2}
    assert "node 4 (Elsewhere) has no definition here" in answer.stderr


def test_alternatives_are_drawn_by_the_seed(slipstream, workflow, canvas):
    canvas["nodes"][1]["widgets_values"][4] = "{a|b|c|d}"
    workflow.write_text(json.dumps(canvas))

    def text(seed):
        answer = slipstream("convert", workflow, "--seed", seed)
        return json.loads(answer.stdout)["3"]["inputs"]["text"]

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(12)}) == 4


DEFINITIONS = {"Load": {"input": {"required": {"other_name": [["shapes"], {}]}}, "output": ["MODEL"]}}


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/object_info" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(DEFINITIONS).encode())

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_definitions_of_another_server_or_from_a_file(slipstream, workflow, server):
    Path("info.json").write_text(json.dumps(DEFINITIONS))
    for source in (server, f"{server}/", f"{server}/object_info", "info.json"):
        answer = slipstream("convert", workflow, "--object-info", source)
        assert json.loads(answer.stdout)["1"]["inputs"] == {"other_name": "shapes"}, source


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["flow.json", "other.json"], 2, "--output-dir"),
        (["flow.json", "-o", "x.json", "--output-dir", "d"], 2, "exclude each other"),
        (["flow.json", "-o", "flow.json"], 2, "one of the files to convert"),
        (["flow.json", "--output-dir", "."], 2, "one of the files to convert"),
        (["a/x.json", "b/x.json", "--output-dir", "d"], 2, "both be written to d"),
        (["flow.json", "--object-info", "none.json"], 2, "--object-info none.json: cannot be read"),
        (["flow.json", "--object-info", "flow.json"], 2, "not node definitions"),
        (["flow.json", "--object-info", "http://127.0.0.1:9"], 2, "http://127.0.0.1:9: cannot be read"),
        (["none.json"], 3, "none.json: cannot be read"),
        (["flow.json", "-o", "flow.json/x.json"], 1, "cannot be written"),
    ],
)
def test_refusals(slipstream, workflow, arguments, code, message):
    answer = slipstream("convert", *arguments)
    assert answer.exit_code == code
    assert message in answer.stderr
    assert sorted(path.name for path in Path().rglob("*")) == ["flow.json"]
