"""Nodes that return graphs, which then run in their place."""

import pytest
from slipstream.executor.blocker import ExecutionBlocker
from slipstream.executor.graph import GraphBuilder, events


def test_builder_ids_outside_a_call():
    graph = GraphBuilder()
    assert [graph.node("A").id, graph.node("A", "x").id, graph.node("A").id] == ["1", "x", "2"]
    assert GraphBuilder(prefix="p.").node("A").id == "p.1"


def test_builder_edits():
    graph = GraphBuilder(prefix="p.")
    a, b = graph.node("A", "a"), graph.node("B", "b")
    c = graph.node("C", "c", x=a.out(0), y=a.out(1), z=None)
    assert graph.node("A", "a") is a and graph.lookup_node("b") is b and graph.lookup_node("x") is None
    graph.replace_node_output("a", 0, b.out(2))
    graph.replace_node_output("a", 1, None)
    assert c.inputs == {"x": ["p.b", 2], "z": None} and c.get_input("x") == ["p.b", 2]
    c.set_input("z", 1)
    c.set_input("x", None)
    c.set_override_display_id("7")
    graph.remove_node("a")
    assert graph.finalize() == {
        "p.b": {"class_type": "B", "inputs": {}},
        "p.c": {"class_type": "C", "inputs": {"z": 1}, "override_display_id": "7"},
    }


def expanding(build):
    """A function that returns what `build(graph, **inputs)` returns as result, and the graph it built."""

    def function(**inputs):
        graph = GraphBuilder()
        result = build(graph, **inputs)
        return {"result": result, "expand": graph.finalize()}

    return function


@pytest.fixture
def classes(make_class, any_type):
    any_input = {"x": (any_type,)}
    return {
        "Add": make_class(lambda a, b: (a + b,), {"a": ("INT",), "b": ("INT",)}, ("INT",)),
        "List": make_class(lambda n: (list(range(n)),), {"n": ("INT",)}, ("INT",), OUTPUT_IS_LIST=(True,)),
        "Plus": make_class(
            expanding(lambda graph, x: (graph.node("Add", a=x, b=1).out(0), "literal")),
            any_input,
            ("INT", "*"),
        ),
    }


def test_results_come_from_the_expanded_nodes(runner, classes):
    run = runner(classes)
    for slot, expected in ((0, [6]), (1, ["literal"])):
        graph = GraphBuilder()
        graph.node("Show", value=graph.node("Plus", x=5).out(slot))
        assert run.shown(graph) == expected


def test_ids_tell_node_call_and_graph(runner, make_class, any_type):
    def two_graphs(x):
        graphs = [GraphBuilder(), GraphBuilder()]
        built = [graph.node("Value", value=x) for graph in graphs]
        return {"result": (built[1].out(0),), "expand": graphs[0].finalize() | graphs[1].finalize()}

    listed = make_class(lambda: ([1, 2],), {}, OUTPUT_IS_LIST=(True,))
    seen = []

    class Look:
        INPUT_TYPES = classmethod(lambda cls: {"required": {"x": ("*",)}, "hidden": {"graph": "DYNPROMPT"}})
        RETURN_TYPES = ()
        FUNCTION = "run"
        OUTPUT_NODE = True

        def run(self, x, graph):
            seen.append(graph.all_node_ids())
            return ()

    run = runner({"Two": make_class(two_graphs, {"x": ("*",)}), "List": listed, "Look": Look})
    prompt = {
        "1": {"class_type": "List", "inputs": {}},
        "2": {"class_type": "Two", "inputs": {"x": ["1", 0]}},
        "3": {"class_type": "Look", "inputs": {"x": ["2", 0]}},
    }
    assert run(prompt).status == "success"
    assert seen[0] == {"1", "2", "3", "2.0.0.1", "2.0.1.1", "2.1.0.1", "2.1.1.1"}
    # Nodes that no result links to do not run.
    assert set(run.started()) == {"1", "2", "2.0.1.1", "2.1.1.1", "3"}


