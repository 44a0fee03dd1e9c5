"""Runs that a real server was captured at: the events must hold what its websocket messages say."""

import json
from pathlib import Path

import pytest
from slipstream.executor import context
from slipstream.executor.graph import Engine, events, validate
from slipstream.executor.server.messages import Translator

RUNS = json.loads((Path(__file__).parents[1] / "data/protocol/runs.json").read_text())


class Messages:
    """The messages that the server's websocket would carry, without what differs from run to run."""

    def __init__(self):
        self.messages = []
        self._translator = Translator()

    def __call__(self, event):
        for kind, data, _ in self._translator.messages(event):
            assert data["prompt_id"] == "p"
            self.messages.append([kind, _comparable(data)])


def _comparable(data):
    data = {key: value for key, value in data.items() if key not in ("prompt_id", "timestamp")}
    if "nodes" in data and isinstance(data["nodes"], dict):
        data["nodes"] = {
            name: {key: value for key, value in node.items() if key != "prompt_id"}
            for name, node in data["nodes"].items()
        }
    for sets in ("executed", "current_outputs"):  # a set there, in the order of its hashes
        if isinstance(data.get(sets), list):
            data[sets] = sorted(data[sets])
    return data


def captured(name):
    return [[kind, _comparable(dict(data))] for kind, data in RUNS[name]["messages"]]


def play(engine, nodes, name, sink, **options):
    run = RUNS[name]
    prompt = json.loads(json.dumps(run["prompt"]))
    validation = validate(prompt, nodes, run["targets"])
    assert validation.ok, validation.error
    return engine.run(prompt, prompt_id="p", outputs=validation.outputs, sink=sink, **options)


# Captured one after the other on the same server: the later runs find the results of the earlier.
SEQUENCES = [
    ["01_success", "02_cached_rerun", "03_partially_cached"],
    ["08_preview_legacy_no_flags"],
    ["11_blocker_with_message"],
    ["12_blocker_silent"],
    ["13_node_expansion"],
    ["14_partial_execution_targets"],
    ["20_success_saveimage", "20b_saveimage_cached_rerun"],
]


@pytest.mark.parametrize("names", SEQUENCES, ids=lambda names: names[0])
@pytest.mark.parametrize("cache", ["classic", "lru:100"])
def test_successful_runs(nodes, files, names, cache):
    engine = Engine(nodes, cache)
    for name in names:
        files.names = [output["images"] for output in RUNS[name]["outputs"].values()]
        messages = Messages()
        result = play(engine, nodes, name, messages)
        assert messages.messages == captured(name)
        assert result.status == "success"
        assert result.outputs == RUNS[name]["outputs"]


def test_a_failing_node(nodes):
    messages = Messages()
    result = play(Engine(nodes), nodes, "05_node_exception", messages)
    expected = captured("05_node_exception")
    *before, (kind, error) = messages.messages
    trace = "".join(error["traceback"])
    assert "_raise" in trace and "raise ValueError" in trace
    # What stands for the picture is a number here.
    error |= {"traceback": [], "current_inputs": error["current_inputs"] | {"image": ["tensor"]}}
    assert [*before, [kind, error]] == expected
    assert result.status == "error" and result.outputs == {} == RUNS["05_node_exception"]["outputs"]


def test_an_interrupt_inside_a_node(nodes):
    messages = Messages()
    stop = []
    nodes["LabSleep"].run = lambda self, **_: (stop.append(1), context.check())
    result = play(Engine(nodes), nodes, "06_interrupt_global", messages, cancelled=lambda: bool(stop))
    assert messages.messages == captured("06_interrupt_global")
    assert result.status == "interrupted"


def test_a_cycle_that_an_expansion_makes(nodes):
    messages = Messages()
    result = play(Engine(nodes), nodes, "22b_dynamic_cycle", messages)
    expected = captured("22b_dynamic_cycle")
    # ComfyUI says no more than "Dependency cycle detected", and files the run as a success.
    message = expected[-1][1]["exception_message"]
    path = "2.0.0.2 (TestLazyMixImages) -> 2.0.0.3 (TestLazyMixImages) -> 2.0.0.2 (TestLazyMixImages)"
    expected[-1][1]["exception_message"] = f"{message}: {path}"
    assert messages.messages == expected
    assert result.status == "error"


def test_previews_are_made_only_if_asked_for(nodes):
    seen = []
    play(Engine(nodes), nodes, "08_preview_legacy_no_flags", seen.append)
    progress = [event for event in seen if isinstance(event, events.NodeProgress)]
    assert [(event.value, event.total) for event in progress] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert progress[0].preview() == "picture"


def test_meta_of_outputs_is_in_the_events(nodes, files):
    seen = []
    play(Engine(nodes), nodes, "13_node_expansion", seen.append)
    meta = {
        event.node: {
            "node_id": event.node,
            "display_node": event.display_node,
            "parent_node": event.parent_node,
            "real_node_id": event.real_node,
        }
        for event in seen
        if isinstance(event, events.NodeOutput)
    }
    assert meta == RUNS["13_node_expansion"]["meta"]
