"""Runs that a real server was captured at: the events must hold what its websocket messages say."""

import json
from pathlib import Path

import pytest
from slipstream.executor import context
from slipstream.executor.graph import Engine, events, validate

RUNS = json.loads((Path(__file__).parents[1] / "data/protocol/runs.json").read_text())


class Messages:
    """Makes the messages of a websocket from events, as a server would."""

    def __init__(self):
        self.messages = []
        self._nodes = {}

    def _send(self, kind, **data):
        self.messages.append([kind, data])

    def _progress(self, event, **state):
        known = self._nodes.setdefault(event.node, {"value": 0, "max": 1, "node_id": event.node})
        known |= state
        known |= {
            "display_node_id": event.display_node,
            "parent_node_id": event.parent_node,
            "real_node_id": event.real_node,
        }
        self._send("progress_state", nodes={node_id: dict(node) for node_id, node in self._nodes.items()})

    def __call__(self, event):
        getattr(self, type(event).__name__)(event)

    def ExecutionStarted(self, event):
        self._send("execution_start")

    def ExecutionCached(self, event):
        self._send("execution_cached", nodes=event.nodes)

    def NodeStarted(self, event):
        self._progress(event, value=0, max=1, state="running")
        self._send("executing", node=event.node, display_node=event.display_node)

    def NodeProgress(self, event):
        self._progress(event, value=event.value, max=event.total, state="running")
        self._send("progress", value=event.value, max=event.total, node=event.node)

    def NodeOutput(self, event):
        self._send("executed", node=event.node, display_node=event.display_node, output=event.output)

    def NodeFinished(self, event):
        known = self._nodes.get(event.node, {"max": 1})
        self._progress(event, value=known["max"], state="finished")

    def NodeBlocked(self, event):
        self._send(
            "execution_error",
            node_id=event.node,
            node_type=event.node_type,
            executed=sorted(event.executed),
            exception_message=f"Execution Blocked: {event.message}",
            exception_type="ExecutionBlocked",
            traceback=[],
            current_inputs=[],
            current_outputs=[],
        )

    def ExecutionFailed(self, event):
        self._send(
            "execution_error",
            node_id=event.real_node,
            node_type=event.node_type,
            executed=sorted(event.executed),
            exception_message=event.exception_message,
            exception_type=event.exception_type,
            traceback=event.traceback,
            current_inputs=event.current_inputs,
            current_outputs=sorted(event.current_outputs),
        )

    def ExecutionInterrupted(self, event):
        self._send(
            "execution_interrupted",
            node_id=event.real_node,
            node_type=event.node_type,
            executed=sorted(event.executed),
        )

    def ExecutionSucceeded(self, event):
        self._send("execution_success")


def captured(name):
    messages = []
    for kind, data in RUNS[name]["messages"]:
        data = dict(data)
        for sets in ("executed", "current_outputs"):  # a set there, in the order of its hashes
            if isinstance(data.get(sets), list):
                data[sets] = sorted(data[sets])
        messages.append([kind, data])
    return messages


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