def test_expanding_and_not_by_call(runner, classes, make_class):
    def sometimes(x):
        if x == 0:
            return (10,)
        if x == 1:
            return {"result": (11,)}
        graph = GraphBuilder()
        return {"result": (graph.node("Add", a=x, b=10).out(0),), "expand": graph.finalize()}

    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Some", x=graph.node("List", n=4).out(0)).out(0))
    some = make_class(sometimes, {"x": ("INT",)}, ("INT",))
    assert runner({**classes, "Some": some}).shown(graph) == [10, 11, 12, 13]


def test_a_list_from_inside_is_the_list_of_the_output(runner, classes, make_class):
    # ComfyUI takes the elements of such a list for further outputs.
    lists = make_class(
        expanding(lambda graph, n: (graph.node("List", n=n).out(0), 7)), {"n": ("INT",)}, ("INT", "INT")
    )
    run = runner({**classes, "Lists": lists})
    for slot, expected in ((0, [0, 1, 2]), (1, [7])):
        graph = GraphBuilder()
        graph.node("Show", value=graph.node("Lists", n=3).out(slot))
        assert run.shown(graph) == expected


def test_nested_expansion(runner, classes, make_class):
    def countdown(graph, x):
        added = graph.node("Plus", x=x)
        return (graph.node("Count", x=added.out(0)).out(0) if x < 5 else added.out(0),)

    run = runner({**classes, "Count": make_class(expanding(countdown), {"x": ("INT",)}, ("INT",))})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Count", x=0).out(0))
    assert run.shown(graph) == [6]
    inner = next(event for event in run.events if getattr(event, "node", "") == "1.0.0.2.0.0.1.0.0.1")
    assert (inner.display_node, inner.parent_node, inner.real_node) == ("1", "1.0.0.2.0.0.1", "1")


def test_a_loop_of_many_rounds(runner, classes, make_class):
    def loop(graph, x):
        if x == 0:
            return ("done",)
        return (graph.node("Loop", x=x - 1).out(0),)

    run = runner({"Loop": make_class(expanding(loop), {"x": ("INT",)})})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Loop", x=500).out(0))
    assert run.shown(graph) == ["done"]


def test_output_nodes_inside_run_and_show(runner, classes, make_class):
    def shows(graph, x):
        graph.node("Show", value=x)
        return (x,)

    run = runner({"Shows": make_class(expanding(shows), {"x": ("INT",)})})
    graph = GraphBuilder()
    graph.node("Show", "end", value=graph.node("Shows", "shows", x=3).out(0))
    assert run(graph).outputs == {"shows.0.0.1": {"value": [3]}, "end": {"value": [3]}}


def test_an_expansion_without_result(runner, make_class):
    node = make_class(
        lambda: {"expand": {"a": {"class_type": "Show", "inputs": {"value": 1}}}}, {}, (), OUTPUT_NODE=True
    )
    assert runner({"Node": node})({"1": {"class_type": "Node", "inputs": {}}}).outputs == {
        "a": {"value": [1]}
    }


def test_display_ids_can_be_set(runner, make_class):
    def build(graph):
        node = graph.node("Value", value=1)
        node.set_override_display_id("9")
        return (node.out(0),)

    run = runner({"Node": make_class(expanding(build), {})})
    run(
        {
            "1": {"class_type": "Node", "inputs": {}},
            "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
        }
    )
    (event,) = [e for e in run.events if isinstance(e, events.NodeStarted) and e.node == "1.0.0.1"]
    assert (event.display_node, event.parent_node) == ("9", "1")


def test_a_block_as_the_result_of_an_expansion(runner, make_class):
    node = make_class(lambda: {"expand": {}, "result": ExecutionBlocker(None)}, {}, ("A", "B"))
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Node").out(1))
    result = runner({"Node": node})(graph)
    assert result.status == "success" and result.outputs == {}


