"""Which results are used again, and how long they are kept."""

import gc
import weakref

import pytest
from slipstream.executor.graph import Engine, GraphBuilder, events

KEEPING = ["classic", "lru:100"]


class Rerun:
    """Runs prompts in turn and tells which nodes were called in each."""

    def __init__(self, run):
        self.run = run

    def __call__(self, prompt, **options):
        result = self.run(prompt, **options)
        assert result.status == "success", result.error
        return [node_id for node_id in self.run.started() if node_id != "show"]


@pytest.fixture(params=KEEPING)
def rerun(request, runner, make_class, any_type):
    def classes(**more):
        inputs = {"a?": (any_type,), "b?": (any_type,)}
        node = make_class(lambda a=0, b=0: ((a, b),), inputs)
        return Rerun(runner({"Node": node, **more}, request.param))

    return classes


def single(inputs, node_id="1", class_type="Node"):
    return {
        node_id: {"class_type": class_type, "inputs": inputs},
        "show": {"class_type": "Show", "inputs": {"value": [node_id, 0]}},
    }


def test_equal_prompts(rerun):
    called = rerun()
    assert called(single({"a": 1})) == ["1"]
    assert called(single({"a": 1})) == []
    assert called.run.events[1].nodes == ["1", "show"]
    assert called(single({"a": 2})) == ["1"]
    assert called(single({"a": 2}, "other id")) == []  # only the place of a node counts


def test_what_cached_outputs_show_is_told_again(rerun):
    called = rerun()
    first = called.run(single({"a": 1}))
    second = called.run(single({"a": 1}))
    assert second.outputs == first.outputs == {"show": {"value": [(1, 0)]}}
    assert (second.executed, second.cached) == ([], ["1", "show"])
    told = [e for e in called.run.events if isinstance(e, events.NodeOutput)]
    assert [(event.node, event.output) for event in told] == [("show", {"value": [(1, 0)]})]


def test_a_change_upstream_reaches_down(rerun):
    called = rerun()

    def prompt(value):
        return {
            "1": {"class_type": "Node", "inputs": {"a": value}},
            "2": {"class_type": "Node", "inputs": {"a": 5}},
            "3": {"class_type": "Node", "inputs": {"a": ["1", 0], "b": ["2", 0]}},
            "show": {"class_type": "Show", "inputs": {"value": ["3", 0]}},
        }

    assert sorted(called(prompt(1))) == ["1", "2", "3"]
    assert called(prompt(2)) == ["1", "3"]


def test_which_output_a_link_takes_counts(rerun, make_class):
    called = rerun(Two=make_class(lambda: (1, 2), {}, ("A", "B")))

    def prompt(slot):
        return {
            "1": {"class_type": "Two", "inputs": {}},
            "2": {"class_type": "Node", "inputs": {"a": ["1", slot]}},
            "show": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
        }

    called(prompt(0))
    assert called(prompt(1)) == ["2"]


def test_the_order_in_which_inputs_are_written_does_not_count(rerun):
    called = rerun()
    called(single({"a": 1, "b": {"x": 1, "y": [2]}}))
    assert called(single({"b": {"y": [2], "x": 1}, "a": 1})) == []


@pytest.mark.parametrize("values", [(1, "1"), (1, True), ([1, 2], [[1], 2]), ("", None)])
def test_values_that_differ(rerun, values):
    called = rerun()
    called(single({"a": {"__value__": values[0]}}))
    assert called(single({"a": {"__value__": values[1]}})) == ["1"]


@pytest.mark.parametrize(
    "value", [float("nan"), {"x": [1, float("nan")]}, object(), 1 << 80, {"a": {1: 2}}, "\ud800"]
)
def test_values_that_cannot_be_compared(rerun, value):
    called = rerun()
    prompt = single({"a": value})
    called(prompt)
    assert called(prompt) == ["1"]


def test_strings_of_other_classes_compare_like_strings(rerun, any_type):
    called = rerun()
    called(single({"a": any_type}))
    assert called(single({"a": "*"})) == []


def test_equal_nodes_of_one_prompt_run_once(rerun):
    called = rerun()
    prompt = single({"a": 1}) | {"2": {"class_type": "Node", "inputs": {"a": 1}}}
    prompt["show 2"] = {"class_type": "Show", "inputs": {"value": ["2", 0]}}
    result = called.run(prompt)
    assert len(called.run.started()) == 2
    assert result.outputs == {"show": {"value": [(1, 0)]}, "show 2": {"value": [(1, 0)]}}


