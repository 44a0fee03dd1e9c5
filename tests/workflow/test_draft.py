import pytest
from slipstream.executor.workflow import files
from slipstream.executor.workflow.draft import Draft
from slipstream.executor.workflow.errors import SettingError

SCHEMA = {
    "Text": {"input": {"required": {"text": ["STRING"]}}, "output": ["COND"]},
    "Sample": {
        "input": {
            "required": {
                "cond": ["COND"],
                "seed": ["INT", {"default": 0, "control_after_generate": True}],
                "cfg": ["FLOAT", {"default": 1.0}],
                "name": [["euler", "Heun", 3]],
            },
            "optional": {"tiled": ["BOOLEAN", {"default": False}]},
        },
        "output": ["LATENT"],
    },
}
CANVAS = {
    "nodes": [
        {"id": 1, "type": "Text", "title": "v1.5 prompt", "widgets_values": ["old"], "inputs": []},
        {"id": 2, "type": "Text", "widgets_values": ["no"], "inputs": []},
        {
            "id": 3,
            "type": "Sample",
            "widgets_values": [5, "randomize", 4.0, "euler"],
            "inputs": [{"name": "cond", "type": "COND", "link": 1}],
        },
    ],
    "links": [[1, 1, 0, 3, 0, "COND"]],
    "extra": {"slipstream": {"parameters": {"prompt": {"node": 1, "input": "text"}}}},
}


def draft():
    return Draft(files.parse(CANVAS), SCHEMA)


@pytest.mark.parametrize("key", ["prompt", "1.text", "v1.5 prompt.text"])
def test_by_parameter_id_and_title_with_a_dot(key):
    made = draft()
    made.assign(key, "new = yes")
    assert made.prompt["1"]["inputs"]["text"] == "new = yes"
    assert made.prompt["2"]["inputs"]["text"] == "no"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("3.seed", "18446744073709551615", 18446744073709551615),
        ("Sample.cfg", "3", 3.0),
        ("3.name", "heun", "Heun"),
        ("3.name", "3", 3),
        ("3.name", "other", "other"),
        ("3.tiled", "TRUE", True),
        ("3.tiled", "0", False),
    ],
)
def test_values_take_the_declared_type(key, text, value):
    made = draft()
    made.assign(key, text)
    stored = made.prompt["3"]["inputs"][key.split(".")[1]]
    assert stored == value
    assert type(stored) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("promt", "x", 'no parameter and no input is named "promt"; did you mean prompt?'),
        ("9.text", "x", 'no node has the id, title or class "9"; there is'),
        ("Sampel.cfg", "1", "did you mean Sample?"),
        ("Text.text", "x", '"Text" names 2 nodes: use an id, one of 1, 2'),
        ("3.cgf", "1", 'node 3 (Sample) has no input "cgf"; did you mean cfg?'),
        ("3.cond", "x", 'input cond of node 3 (Sample) comes from node 1 "v1.5 prompt" (Text): set that'),
        ("3.seed", "1.5", "seed takes a whole number, not '1.5'"),
        ("3.cfg", "big", "cfg takes a number, not 'big'"),
        ("3.cfg", "nan", "cfg takes a number, not 'nan'"),
        ("3.cfg", "1e999", "cfg takes a number, not '1e999'"),
        ("3.tiled", "maybe", "tiled takes true or false, not 'maybe'"),
    ],
)
def test_refusals(key, text, message):
    with pytest.raises(SettingError) as error:
        draft().assign(key, text)
    assert message in str(error.value)


def test_the_canvas_is_kept_in_step_and_the_file_untouched():
    made = draft()
    made.assign("prompt", "new")
    made.assign("3.cfg", "2.5")
    made.reseed(100, 2)
    nodes = {
        node["id"]: node["widgets_values"] for node in made.extra_data["extra_pnginfo"]["workflow"]["nodes"]
    }
    assert nodes[1] == ["new"]
    assert nodes[3] == [102, "randomize", 2.5, "euler"]
    assert CANVAS["nodes"][0]["widgets_values"] == ["old"]


def test_a_value_without_a_place_on_the_canvas_drops_the_canvas():
    made = draft()
    assert "extra_pnginfo" in made.extra_data
    made.assign("3.tiled", "true")  # the file is older than this input
    assert made.extra_data == {}


def test_seeds():
    assert draft().reseed(None, 0) == {"3.seed": 5}
    assert draft().reseed(None, 3) == {"3.seed": 8}
    assert draft().reseed(40, 1) == {"3.seed": 41}


def test_a_declared_seed_goes_before_the_others():
    two = {key: {"class_type": "Sample", "inputs": {"seed": int(key)}} for key in ("1", "2")}
    extra = {"slipstream": {"parameters": {"seed": {"node": 2, "input": "seed"}}}}
    made = Draft(files.parse({"prompt": two, "extra": extra}), SCHEMA)
    assert made.reseed(7, 0) == {"2.seed": 7}
    assert made.prompt["1"]["inputs"]["seed"] == 1
    assert Draft(files.parse(two), SCHEMA).reseed(7, 0) == {"1.seed": 7, "2.seed": 7}


def test_no_seed_to_set():
    made = Draft(files.parse({"1": {"class_type": "Text", "inputs": {"text": "x"}}}), SCHEMA)
    assert made.reseed(None, 1) == {}
    with pytest.raises(SettingError, match="no seed to set"):
        made.reseed(1, 0)


def test_a_primitive_feeding_two_inputs_changes_both():
    slot = {"name": "text", "type": "STRING", "widget": {"name": "text"}}
    canvas = {
        "nodes": [
            {
                "id": 1,
                "type": "PrimitiveNode",
                "widgets_values": ["old", "fixed"],
                "outputs": [{"type": "STRING"}],
            },
            {"id": 2, "type": "Text", "widgets_values": ["a"], "inputs": [{**slot, "link": 1}]},
            {"id": 3, "type": "Text", "widgets_values": ["b"], "inputs": [{**slot, "link": 2}]},
        ],
        "links": [[1, 1, 0, 2, 0, "STRING"], [2, 1, 0, 3, 0, "STRING"]],
    }
    made = Draft(files.parse(canvas), SCHEMA)
    made.assign("2.text", "new")
    assert [made.prompt[key]["inputs"]["text"] for key in "23"] == ["new", "new"]
    assert made.extra_data["extra_pnginfo"]["workflow"]["nodes"][0]["widgets_values"] == ["new", "fixed"]


def test_a_prompt_beside_its_canvas_runs_as_it_is_and_keeps_the_canvas_in_step():
    prompt = {
        "1": {"class_type": "Text", "inputs": {"text": "as it ran"}, "_meta": {"title": "v1.5 prompt"}},
        "3": {"class_type": "Sample", "inputs": {"cond": ["1", 0], "seed": 9, "cfg": 4.0, "name": "euler"}},
    }
    posted = {"prompt": prompt, "extra_data": {"extra_pnginfo": {"workflow": CANVAS}}}
    made = Draft(files.parse(posted), SCHEMA)
    assert made.prompt == prompt
    made.assign("3.seed", "11")
    assert made.extra_data["extra_pnginfo"]["workflow"]["nodes"][2]["widgets_values"][0] == 11
