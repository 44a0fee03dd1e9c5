"""Validation: the answers a real server gave, and where ours say more."""

import asyncio
import json
from pathlib import Path

import pytest
from slipstream.executor.blocker import ExecutionBlocker
from slipstream.executor.graph import GraphBuilder, validate, validate_async

DATA = Path(__file__).parents[1] / "data/protocol"
CAPTURED = json.loads((DATA / "validation.json").read_text())
COERCION = json.loads((DATA / "coercion.json").read_text())
# Not about validation: the server itself refuses a body without a prompt.
NOT_VALIDATION = {"no_prompt"}


def without_traceback(node_errors):
    for node in node_errors.values():
        for error in node["errors"]:
            if "traceback" in error["extra_info"]:
                error["extra_info"]["traceback"] = []
    return node_errors


def traces(validation):
    return [
        error["extra_info"]["traceback"]
        for node in validation.node_errors.values()
        for error in node["errors"]
        if "traceback" in error["extra_info"]
    ]


def plain(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", [n for n in CAPTURED if n not in {*NOT_VALIDATION, "static_cycle"}])
def test_captured_answers(nodes, name):
    case = CAPTURED[name]
    validation = validate(plain(case["request"]["prompt"]), nodes)
    assert validation.ok is (case["status"] == 200)
    assert plain(validation.error) == case["body"].get("error")
    assert plain(without_traceback(validation.node_errors)) == case["body"]["node_errors"]


def test_a_good_output_is_accepted_beside_a_bad_one(nodes):
    case = CAPTURED["one_good_one_bad_output_is_200"]
    validation = validate(plain(case["request"]["prompt"]), nodes)
    assert validation.outputs == ["2"]


def test_malformed_prompts_say_what_is_wrong(nodes):
    def reason(name):
        ((line,),) = traces(validate(plain(CAPTURED[name]["request"]["prompt"]), nodes))
        return line

    assert (
        reason("link_to_missing_node")
        == "input images of node 2 (PreviewImage) links to node 99, which is not in the prompt"
    )
    assert (
        reason("link_slot_out_of_range")
        == "input images of node 2 (PreviewImage) links to output 7 of node 1 (EmptyImage), which has 1"
    )
    assert reason("missing_inputs_key") == "node 1 (EmptyImage) has no inputs object"


def test_a_cycle_names_its_nodes(nodes):
    case = CAPTURED["static_cycle"]
    validation = validate(plain(case["request"]["prompt"]), nodes)
    path = "1 (ImageInvert) -> 2 (ImageInvert) -> 1 (ImageInvert)"
    # ComfyUI gives the same type and message, but no details and no nodes.
    expected = case["body"]["error"] | {"details": f"Dependency cycle detected: {path}"}
    assert (validation.ok, validation.error) == (False, expected)
    assert set(validation.node_errors) == {"1", "2"}
    for node in validation.node_errors.values():
        assert node["dependent_outputs"] == ["3"]
        assert [(error["type"], error["details"]) for error in node["errors"]] == [("dependency_cycle", path)]


def test_a_long_cycle_is_shortened(nodes):
    prompt = {
        str(i): {"class_type": "ImageInvert", "inputs": {"image": [str((i + 1) % 5000), 0]}}
        for i in range(5000)
    }
    prompt["out"] = {"class_type": "PreviewImage", "inputs": {"images": ["0", 0]}}
    details = validate(prompt, nodes).error["details"]
    assert "(4988 more)" in details and len(details) < 500


@pytest.mark.parametrize("name", [n for n in COERCION if n not in {"nan"}])
def test_captured_coercions(nodes, name):
    case = COERCION[name]
    prompt = {
        "1": {"class_type": "LabSleep", "inputs": dict(case["sent"])},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    validation = validate(prompt, nodes)
    body = case["response"]["body"]
    assert validation.ok is (case["response"]["status"] == 200)
    assert plain(validation.error) == body.get("error")
    assert plain(validation.node_errors) == body["node_errors"]
    if validation.ok:
        assert prompt["1"]["inputs"] == case["history_prompt_inputs"]
        assert [type(v) for v in prompt["1"]["inputs"].values()] == [
            type(v) for v in case["history_prompt_inputs"].values()
        ]


def test_nan_is_a_valid_float(nodes):
    assert COERCION["nan"]["response"]["status"] == 200
    inputs = {"seconds": float("nan"), "tag": 1, "steps": 0, "preview": False}
    prompt = {
        "1": {"class_type": "LabSleep", "inputs": inputs},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    assert validate(prompt, nodes).ok


def test_an_unknown_class_is_named_with_its_title_and_near_matches(nodes):
    prompt = {
        "7": {"class_type": "ImageInverter", "inputs": {}, "_meta": {"title": "Flip it"}},
        "9": {"class_type": "Nope", "inputs": {}},
    }
    validation = validate(prompt, nodes)
    assert validation.error == {
        "type": "invalid_prompt",
        "message": "Cannot execute because node ImageInverter ('Flip it') does not exist.",
        "details": "Node ID '#7', perhaps ImageInvert\nNode ID '#9': Nope",
        "extra_info": {},
    }


@pytest.mark.parametrize("prompt", [[], "x", None])
def test_a_prompt_that_is_no_object(nodes, prompt):
    assert validate(prompt, nodes).error["type"] == "invalid_prompt"


@pytest.mark.parametrize("node", [None, [], "KSampler", {"class_type": None}, {"inputs": {}}])
def test_a_node_without_a_class(nodes, node):
    error = validate({"1": node}, nodes).error
    assert (error["type"], error["details"]) == ("invalid_prompt", "Node ID '#1'")


def test_targets_restrict_the_outputs(nodes):
    prompt = {
        "1": {"class_type": "LabSleep", "inputs": {"seconds": 0, "tag": 1, "steps": 0, "preview": 0}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        "3": {"class_type": "PreviewImage", "inputs": {}},
    }
    assert validate(prompt, nodes, ["2"]).node_errors == {}
    assert validate(prompt, nodes, ["2"]).outputs == ["2"]
    assert validate(prompt, nodes, []).error["type"] == "prompt_no_outputs"
    assert validate(prompt, nodes, ["1"]).error["type"] == "prompt_no_outputs"


def test_only_outputs_that_depend_on_a_faulty_node_are_blamed_on_it(nodes):
    # ComfyUI also lists outputs that happened to fail later, for another reason.
    bad = {"class_type": "EmptyImage", "inputs": {}}
    prompt = {
        "1": bad,
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        "3": bad,
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
        "5": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "x"}},
    }
    node_errors = validate(prompt, nodes).node_errors
    assert {node_id: node["dependent_outputs"] for node_id, node in node_errors.items()} == {
        "1": ["2"],
        "3": ["4", "5"],
    }


@pytest.fixture
def check(runner, make_class):
    """Validates one node of a class with the given inputs, wired to an output; returns its errors."""

    def check(inputs, given, **attributes):
        node = make_class(lambda **_: (0,), inputs, **attributes)
        table = runner({"Node": node, "Other": make_class(lambda: (0,), {}, ("INT", "A,B"))}).nodes
        prompt = {
            "1": {"class_type": "Node", "inputs": given},
            "2": {"class_type": "Other", "inputs": {}},
            "3": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
        }
        validation = validate(prompt, table)
        assert validation.ok is not bool(validation.node_errors)
        errors = validation.node_errors.get("1", {"errors": []})["errors"]
        return [(error["type"], error["details"]) for error in errors]

    return check


@pytest.mark.parametrize(
    ("declared", "slot", "matches"),
    [
        ("INT", 0, True),
        ("FLOAT,INT", 0, True),
        ("FLOAT, INT", 0, True),
        ("FLOAT", 0, False),
        ("*", 0, True),
        (["INT", "FLOAT"], 0, False),
        ("B,C", 1, True),
        ("C", 1, False),
    ],
)
def test_types_of_links(check, declared, slot, matches):
    found = check({"x": (declared,)}, {"x": ["2", slot]})
    assert found == ([] if matches else [("return_type_mismatch", found[0][1])])


def test_types_that_override_unequal_match_anything(check, any_type):
    assert check({"x": (any_type,)}, {"x": ["2", 0]}) == []


def test_types_that_equal_everything_are_not_converted(check):
    class Wild(str):
        def __eq__(self, other):
            return True

        __hash__ = None

    assert check({"x": (Wild("*"),)}, {"x": "text"}) == []


def test_combos_are_checked_unless_the_class_validates_them(check):
    inputs = {"x": (["a", "b"],)}
    assert check(inputs, {"x": "c"}) == [("value_not_in_list", "x: 'c' not in ['a', 'b']")]
    accepts = classmethod(lambda cls, x: True)
    assert check(inputs, {"x": "c"}, VALIDATE_INPUTS=accepts) == []
    assert check(inputs, {"x": "c"}, VALIDATE_INPUTS=classmethod(lambda cls, **_: True)) == []
    others = classmethod(lambda cls, y=None: True)
    assert check(inputs, {"x": "c"}, VALIDATE_INPUTS=others) != []


def test_long_lists_are_not_sent_back(nodes, runner, make_class):
    names = [f"model{i}" for i in range(21)]
    table = runner({"Node": make_class(lambda x: (x,), {"x": (names,)})}).nodes
    prompt = {
        "1": {"class_type": "Node", "inputs": {"x": "?"}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    (error,) = validate(prompt, table).node_errors["1"]["errors"]
    assert error["details"] == "x: '?' not in (list of length 21)"
    assert error["extra_info"]["input_config"] is None


def test_new_style_combos_are_not_checked(check):
    assert check({"x": ("COMBO", {"options": ["a"]})}, {"x": "b"}) == []


def test_custom_validation(check):
    inputs = {"x": ("INT", {"max": 5}), "y": ("INT", {})}
    given = {"x": 7, "y": 1}

    def odd(cls, x, y):
        return True if (x, y) == (8, 1) else f"x is {x}"

    assert check(inputs, given, VALIDATE_INPUTS=classmethod(odd)) == [
        ("custom_validation_failed", "x - x is 7"),
        ("custom_validation_failed", "y - x is 7"),
    ]
    refuses = classmethod(lambda cls, x: False)
    assert check(inputs, given, VALIDATE_INPUTS=refuses) == [("custom_validation_failed", "x")]
    blocks = classmethod(lambda cls, x: ExecutionBlocker(None))
    assert check(inputs, given, VALIDATE_INPUTS=blocks) == []


def test_custom_validation_gets_constants_only(check):
    seen = []

    def look(cls, **given):
        seen.append(given)
        return True

    inputs = {"x": ("INT",), "y": ("INT",), "me!": "UNIQUE_ID", "prompt!": "PROMPT"}
    check(inputs, {"x": ["2", 0], "y": " 3 ", "z": 4}, VALIDATE_INPUTS=classmethod(look))
    assert seen == [{"x": None, "y": 3, "me": "1", "prompt": {}}]


def test_custom_validation_of_types(check):
    seen = []

    def look(cls, input_types):
        seen.append(input_types)
        return "no"

    # Naming input_types turns off the check of link types, and errors name it like an input.
    found = check({"x": ("FLOAT",)}, {"x": ["2", 0]}, VALIDATE_INPUTS=classmethod(look))
    assert seen == [{"x": "INT"}]
    assert found == [("custom_validation_failed", "input_types - no")]


def test_async_custom_validation(check):
    async def later(cls, x):
        await asyncio.sleep(0)
        return f"{x} is too much"

    assert check({"x": ("INT",)}, {"x": 9}, VALIDATE_INPUTS=classmethod(later)) == [
        ("custom_validation_failed", "x - 9 is too much")
    ]


def test_validation_with_list_inputs_gets_lists(check):
    seen = []
    look = classmethod(lambda cls, x: bool(seen.append(x)) or True)
    check({"x": ("INT",)}, {"x": 9}, VALIDATE_INPUTS=look, INPUT_IS_LIST=True)
    assert seen == [[9]]


def test_a_validation_that_raises(check):
    def broken(cls, x):
        raise RuntimeError("no idea")

    assert check({"x": ("INT",)}, {"x": 9}, VALIDATE_INPUTS=classmethod(broken)) == [
        ("exception_during_inner_validation", "no idea")
    ]


def test_errors_upstream_leave_the_consumer_without_one(nodes):
    prompt = {
        "1": {"class_type": "EmptyImage", "inputs": {}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
    }
    assert set(validate(prompt, nodes).node_errors) == {"1"}


def test_nodes_that_no_output_needs_are_not_validated(nodes):
    prompt = plain(CAPTURED["one_good_one_bad_output_is_200"]["request"]["prompt"])
    del prompt["11"]
    assert validate(prompt, nodes).node_errors == {}


def test_wrapped_lists(runner, make_class):
    table = runner({"Node": make_class(lambda x: (x,), {"x": ("LIST",)})}).nodes
    prompt = {
        "1": {"class_type": "Node", "inputs": {"x": {"__value__": [1, 2, 3]}}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    assert validate(prompt, table).ok
    assert prompt["1"]["inputs"]["x"] == [1, 2, 3]


def test_a_wrapped_list_that_looks_like_a_link_stays_a_list(runner, make_class):
    # ComfyUI unwraps it in the prompt, and then follows it as a link.
    run = runner({"Node": make_class(lambda x: (x,), {"x": ("LIST",)})})
    prompt = {
        "1": {"class_type": "Node", "inputs": {"x": {"__value__": ["2", 0]}}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    assert validate(prompt, run.nodes).ok
    assert run.shown(prompt) == [["2", 0]]


def test_deep_and_wide_prompts(runner, make_class):
    class Any(dict):
        def __contains__(self, key):
            return True

        def __getitem__(self, key):
            return ("INT",)

    sum_class = make_class(lambda **given: (sum(given.values()),), {}, ("INT",))
    sum_class.INPUT_TYPES = classmethod(lambda cls: {"required": {}, "optional": Any()})
    table = runner({"Sum": sum_class}).nodes
    graph = GraphBuilder()
    value = graph.node("Value", value=1).out(0)
    for _ in range(5000):
        value = graph.node("Value", value=value).out(0)
    inputs = {f"x{i}": value for i in range(2000)}
    graph.node("Show", value=graph.node("Sum", **inputs).out(0))
    assert validate(graph.finalize(), table).ok


def test_inside_an_event_loop(nodes):
    prompt = plain(CAPTURED["empty_prompt"]["request"]["prompt"])
    assert asyncio.run(validate_async(prompt, nodes)).error["type"] == "prompt_no_outputs"
