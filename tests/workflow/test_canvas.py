"""Canvas files against the prompts that ComfyUI's own frontend makes of them."""

import json
from pathlib import Path

import pytest
from slipstream.executor.workflow.canvas import convert
from slipstream.executor.workflow.errors import WorkflowError

PAIRS = Path(__file__).parents[1] / "data" / "pairs"
NAMES = sorted(json.loads((PAIRS / "index.json").read_text()))
SCHEMA = json.loads((PAIRS / "object_info.json").read_text())
PATCH = {
    "input": {"required": {"model": ["MODEL"], "cfg": ["FLOAT", {"default": 8.0}]}},
    "output": ["MODEL"],
}


def load(name):
    return json.loads((PAIRS / name).read_text())


def javascript_numbers(value):
    """JavaScript writes 1.0 as 1; True must stay apart from 1."""
    if isinstance(value, dict):
        return {key: javascript_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [javascript_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def content(prompt):
    return json.dumps(
        {key: (node["class_type"], javascript_numbers(node["inputs"])) for key, node in prompt.items()},
        sort_keys=True,
    )


@pytest.mark.parametrize("name", NAMES)
def test_pair(name):
    converted = convert(load(f"{name}.ui.json"), SCHEMA).prompt
    assert content(converted) == content(load(f"{name}.api.json"))


def node(node_id, kind, *, inputs=(), outputs=("MODEL",), mode=0, values=None):
    """`inputs`: (name, type, link id or None)."""
    return {
        "id": node_id,
        "type": kind,
        "mode": mode,
        "inputs": [{"name": name, "type": type_, "link": link} for name, type_, link in inputs],
        "outputs": [{"name": type_, "type": type_} for type_ in outputs],
        "widgets_values": values,
    }


def canvas(nodes, links, **more):
    return {"nodes": nodes, "links": links, **more}


SMALL = {
    "Load": {"input": {"required": {"name": [["a", "b"]]}}, "output": ["MODEL"]},
    "Patch": PATCH,
    "Use": {"input": {"required": {"model": ["MODEL"], "seed": ["INT", {"default": 7}], "text": ["STRING"]}}},
}


def test_links_may_be_objects_and_reroutes_chain():
    nodes = [
        node(1, "Load", values=["b"]),
        node(2, "Reroute", inputs=[("", "*", 1)], outputs=["*"]),
        node(3, "Reroute", inputs=[("", "*", 2)], outputs=["*"]),
        node(4, "Use", inputs=[("model", "MODEL", 3)], values=[1, "fixed", "x"]),
    ]
    links = [
        {
            "id": number,
            "origin_id": number,
            "origin_slot": 0,
            "target_id": number + 1,
            "target_slot": 0,
            "type": "*",
        }
        for number in (1, 2, 3)
    ]
    prompt = convert(canvas(nodes, links), SMALL).prompt
    assert prompt["4"]["inputs"] == {"model": ["1", 0], "seed": 1, "text": "x"}
    assert set(prompt) == {"1", "4"}


@pytest.mark.parametrize(("mode", "model"), [(0, ["2", 0]), (4, ["1", 0]), (2, None)])
def test_active_bypassed_and_muted(mode, model):
    nodes = [
        node(1, "Load", values=["a"]),
        node(2, "Patch", inputs=[("model", "MODEL", 1)], mode=mode, values=[4.0]),
        node(3, "Use", inputs=[("model", "MODEL", 2)], values=[1, "fixed", "x"]),
    ]
    prompt = convert(canvas(nodes, [[1, 1, 0, 2, 0, "MODEL"], [2, 2, 0, 3, 0, "MODEL"]]), SMALL).prompt
    assert prompt["3"]["inputs"].get("model") == model


def test_values_that_the_file_lacks_are_the_defaults():
    prompt = convert(canvas([node(1, "Use")], []), SMALL).prompt
    assert prompt["1"]["inputs"] == {"seed": 7, "text": ""}


def test_values_by_name_and_list_values():
    prompt = convert(canvas([node(1, "Use", values={"text": [1, 2], "seed": 3})], []), SMALL).prompt
    assert prompt["1"]["inputs"] == {"seed": 3, "text": {"__value__": [1, 2]}}


def test_a_primitive_node_hands_over_its_value():
    nodes = [
        node(1, "PrimitiveNode", outputs=["STRING"], values=["from the primitive", "fixed"]),
        node(2, "Use", inputs=[("text", "STRING", 1)], values=[1, "fixed", "stale"]),
    ]
    conversion = convert(canvas(nodes, [[1, 1, 0, 2, 1, "STRING"]]), SMALL)
    assert conversion.prompt["2"]["inputs"]["text"] == "from the primitive"
    assert conversion.places["2", "text"].node == "1"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("a-uuid", 'cannot be converted yet: node 5 is the subgraph "Upscale"'),
        ("workflow>Pair", 'cannot be converted yet: node 5 is the group node "Pair"'),
        ("Nobody", "cannot be converted: node types that are not known here: Nobody (node 5)"),
        ("Grow", "cannot be converted yet: node 5 (Grow) has the input images of the type COMFY_AUTOGROW_V3"),
    ],
)
def test_refusals_name_the_node(kind, message):
    schema = {**SMALL, "Grow": {"input": {"required": {"images": ["COMFY_AUTOGROW_V3", {}]}}}}
    definitions = {"subgraphs": [{"id": "a-uuid", "name": "Upscale"}]}
    with pytest.raises(WorkflowError) as error:
        convert(canvas([node(5, kind)], [], definitions=definitions), schema)
    assert str(error.value) == message


def test_an_unconvertible_node_that_does_not_run_is_no_obstacle():
    assert (
        convert(canvas([node(5, "workflow>Pair", mode=2), node(6, "Nobody", mode=4)], []), SMALL).prompt == {}
    )


@pytest.mark.parametrize("nodes", [[{"type": "Load"}], [{"id": 1}], ["text"]])
def test_a_damaged_canvas_is_refused(nodes):
    with pytest.raises(WorkflowError, match="not a canvas file"):
        convert(canvas(nodes, []), SMALL)