def test_is_changed(rerun, make_class):
    state = {"value": 1}

    def changed(cls, a, me):
        assert (a, me) == (None, "2")
        if isinstance(state["value"], Exception):
            raise state["value"]
        return state["value"]

    node = make_class(lambda a, me: (a,), {"a": ("*",), "me!": "UNIQUE_ID"}, IS_CHANGED=classmethod(changed))
    called = rerun(Changing=node)
    prompt = single({"a": 7}) | {"2": {"class_type": "Changing", "inputs": {"a": ["1", 0]}}}
    prompt["show"]["inputs"]["value"] = ["2", 0]
    assert called(prompt) == ["1", "2"]
    assert called(prompt) == []
    state["value"] = "other"
    assert called(prompt) == ["2"]
    for never in (float("nan"), [float("nan")], object(), ValueError("no")):
        state["value"] = never
        assert called(prompt) == ["2"]
        assert called(prompt) == ["2"]


def test_async_is_changed(rerun, make_class):
    async def changed(cls):
        return float("nan")

    called = rerun(Changing=make_class(lambda: (1,), {}, IS_CHANGED=classmethod(changed)))
    prompt = single({}, class_type="Changing")
    assert called(prompt) == called(prompt) == ["1"]


def test_nodes_downstream_of_one_that_always_runs_run_too(rerun, make_class):
    changing = make_class(lambda: (1,), {}, IS_CHANGED=classmethod(lambda cls: float("nan")))
    called = rerun(Changing=changing)
    prompt = single({"a": ["2", 0]}) | {"2": {"class_type": "Changing", "inputs": {}}}
    assert called(prompt) == called(prompt) == ["2", "1"]
    assert called.run.events[1].nodes == []


@pytest.mark.parametrize(
    ("inputs", "attributes"), [({"me!": "UNIQUE_ID"}, {}), ({}, {"NOT_IDEMPOTENT": True})]
)
def test_the_id_counts_for_classes_that_say_so(rerun, make_class, inputs, attributes):
    called = rerun(Node=make_class(lambda **_: (1,), inputs, **attributes))
    called(single({}, "1"))
    assert called(single({}, "1")) == []
    assert called(single({}, "2")) == ["2"]


def test_what_ran_before_an_error_is_kept(rerun, make_class):
    called = rerun(Broken=make_class(lambda a: 1 / 0, {"a": ("*",)}))
    prompt = single({"a": 1}) | {"2": {"class_type": "Broken", "inputs": {"a": ["1", 0]}}}
    broken = prompt | {"show": {"class_type": "Show", "inputs": {"value": ["2", 0]}}}
    assert called.run(broken).status == "error"
    assert called(prompt) == []


def test_nodes_of_other_outputs_stay_cached(rerun):
    called = rerun()
    prompt = single({"a": 1}) | {"2": {"class_type": "Node", "inputs": {"a": 2}}}
    prompt["show 2"] = {"class_type": "Show", "inputs": {"value": ["2", 0]}}
    called(prompt)
    assert called(prompt, outputs=["show 2"]) == []
    assert set(called.run.events[1].nodes) == set(prompt)
    assert called(prompt) == []


def test_unreachable_nodes_may_be_malformed(rerun):
    called = rerun()
    prompt = single({"a": 1}) | {
        "no inputs": {"class_type": "Node"},
        "dangling": {"class_type": "Node", "inputs": {"a": ["nowhere", 0]}},
        "x": {"class_type": "Node", "inputs": {"a": ["y", 0]}},
        "y": {"class_type": "Node", "inputs": {"a": ["x", 0]}},
    }
    assert called(prompt) == ["1"]
    assert called.run(prompt).cached == ["1", "show"]


def test_classic_keeps_what_the_latest_prompt_can_use(runner):
    called = Rerun(runner(cache="classic"))

    def prompt(value):
        return single({"value": value}, class_type="Value")

    called(prompt(1))
    called(prompt(2))
    assert called(prompt(1)) == ["1"]


def test_lru_keeps_the_results_used_last(runner):
    called = Rerun(runner(cache="lru:4"))

    def prompt(value):  # two results: Value and Show
        return single({"value": value}, class_type="Value")

    for value in (1, 2, 1, 3):
        called(prompt(value))
    # Room is made when a prompt begins, and 1 was used after 2.
    assert called(prompt(1)) == []
    assert called(prompt(2)) == ["1"]
    assert called(prompt(3)) == []
    assert called(prompt(1)) == ["1"]