def test_blocks_come_out_of_an_expansion(runner, make_class):
    inside = make_class(lambda: (ExecutionBlocker("stop"),), {})
    node = make_class(expanding(lambda graph: (graph.node("Inside").out(0),)), {})
    run = runner({"Inside": inside, "Node": node})
    graph = GraphBuilder()
    show = graph.node("Show", value=graph.node("Node").out(0))
    assert run(graph).outputs == {}
    (told,) = [event for event in run.events if isinstance(event, events.NodeBlocked)]
    assert (told.node, told.message) == (show.id, "stop")


def fails(runner, make_class, expand, result=(), more=None):
    node = make_class(lambda: {"expand": expand, "result": result}, {}, OUTPUT_NODE=True)
    prompt = {"1": {"class_type": "Node", "inputs": {}}, "2": {"class_type": "Value", "inputs": {"value": 1}}}
    error = runner({"Node": node, **(more or {})})(prompt).error
    assert (error.real_node, error.node_type) == ("1", "Node")
    return error


def test_ids_that_are_taken(runner, make_class):
    error = fails(runner, make_class, {"2": {"class_type": "Value", "inputs": {"value": 2}}})
    assert error.exception_type.endswith("DuplicateNode")
    assert error.exception_message.startswith(
        "node 1 (Node) expands into node 2, an id that is already taken"
    )


def test_classes_and_nodes_that_do_not_exist(runner, make_class):
    error = fails(runner, make_class, {"a": {"class_type": "Nope", "inputs": {}}})
    assert error.exception_message == "there is no node class Nope\n"
    error = fails(runner, make_class, {}, (["b", 0],))
    assert error.exception_message == "there is no node b in the graph\n"
    dangling = {"a": {"class_type": "Value", "inputs": {"value": ["b", 0]}}}
    error = fails(runner, make_class, dangling, (["a", 0],))
    expected = "input value of node a (Value) links to node b, which is not in the graph\n"
    assert error.exception_message == expected


def test_an_output_that_does_not_exist(runner, make_class):
    inner = {"a": {"class_type": "Value", "inputs": {"value": 1}}}
    error = fails(runner, make_class, inner, (["a", 3],))
    assert error.exception_message == "the result links to output 3 of node a (Value), which gave 1\n"


def test_an_error_inside_is_the_error_of_the_visible_node(runner, make_class):
    broken = make_class(lambda: 1 / 0, {})
    inner = {"a": {"class_type": "Broken", "inputs": {}}}
    error = fails(runner, make_class, inner, (["a", 0],), {"Broken": broken})
    assert (error.node, error.exception_type) == ("a", "ZeroDivisionError")


@pytest.mark.parametrize("cache", ["classic", "lru:50", "none"])
def test_the_inside_of_an_expansion_is_cached_under_it(runner, classes, make_class, cache):
    def chain(graph, x):
        """x times: value + 1, starting at 0."""
        link = 0
        for _ in range(x):
            link = graph.node("Add", a=link, b=1).out(0)
        return (link,)

    run = runner({**classes, "Chain": make_class(expanding(chain), {"x": ("INT",)}, ("INT",))}, cache)

    def prompt(x):
        return {
            "1": {"class_type": "Chain", "inputs": {"x": x}},
            "2": {"class_type": "Show", "inputs": {"value": ["1", 0]}},
        }

    assert run.shown(prompt(2)) == [2]
    assert run.started() == ["1", "1.0.0.1", "1.0.0.2", "2"]
    assert run.shown(prompt(4)) == [4]
    kept = [] if cache == "none" else ["1.0.0.1", "1.0.0.2"]
    assert [node for node in run.started() if node.startswith("1.0.0")] == [
        node for node in ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"] if node not in kept
    ]
    run(prompt(4))
    assert (run.started() == []) == (cache != "none")
