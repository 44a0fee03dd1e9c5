import pytest
import torch
from slipstream.executor.graph import Engine, validate
from slipstream.executor.hosts import bundled
from slipstream.executor.library.logic import PreviewAny, Reroute

NODES = bundled.host().nodes


def run(prompt, nodes=NODES):
    validation = validate(prompt, nodes)
    assert validation.ok, validation
    return Engine(nodes).run(prompt, outputs=validation.outputs)


def node(class_type, **inputs):
    return {"class_type": class_type, "inputs": inputs}


def shown(result, id):
    return result.outputs[id]["text"]


@pytest.mark.parametrize(
    ("class_type", "value", "text"),
    [
        ("PrimitiveString", "a", "a"),
        ("PrimitiveStringMultiline", "a\nb", "a\nb"),
        ("PrimitiveInt", -(2**62), "-4611686018427387904"),
        ("PrimitiveFloat", 0.1, "0.1"),
        ("PrimitiveBoolean", True, "True"),
    ],
)
def test_primitive_to_preview(class_type, value, text):
    result = run({"1": node(class_type, value=value), "2": node("PreviewAny", source=["1", 0])})
    assert shown(result, "2") == [text]


@pytest.mark.parametrize("name", ["", "input", "anything"])
def test_reroute_passes_on_any_type_under_any_name(name):
    prompt = {
        "1": node("EmptyImage", width=4, height=3, batch_size=2, color=0),
        "2": {"class_type": "Reroute", "inputs": {name: ["1", 0]}},
        "3": {"class_type": "Reroute", "inputs": {name: ["2", 0]}},
        "4": node("GetImageSize", image=["3", 0]),
        "5": node("PreviewAny", source=["4", 0]),
        "6": node("PreviewAny", source=["4", 2]),
    }
    result = run(prompt)
    assert (shown(result, "5"), shown(result, "6")) == (["4"], ["2"])


def test_reroute_takes_exactly_one_input():
    with pytest.raises(ValueError, match="given: none"):
        Reroute().pass_on()
    with pytest.raises(ValueError, match="given: a, b"):
        Reroute().pass_on(a=1, b=2)


class Marker:
    """Counts its calls."""

    RETURN_TYPES = ("INT",)
    FUNCTION = "mark"
    calls = []

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {})}}

    def mark(self, value):
        self.calls.append(value)
        return (value,)


@pytest.mark.parametrize(("switch", "taken"), [(True, 1), (False, 0)])
def test_switch_evaluates_one_branch_only(switch, taken):
    Marker.calls.clear()
    prompt = {
        "0": node("Marker", value=0),
        "1": node("Marker", value=1),
        "2": node("ComfySwitchNode", switch=switch, on_false=["0", 0], on_true=["1", 0]),
        "3": node("PreviewAny", source=["2", 0]),
    }
    result = run(prompt, {**NODES, "Marker": Marker})
    assert Marker.calls == [taken]
    assert shown(result, "3") == [str(taken)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "None"), ("x", "x"), ({"a": [1, None]}, '{"a": [1, null]}'), (1 + 2j, "(1+2j)")],
)
def test_preview_of_other_things(value, text):
    assert PreviewAny().show(value) == {"ui": {"text": (text,)}}


def test_preview_of_a_tensor():
    (text,) = PreviewAny().show({"samples": torch.zeros(1)})["ui"]["text"]
    assert text == "{'samples': tensor([0.])}"
