"""The order in which nodes run, and graphs of unusual size."""

import time

from slipstream.executor.graph import Engine, GraphBuilder, events


def test_outputs_run_as_soon_as_they_can(runner):
    run = runner()
    graph = GraphBuilder()
    a = graph.node("Value", "a", value=1)
    graph.node("Show", "show a", value=a.out(0))
    b = graph.node("Value", "b", value=a.out(0))
    graph.node("Show", "show b", value=b.out(0))
    run(graph)
    assert run.started() == ["a", "show a", "b", "show b"]


def test_nodes_near_an_output_come_first(runner):
    """Among nodes that are ready: one that feeds an output, then one two links away, then the rest."""
    run = runner()
    graph = GraphBuilder()
    far = graph.node("Value", "far", value=1)
    for i in range(3):
        far = graph.node("Value", f"far {i}", value=far.out(0))
    near = graph.node("Value", "near 2", value=2)
    near = graph.node("Value", "near 1", value=near.out(0))
    direct = graph.node("Value", "direct", value=3)
    for node in (far, near, direct):
        graph.node("Show", value=node.out(0))
    run(graph)
    ready = [node for node in run.started() if node in ("far", "near 2", "direct")]
    assert ready == ["direct", "near 2", "far"]


def test_only_what_the_requested_outputs_need_runs(runner):
    run = runner()
    graph = GraphBuilder()
    values = [graph.node("Value", f"value {i}", value=i) for i in range(3)]
    for i, node in enumerate(values):
        graph.node("Show", f"show {i}", value=node.out(0))
    assert run(graph, outputs=["show 1"]).outputs == {"show 1": {"value": [1]}}
    assert run.started() == ["value 1", "show 1"]


def test_an_output_node_on_the_way_runs_although_not_requested(runner, make_class, any_type):
    both = make_class(
        lambda value: {"ui": {"x": [value]}, "result": (value,)}, {"value": (any_type,)}, OUTPUT_NODE=True
    )
    run = runner({"Both": both})
    graph = GraphBuilder()
    graph.node("Show", "end", value=graph.node("Both", "way", value=1).out(0))
    assert run(graph, outputs=["end"]).outputs == {"way": {"x": [1]}, "end": {"value": [1]}}


def test_any_node_can_be_requested(runner):
    run = runner()
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Value", "value", value=1).out(0))
    run(graph, outputs=["value"])
    assert run.started() == ["value"]


def chain(length):
    prompt = {"0": {"class_type": "Value", "inputs": {"value": 7}}}
    for i in range(1, length):
        prompt[str(i)] = {"class_type": "Value", "inputs": {"value": [str(i - 1), 0]}}
    prompt["show"] = {"class_type": "Show", "inputs": {"value": [str(length - 1), 0]}}
    return prompt


def test_a_chain_of_5000(runner):
    for cache in ("classic", "lru:10", "none"):
        run = runner(cache=cache)
        assert run.shown(chain(5000)) == [7]
        again = run(chain(5000))
        assert again.outputs == {"show": {"value": [7]}}
        assert len(again.executed) == (0 if cache != "none" else 5001)


def test_events_say_only_what_is_new(runner):
    run = runner()
    run(chain(1000))
    assert len(run.events) == 3 + 2 * 1001 + 1
    sizes = {sum(len(str(getattr(e, f))) for f in e.__struct_fields__) for e in run.events[2:-1]}
    assert max(sizes) < 50


def test_2000_inputs_into_one_node(runner, make_class):
    inputs = {f"x{i}": ("INT",) for i in range(2000)}
    total = make_class(lambda **given: (sum(given.values()),), inputs, ("INT",))
    run = runner({"Sum": total})
    graph = GraphBuilder()
    # Alternately 2,000 sources and one source 2,000 times.
    links = {name: graph.node("Value", value=i).out(0) for i, name in enumerate(inputs)}
    wide = graph.node("Sum", **links)
    narrow = graph.node("Sum", **dict.fromkeys(inputs, wide.out(0)))
    graph.node("Show", value=narrow.out(0))
    start = time.process_time()
    assert run.shown(graph) == [2000 * sum(range(2000))]
    assert time.process_time() - start < 2


def test_one_node_into_2000(runner):
    run = runner()
    graph = GraphBuilder()
    value = graph.node("Value", value=1)
    for _ in range(2000):
        graph.node("Show", value=value.out(0))
    result = run(graph)
    # All of them are equal, so one is called.
    assert len(result.executed) == 2 and len(result.outputs) == 2000


def test_2000_async_nodes(runner, make_class):
    import asyncio

    async def wait(value):
        await asyncio.sleep(0.001)
        return (value,)

    graph = GraphBuilder()
    inputs = {f"x{i}": ("INT",) for i in range(2000)}
    links = {name: graph.node("Wait", value=i).out(0) for i, name in enumerate(inputs)}
    graph.node("Show", value=graph.node("Sum", **links).out(0))
    total = make_class(lambda **given: (sum(given.values()),), inputs, ("INT",))
    run = runner({"Sum": total, "Wait": make_class(wait, {"value": ("INT",)})})
    start = time.process_time()
    assert run.shown(graph) == [sum(range(2000))]
    assert time.process_time() - start < 3


def test_events_are_messages():
    """They travel between processes: all but previews survive msgspec."""
    import msgspec

    event = events.NodeStarted("p", "2.0.0.1", "2", "2", "2")
    kinds = events.NodeStarted | events.NodeFinished | events.ExecutionFailed
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=kinds) == event


def test_importing_the_engine_does_not_import_torch():
    import subprocess
    import sys

    code = "import sys, slipstream.executor.graph; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_the_table_of_classes_may_grow():
    nodes = {}
    engine = Engine(nodes)

    class Late:
        INPUT_TYPES = classmethod(lambda cls: {})
        RETURN_TYPES = ()
        FUNCTION = "run"
        OUTPUT_NODE = True

        def run(self):
            return {"ui": {"x": [1]}}

    nodes["Late"] = Late
    assert engine.run({"1": {"class_type": "Late", "inputs": {}}}).outputs == {"1": {"x": [1]}}
