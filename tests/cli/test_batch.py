"""`run --batch`, and files given to inputs."""

import json
from pathlib import Path

import pytest
from slipstream.executor.hosts import bundled


def runs(answer):
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_run_for_each_row_of_a_csv(slipstream, workflow):
    table = '\ufeffprompt,My sampler.steps,seed\n"a, ""b""",1,100\ntwo,,\n\n"three\nlines",2,7\n'
    Path("t.csv").write_text(table)
    answer = slipstream("run", workflow, "--batch", "t.csv", "--set", "steps=5", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert [run["texts"][0]["text"] for run in runs(answer)] == ['a, "b" 100', "two 5", "three\nlines 7"]
    assert [run["row"] for run in runs(answer)] == ["t.csv, line 2", "t.csv, line 3", "t.csv, line 6"]
    assert [run["status"] for run in runs(answer)] == ["success"] * 3


def test_a_run_for_each_line_of_jsonl_times_the_count(slipstream, workflow):
    Path("t.jsonl").write_text('{"prompt": "one", "cfg": 2, "seed": 10}\n\n{"prompt": null, "seed": 20}\n')
    answer = slipstream("run", workflow, "--batch", "t.jsonl", "--count", "2", "--json")
    assert [run["texts"][0]["text"] for run in runs(answer)] == ["one 10", "one 11", "a star 20", "a star 21"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", "", "a .csv or .jsonl file is needed"),
        ("none.csv", None, "none.csv: cannot be read: No such file"),
        ("t.csv", "prompt\n", "t.csv: no rows"),
        ("t.csv", "", "t.csv, line 1: every column needs a name of its own"),
        ("t.csv", "a,a\n1,2\n", "t.csv, line 1: every column needs a name of its own"),
        ("t.csv", "prompt\na,b\n", "t.csv, line 2: 2 cells under 1 names"),
        ("t.csv", 'prompt\n"a" b\n', "t.csv, line 2"),
        ("t.csv", b"prompt\n\xff\n", "not UTF-8"),
        ("t.csv", "prompt,3.steps\na,1\nb,many\n", "(t.csv, line 3): steps takes a whole number, not 'many'"),
        ("t.csv", "promt\na\n", "did you mean prompt?"),
        ("t.jsonl", '{"prompt": "a"}\n{\n', "t.jsonl, line 2: not JSON"),
        ("t.jsonl", "[1]\n", "t.jsonl, line 1: an object is needed"),
    ],
)
def test_a_bad_table_runs_nothing_and_names_the_line(slipstream, workflow, name, content, message):
    if content is not None:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = slipstream("run", workflow, "--batch", name)
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert not Path("output").exists()


def test_keep_going_runs_what_can_and_tells(slipstream, workflow):
    Path("t.csv").write_text("cfg\n60\n4\n")
    assert slipstream("run", workflow, "--batch", "t.csv").exit_code == 5
    assert not Path("output").exists()
    answer = slipstream("run", workflow, "--batch", "t.csv", "--keep-going")
    assert answer.exit_code == 5
    assert "failed: ValueError: cfg is too much" in answer.stderr
    assert "1 of 2 runs failed" in answer.stderr
    assert len(list(Path("output").iterdir())) == 1


class Show:
    """Shows which file it was given."""

    CATEGORY, FUNCTION, RETURN_TYPES, OUTPUT_NODE = "image", "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": (["a.png"], {"image_upload": True})}}

    @classmethod
    def VALIDATE_INPUTS(cls, image):
        return True

    def run(self, image):
        return {"ui": {"text": [image]}}


@pytest.fixture
def picture_flow(slipstream, monkeypatch):
    monkeypatch.setattr(bundled.host, "nodes", {**bundled.host.nodes, "Show": Show})
    Path("show.json").write_text(json.dumps({"1": {"class_type": "Show", "inputs": {"image": "a.png"}}}))
    return "show.json"


def test_a_file_given_to_an_input_is_copied_to_where_nodes_look(slipstream, picture_flow):
    Path("mine").mkdir()
    Path("mine/photo.png").write_bytes(b"one")

    def shown(value):
        answer = slipstream("run", picture_flow, "--set", f"image={value}")
        assert answer.exit_code == 0, answer.stderr
        return answer.stdout.strip()

    assert shown("mine/photo.png") == "photo.png"
    assert shown("mine/photo.png") == "photo.png"  # the same content
    assert Path("input/photo.png").read_bytes() == b"one"
    Path("mine/photo.png").write_bytes(b"two")
    assert shown("mine/photo.png") == "photo (1).png"
    assert Path("input/photo.png").read_bytes() == b"one"
    assert Path("input/photo (1).png").read_bytes() == b"two"
    assert shown("input/photo.png") == "photo.png"
    assert shown("not here.png") == "not here.png"
    assert shown("x" * 300) == "x" * 300  # no name that a file could have
    assert sorted(path.name for path in Path("input").iterdir()) == ["photo (1).png", "photo.png"]
