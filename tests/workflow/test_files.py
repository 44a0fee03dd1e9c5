"""Files of JSON: canvas, prompt, envelope. Files of other kinds are in test_embedded.py."""

import json
import os
import threading

import pytest
from slipstream.executor.workflow import files, json_text
from slipstream.executor.workflow.errors import WorkflowError

PROMPT = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "x.png"}, "is_changed": ["2a88"]},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "cap/y"}},
}
CLEAN = {key: {"class_type": node["class_type"], "inputs": node["inputs"]} for key, node in PROMPT.items()}
CANVAS = {
    "nodes": [{"id": 1, "type": "SaveImage", "widgets_values": ["x"]}],
    "links": [],
    "extra": {
        "slipstream": {"parameters": {"name": {"node": 1, "input": "filename_prefix", "description": "d"}}}
    },
}


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_prompt_file(tmp_path):
    file = files.read(write(tmp_path / "a.json", PROMPT))
    assert file.prompt == CLEAN
    assert file.canvas is None


def test_canvas_file_with_parameters(tmp_path):
    file = files.read(write(tmp_path / "a.json", CANVAS))
    assert file.prompt is None
    assert file.canvas == CANVAS
    parameter = file.parameters["name"]
    assert (parameter.node, parameter.input, parameter.description) == ("1", "filename_prefix", "d")


def test_envelope_as_posted_to_the_server(tmp_path):
    posted = {"prompt": PROMPT, "client_id": "c", "extra_data": {"extra_pnginfo": {"workflow": CANVAS}}}
    file = files.read(write(tmp_path / "a.json", posted))
    assert file.prompt == CLEAN
    assert file.canvas == CANVAS
    assert set(file.parameters) == {"name"}


def test_prompt_and_canvas_side_by_side_or_a_canvas_alone_in_an_envelope():
    both = files.parse({"prompt": PROMPT, "workflow": CANVAS})
    assert (both.prompt, both.canvas) == (CLEAN, CANVAS)
    alone = files.parse({"workflow": CANVAS, "output": "x"})
    assert (alone.prompt, alone.canvas, set(alone.parameters)) == (None, CANVAS, {"name"})


def test_envelope_with_parameters_of_its_own():
    extra = {"slipstream": {"parameters": {"out": {"node": "2", "input": "filename_prefix"}}}}
    assert set(files.parse({"prompt": PROMPT, "extra": extra}).parameters) == {"out"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings(tmp_path, encoding):
    """With a byte order mark for -sig, utf-16 and utf-32, without one for the others."""
    canvas = {"nodes": [], "links": [], "extra": {"title": "é €"}}
    (tmp_path / "a.json").write_bytes(json.dumps(canvas, ensure_ascii=False).encode(encoding))
    assert files.read(tmp_path / "a.json").canvas == canvas


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_json_does_not_have_are_null(tmp_path, number):
    """As in ComfyUI's frontend; texts of the same look are left alone."""
    text = '{"1": {"class_type": "A", "inputs": {"x": #, "y": ["#", 1.5, 3]}}}'.replace("#", number)
    file = files.read(write(tmp_path / "a.json", text))
    assert file.prompt["1"]["inputs"] == {"x": None, "y": [number, 1.5, 3]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at line 1 column 2$"),
        ('{"1": {\n "class_type": "A', "not JSON: Unterminated string at line 2 column 16$"),
        ("{}{}", "not JSON: Extra data at line 1 column 3$"),
        ("hello", "not JSON: Expecting value at line 1 column 1$"),
        ("[" * 100_000, "not read: JSON nested more than 200 levels deep$"),
        ('{"1": ' + "[" * 300 + "]" * 300 + "}", "not read: JSON nested more than 200 levels deep$"),
        ("9" * 5000, "not JSON: "),
        ("3", "an object is needed, this is a number"),
        ("[1, 2]", "an object is needed, this is a list"),
        ("{}", "neither a canvas"),
        ('{"a": 1}', 'entry "a" has no class_type'),
        ({"nodes": [], "extra": {"slipstream": {"parameters": {"p": {"input": "x"}}}}}, 'parameter "p"'),
        ({"nodes": [], "extra": {"slipstream": {"parameters": [1]}}}, "must be an object"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, content, message):
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(WorkflowError, match=message) as error:
        files.read(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
    ],
)
def test_no_file_to_read(tmp_path, make, message):
    make(tmp_path / "a.json")
    with pytest.raises(WorkflowError) as error:
        files.read(tmp_path / "a.json")
    assert str(error.value) == f"{tmp_path / 'a.json'}: {message}"


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(tmp_path), "open", refuse)
    with pytest.raises(WorkflowError) as error:
        files.read(tmp_path / "a.json")
    assert str(error.value) == f"{tmp_path / 'a.json'}: cannot be read: Permission denied"


def test_text_above_the_limit_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "a.json", PROMPT)
    monkeypatch.setattr(json_text, "LIMIT", path.stat().st_size)
    assert files.read(path).prompt == CLEAN
    monkeypatch.setattr(json_text, "LIMIT", path.stat().st_size - 1)
    with pytest.raises(WorkflowError, match=r"a\.json: not read: more than \d+ MB of text$"):
        files.read(path)


def test_a_pipe(tmp_path):
    """It cannot be gone back in, as pictures need; text does not need it."""
    os.mkfifo(tmp_path / "pipe")
    for data in (json.dumps(PROMPT).encode(), b"\x89PNG\r\n\x1a\n"):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[data])
        writer.start()
        if data.startswith(b"{"):
            assert files.read(tmp_path / "pipe").prompt == CLEAN
        else:
            with pytest.raises(WorkflowError, match="cannot be read"):
                files.read(tmp_path / "pipe")
        writer.join()
