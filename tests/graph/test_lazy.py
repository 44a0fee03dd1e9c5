"""Lazy inputs: evaluated when the node asks for them."""

import asyncio

import pytest
from slipstream.executor.graph import GraphBuilder


@pytest.fixture
def run(runner, nodes, make_class):
    listed = make_class(lambda **v: (list(v.values()),), {f"v{i}?": ("FLOAT",) for i in range(3)}, ("*",))
    listed.OUTPUT_IS_LIST = (True,)
    return runner({**nodes, "List": listed})


def mix(graph, mask):
    first = graph.node("StubImage", "first", content="BLACK", height=1, width=1, batch_size=1)
    second = graph.node("StubImage", "second", content="WHITE", height=1, width=1, batch_size=1)
    node = graph.node("TestLazyMixImages", "mix", image1=first.out(0), image2=second.out(0), mask=mask)
    graph.node("Show", "show", value=node.out(0))


@pytest.mark.parametrize(
    ("mask", "value", "started"),
    [
        (0.0, 0.0, ["mix", "first", "mix", "show"]),
        (1.0, 1.0, ["mix", "second", "mix", "show"]),
        (0.5, 0.5, ["mix", "first", "second", "mix", "show"]),
    ],
)
def test_only_what_is_needed_runs(run, mask, value, started):
    graph = GraphBuilder()
    mix(graph, mask)
    assert run.shown(graph) == [value]
    assert sorted(run.started()) == sorted(started)
    assert run.started()[0] == "mix" and run.started()[-2:] == ["mix", "show"]


def test_each_element_of_a_list_has_its_say(run):
    graph = GraphBuilder()
    mix(graph, graph.node("List", "masks", v0=0.0, v1=0.5, v2=1.0).out(0))
    assert run.shown(graph) == [0.0, 0.5, 1.0]


def test_results_that_are_there_are_given_unasked(run):
    graph = GraphBuilder()
    mix(graph, 0.5)
    run(graph)
    graph.nodes["mix"].inputs["mask"] = 0.25
    assert run.shown(graph) == [0.25]
    assert run.started() == ["mix", "show"]


def test_a_cached_node_asks_nothing(run):
    graph = GraphBuilder()
    mix(graph, 0.0)
    run(graph)
    result = run(graph)
    assert run.started() == [] and "second" not in result.cached


def test_async_check(runner, make_class):
    async def ask(self, a=None, b=None):
        await asyncio.sleep(0)
        return ["b"] if b is None else []

    lazy = ("INT", {"lazy": True})
    node = make_class(lambda a, b: ((a, b),), {"a": lazy, "b": lazy}, check_lazy_status=ask)
    run = runner({"Node": node})
    graph = GraphBuilder()
    a, b = graph.node("Value", "a", value=1), graph.node("Value", "b", value=2)
    graph.node("Show", value=graph.node("Node", a=a.out(0), b=b.out(0)).out(0))
    assert run.shown(graph) == [(None, 2)]


def test_lazy_inputs_nobody_asks_for_stay_none(runner, make_class):
    node = make_class(lambda a: (a,), {"a": ("INT", {"lazy": True})})
    run = runner({"Node": node})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Node", a=graph.node("Value", "a", value=1).out(0)).out(0))
    assert run.shown(graph) == [None]
    assert "a" not in run.started()


def test_list_inputs(runner, make_class):
    seen = []

    def ask(self, a, b):
        seen.append((a, b))
        return ["a"] if a == (None,) else []

    node = make_class(
        lambda a, b: (a[0] + b[0],),
        {"a": ("INT", {"lazy": True}), "b": ("INT",)},
        INPUT_IS_LIST=True,
        check_lazy_status=ask,
    )
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Node", a=graph.node("Value", value=1).out(0), b=5).out(0))
    assert runner({"Node": node}).shown(graph) == [6]
    assert seen == [((None,), [5]), ([1], [5])]


@pytest.mark.parametrize(("asked", "what"), [("b", "holds a constant there"), ("c", "has no such input")])
def test_asking_for_what_is_not_linked(runner, make_class, asked, what):
    node = make_class(lambda a: (a,), {"a": ("INT", {"lazy": True})})
    node.check_lazy_status = lambda self, **_: [asked]
    prompt = {
        "1": {"class_type": "Node", "inputs": {"a": 1, "b": 2}},
        "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
    }
    error = runner({"Node": node})(prompt).error
    assert error.exception_message == f"node 1 (Node) asks for its input {asked}, but it {what}\n"
    assert error.exception_type.endswith("NodeInputError") and error.node == "1"


def test_asking_again_for_an_output_that_was_not_returned_ends(runner, make_class):
    # ComfyUI goes round for ever: the input stays None although its source has run.
    quiet = make_class(lambda: {"ui": {"x": [1]}}, {}, ("INT",))
    node = make_class(lambda a: (a,), {"a": ("INT", {"lazy": True})})
    node.check_lazy_status = lambda self, a: ["a"] if a is None else []
    graph = GraphBuilder()
    graph.node("Show", "show", value=graph.node("Node", a=graph.node("Quiet").out(0)).out(0))
    assert runner({"Quiet": quiet, "Node": node})(graph).outputs["show"] == {"value": [None]}
