"""The workflow files that come with the project: sound as canvas files, and they run."""

import json
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from slipstream.executor.cli import cli
from slipstream.executor.hosts import bundled
from slipstream.executor.models import folders
from slipstream.executor.workflow import files
from slipstream.executor.workflow.prompt import is_link
from slipstream.executor.workflow.schema import inputs

SHIPPED = sorted((Path(__file__).parents[1] / "workflows").glob("*.json"))
SIZES = {"upscale": (192, 192)}  # the others are as large as the model's own pictures
TITLE_HEIGHT = 30  # of a node on the canvas, above its position

pytestmark = pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def schema():
    return bundled.host().object_info()


def test_every_input_is_there_and_every_parameter_can_be_set(path, schema):
    file = files.read(path)
    conversion = file.to_prompt(schema)
    for node in conversion.prompt.values():
        required = [spec.name for spec in inputs(schema[node["class_type"]]) if spec.required]
        assert [name for name in required if name not in node["inputs"]] == []
        linked = [value[0] for value in node["inputs"].values() if is_link(value)]
        assert set(linked) <= set(conversion.prompt)
    assert {"negative_prompt", "seed"} <= set(file.parameters)
    for parameter in file.parameters.values():
        assert (parameter.node, parameter.input) in conversion.places
        assert parameter.description


def test_the_canvas_is_tidy(path):
    """Links agree at both ends, no node covers another one, every node lies in a group."""
    canvas = json.loads(path.read_text())
    nodes = {node["id"]: node for node in canvas["nodes"]}
    for link, origin, output, target, slot, kind in canvas["links"]:
        assert nodes[target]["inputs"][slot]["link"] == link
        assert link in nodes[origin]["outputs"][output]["links"]
        assert nodes[origin]["outputs"][output]["type"] == nodes[target]["inputs"][slot]["type"] == kind
    boxes = {
        key: (x, y - TITLE_HEIGHT, x + width, y + height)
        for key, node in nodes.items()
        for (x, y), (width, height) in [(node["pos"], node["size"])]
    }
    for (_, a), (_, b) in combinations(boxes.items(), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    groups = [group["bounding"] for group in canvas["groups"]]
    for left, top, right, bottom in boxes.values():
        assert any(
            x <= left and y <= top and right <= x + width and bottom <= y + height
            for x, y, width, height in groups
        ), (left, top, right, bottom)


@pytest.mark.slow
def test_it_runs(path, schema, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = folders.current()
    prompt = files.read(path).to_prompt(schema).prompt
    quick = [f"{node_id}.steps=2" for node_id, node in prompt.items() if "steps" in node["inputs"]]
    try:
        answer = CliRunner().invoke(
            cli, ["run", str(path), "--json", *(word for setting in quick for word in ("--set", setting))]
        )
    finally:
        folders.use(before)
    assert answer.exit_code == 0, answer.stderr
    saved = [Path(entry["path"]) for entry in json.loads(answer.stdout)["outputs"]]
    (picture,) = [file for file in saved if file.parent == tmp_path / "output"]
    assert Image.open(picture).size == SIZES.get(path.stem, (128, 128))