def test_lru_never_drops_what_the_prompt_uses(runner):
    run = runner(cache="lru:1")
    graph = GraphBuilder()
    value = graph.node("Value", value=1)
    for _ in range(10):
        value = graph.node("Value", value=value.out(0))
    graph.node("Show", value=value.out(0))
    run(graph)
    assert len(run(graph).cached) == 12


def test_no_cache_runs_everything_again(runner):
    called = Rerun(runner(cache="none"))
    assert called(single({"value": 1}, class_type="Value")) == ["1"]
    assert called(single({"value": 1}, class_type="Value")) == ["1"]


class Big:
    """A result whose life can be watched."""


@pytest.fixture
def watched(make_class, any_type):
    alive = weakref.WeakSet()

    def make(**_):
        big = Big()
        alive.add(big)
        return (big,)

    def count(**_):
        return (len(alive),)

    inputs = {"a?": (any_type,), "b?": (any_type,)}
    return alive, {
        "Make": make_class(make, inputs, NOT_IDEMPOTENT=True),
        "Count": make_class(count, inputs, NOT_IDEMPOTENT=True),
    }


def test_no_cache_drops_results_after_their_last_use(runner, watched):
    alive, classes = watched
    run = runner(classes, "none")
    graph = GraphBuilder()
    link = graph.node("Make").out(0)
    for _ in range(5):
        link = graph.node("Make", a=link).out(0)
    graph.node("Show", value=graph.node("Count", a=link).out(0))
    # The one it is given, and none of the five before.
    assert run.shown(graph) == [1]
    assert len(alive) == 0


def test_no_cache_keeps_what_a_lazy_input_may_ask_for(runner, watched, make_class):
    _, classes = watched
    lazy = make_class(lambda a, b: (a,), {"a": ("*", {"lazy": True}), "b": ("*",)})
    lazy.check_lazy_status = lambda self, a, b: ["a"] if a is None else []
    run = runner({**classes, "Lazy": lazy}, "none")
    graph = GraphBuilder()
    made = graph.node("Make", "made")
    graph.node("Show", "early", value=made.out(0))
    count = graph.node("Count", b=graph.node("Value", value=made.out(0)).out(0))
    graph.node("Show", value=graph.node("Lazy", a=made.out(0), b=count.out(0)).out(0))
    assert run(graph).status == "success"
    assert run.started().count("made") == 1


def test_no_cache_runs_a_dropped_node_again_if_an_expansion_links_to_it(runner, make_class, any_type):
    def late(a, graph):
        builder = GraphBuilder()
        # Reaches for a node that nothing else needs any more, and that is an expansion itself.
        return {"result": (builder.node("Value", value=["made", 0]).out(0),), "expand": builder.finalize()}

    def made():
        builder = GraphBuilder()
        return {"result": (builder.node("Value", value=8).out(0),), "expand": builder.finalize()}

    hidden = {"a": (any_type,), "graph!": "DYNPROMPT"}
    run = runner({"Late": make_class(late, hidden), "Made": make_class(made, {})}, "none")
    prompt = {
        "made": {"class_type": "Made", "inputs": {}},
        "used": {"class_type": "Value", "inputs": {"value": ["made", 0]}},
        "again": {"class_type": "Value", "inputs": {"value": ["used", 0]}},
        "late": {"class_type": "Late", "inputs": {"a": ["again", 0]}},
        "show": {"class_type": "Show", "inputs": {"value": ["late", 0]}},
    }
    assert run.shown(prompt) == [8]
    assert run.started().count("made") == 2


@pytest.mark.parametrize("fail", [False, True])
def test_results_do_not_wait_for_the_garbage_collector(runner, watched, make_class, fail):
    alive, classes = watched
    broken = make_class(lambda a: 1 / 0, {"a": ("*",)})
    run = runner({**classes, "Broken": broken}, "none")
    graph = GraphBuilder()
    link = graph.node("Make").out(0)
    graph.node(
        "Show", value=graph.node("Broken", a=link).out(0) if fail else graph.node("Count", a=link).out(0)
    )
    gc.collect()
    gc.disable()
    try:
        run(graph)
        assert len(alive) == 0
    finally:
        gc.enable()


def test_clear_forgets_everything(runner, watched):
    alive, classes = watched
    run = runner(classes)
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Count", a=graph.node("Make").out(0)).out(0))
    run(graph)
    assert len(alive) == 1
    run.engine.clear()
    assert len(alive) == 0
    assert run(graph).cached == []


@pytest.mark.parametrize("mode", ["lru", "lru:0", "lru:x", "LRU:3", "ram", ""])
def test_cache_modes_that_do_not_exist(mode):
    with pytest.raises(ValueError, match="choose classic, lru:N"):
        Engine({}, mode)
