"""Errors and cancelling: what is told, and what stays usable."""

import pytest
from slipstream.executor import context
from slipstream.executor.graph import GraphBuilder, events


class Custom(Exception):
    pass


def raising(error):
    def function(**_):
        raise error

    return function


def test_what_an_error_tells(runner, make_class, any_type):
    node = make_class(raising(Custom("no")), {"value": (any_type,), "text": ("STRING",)})
    run = runner({"Node": node})
    prompt = {
        "1": {"class_type": "Value", "inputs": {"value": 1.5}},
        "2": {
            "class_type": "Node",
            "inputs": {"value": ["1", 0], "text": "x"},
            "_meta": {"title": "My node"},
        },
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    }
    result = run(prompt)
    error = result.error
    assert result.status == "error" and run.events[-1] is error
    assert (error.node, error.node_type, error.title) == ("2", "Node", "My node")
    assert error.exception_type.endswith("test_failure.Custom") and error.exception_message == "no\n"
    assert error.current_inputs == {"value": [1.5], "text": ["x"]}
    assert error.executed == result.executed == ["1"]
    assert set(error.current_outputs) == set(prompt)
    assert "in function" in error.traceback[-1]
    assert not any("graph/run.py" in line for line in error.traceback)


def test_values_that_are_not_plain_are_shown_as_text_of_limited_length(runner, make_class, any_type):
    node = make_class(raising(Custom()), {"value": (any_type,), "text": ("STRING",)})
    prompt = {
        "1": {"class_type": "Node", "inputs": {"value": [["x"] * 10_000], "text": "y" * 10_000}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    inputs = runner({"Node": node})(prompt).error.current_inputs
    assert inputs["value"][0].startswith("[['x', 'x'") and len(inputs["value"][0]) < 5000
    assert len(inputs["text"][0]) < 5000


def test_values_and_errors_that_cannot_be_shown(runner, make_class, any_type):
    class Shy(Exception):
        def __str__(self):
            raise ValueError

    node = make_class(raising(Shy()), {"value": (any_type,)})
    prompt = {
        "1": {"class_type": "Node", "inputs": {"value": Shy()}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    error = runner({"Node": node})(prompt).error
    assert error.exception_message == "<Shy that cannot be shown: ValueError>\n"
    assert error.current_inputs == {"value": ["<Shy that cannot be shown: ValueError>"]}


def test_hidden_inputs_are_not_shown(runner, make_class):
    # ComfyUI sends them all, tokens too.
    hidden = {"prompt!": "PROMPT", "token!": "AUTH_TOKEN_COMFY_ORG"}
    node = make_class(raising(Custom()), {"value": ("INT",), **hidden}, OUTPUT_NODE=True)
    prompt = {"1": {"class_type": "Node", "inputs": {"value": 1}}}
    error = runner({"Node": node})(prompt, extra_data={"auth_token_comfy_org": "secret"}).error
    assert error.current_inputs == {"value": [1]}


def test_the_hook_for_errors(runner, make_class):
    seen = []

    def on_error(error):
        seen.append(error)
        return "Use a smaller picture."

    raised = MemoryError("out of memory")
    run = runner({"Node": make_class(raising(raised), {}, OUTPUT_NODE=True)}, on_error=on_error)
    error = run({"1": {"class_type": "Node", "inputs": {}}}).error
    assert seen == [raised]
    assert error.exception_message == "out of memory\nUse a smaller picture."


def test_outputs_before_the_error_are_in_the_result(runner, make_class):
    run = runner({"Node": make_class(raising(Custom()), {}, OUTPUT_NODE=True)})
    prompt = {
        "1": {"class_type": "Show", "inputs": {"value": 1}},
        "2": {"class_type": "Node", "inputs": {}},
        "3": {"class_type": "Show", "inputs": {"value": 3}},
    }
    assert run(prompt).outputs == {"1": {"value": [1]}}


def test_a_class_that_cannot_be_made(runner, make_class):
    node = make_class(lambda: (), {}, OUTPUT_NODE=True, __init__=lambda self: 1 / 0)
    error = runner({"Node": node})({"1": {"class_type": "Node", "inputs": {}}}).error
    assert error.exception_type == "ZeroDivisionError"


def test_a_call_that_does_not_fit_the_function(runner, make_class):
    node = make_class(None, {"a": ("INT",)}, run=lambda self: (), OUTPUT_NODE=True)
    error = runner({"Node": node})({"1": {"class_type": "Node", "inputs": {"a": 1}}}).error
    assert (
        error.exception_type == "TypeError" and "unexpected keyword argument 'a'" in error.exception_message
    )


def test_a_prompt_with_a_cycle_is_an_error_also_unvalidated(runner):
    prompt = {
        "1": {"class_type": "Value", "inputs": {"value": ["2", 0]}},
        "2": {"class_type": "Value", "inputs": {"value": ["1", 0]}},
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    }
    error = runner()(prompt).error
    assert error.exception_type == "graph.DependencyCycleError" and error.node in "12"
    assert error.exception_message.startswith("Dependency cycle detected: ")


def test_a_node_that_waits_for_itself(runner, make_class):
    node = make_class(lambda a: (a,), {"a": ("*", {"lazy": True})})
    node.check_lazy_status = lambda self, a: ["a"]
    prompt = {
        "1": {"class_type": "Node", "inputs": {"a": ["1", 0]}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    message = runner({"Node": node})(prompt).error.exception_message
    assert message == "Dependency cycle detected: 1 (Node) -> 1 (Node)"


def test_outputs_that_do_not_exist(runner):
    with pytest.raises(KeyError, match="no node 7"):
        runner()({"1": {"class_type": "Show", "inputs": {"value": 1}}}, outputs=["7"])


def cancelling_after(calls):
    return lambda: len(calls) >= 2


def test_cancelling_between_nodes(runner, make_class, any_type):
    calls = []
    node = make_class(lambda value: (calls.append(value) or value,), {"value": (any_type,)})
    run = runner({"Node": node})
    graph = GraphBuilder()
    link = graph.node("Value", value=0).out(0)
    for _ in range(5):
        link = graph.node("Node", value=link).out(0)
    graph.node("Show", value=link)
    result = run(graph, cancelled=cancelling_after(calls))
    assert (result.status, len(calls)) == ("interrupted", 2)
    assert isinstance(run.events[-1], events.ExecutionInterrupted)
    assert (run.events[-1].node, run.events[-1].node_type) == ("4", "Node")
    assert run.events[-1].executed == result.executed == ["1", "2", "3"]
    # What is done stays done.
    assert run(graph).cached == ["1", "2", "3"]


def test_cancelling_between_the_calls_of_a_node(runner, make_class, any_type):
    calls = []
    node = make_class(lambda value: (calls.append(value) or value,), {"value": (any_type,)})
    listed = make_class(lambda: (list(range(5)),), {}, OUTPUT_IS_LIST=(True,))
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Node", value=graph.node("List").out(0)).out(0))
    result = runner({"Node": node, "List": listed})(graph, cancelled=cancelling_after(calls))
    assert (result.status, len(calls)) == ("interrupted", 2)


def test_cancelling_inside_a_node(runner, make_class):
    calls = []

    def work():
        for step in range(5):
            calls.append(step)
            try:
                context.progress(step, 5)
            except Exception:
                raise AssertionError("a node's own error handling must not see it") from None
        return ()

    run = runner({"Node": make_class(work, {}, OUTPUT_NODE=True)})
    result = run({"1": {"class_type": "Node", "inputs": {}}}, cancelled=cancelling_after(calls))
    assert (result.status, len(calls)) == ("interrupted", 2)
    # The step that was reported is told before the interruption.
    assert [e.value for e in run.events if isinstance(e, events.NodeProgress)] == [0, 1]


def test_nothing_to_do(runner):
    run = runner()
    result = run({})
    assert (result.status, result.outputs, result.executed) == ("success", {}, [])
    assert [type(event) for event in run.events] == [
        events.ExecutionStarted,
        events.ExecutionCached,
        events.ExecutionSucceeded,
    ]


def test_the_time_of_each_node_is_measured(runner, make_class):
    import time

    run = runner({"Node": make_class(lambda: time.sleep(0.02) or (1,), {})})
    graph = GraphBuilder()
    graph.node("Show", "show", value=graph.node("Node", "slow").out(0))
    seconds = run(graph).seconds
    assert seconds["slow"] >= 0.02 and set(seconds) == {"slow", "show"}
    assert run(graph).seconds == {}
