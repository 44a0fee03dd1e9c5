"""Every kind of file a workflow comes in. The PNG texts are those that ComfyUI writes."""

import json

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from slipstream.executor.workflow import files
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


def test_envelope_with_parameters_of_its_own():
    extra = {"slipstream": {"parameters": {"out": {"node": "2", "input": "filename_prefix"}}}}
    assert set(files.parse({"prompt": PROMPT, "extra": extra}).parameters) == {"out"}


def test_png_as_comfyui_saves_it(tmp_path):
    info = PngInfo()
    info.add_text("prompt", json.dumps(PROMPT))
    info.add_text("workflow", json.dumps(CANVAS))
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png", pnginfo=info)
    file = files.read(tmp_path / "a.png")
    assert file.prompt == CLEAN
    assert file.canvas == CANVAS


def test_animated_png_keeps_them_after_the_pixels(tmp_path):
    info = PngInfo()
    for key, value in (("prompt", PROMPT), ("workflow", {"id": "wf1"})):
        info.add(
            b"comf", key.encode("latin-1") + b"\0" + json.dumps(value).encode("latin-1"), after_idat=True
        )
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "a.png", pnginfo=info, save_all=True, append_images=frames[1:])
    file = files.read(tmp_path / "a.png")
    assert file.prompt == CLEAN
    assert file.canvas is None  # {"id": "wf1"} is no canvas


def test_webp_keeps_them_in_exif(tmp_path):
    exif = Image.Exif()
    exif[0x0110] = "prompt:" + json.dumps(PROMPT)
    exif[0x010F] = "workflow:" + json.dumps(CANVAS)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.webp", exif=exif)
    file = files.read(tmp_path / "a.webp")
    assert file.prompt == CLEAN
    assert file.canvas == CANVAS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
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


def test_missing_file_picture_without_workflow_and_no_picture(tmp_path):
    with pytest.raises(WorkflowError, match="No such file"):
        files.read(tmp_path / "none.json")
    Image.new("RGB", (8, 8)).save(tmp_path / "plain.png")
    with pytest.raises(WorkflowError, match="carries no workflow"):
        files.read(tmp_path / "plain.png")
    (tmp_path / "fake.png").write_bytes(b"hello")
    with pytest.raises(WorkflowError, match="cannot be read as a picture"):
        files.read(tmp_path / "fake.png")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(WorkflowError, match="neither JSON text nor"):
        files.read(tmp_path / "binary.json")
