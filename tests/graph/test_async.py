"""Async nodes: several at once, beside sync ones."""

import asyncio
import time

import pytest
from slipstream.executor import context
from slipstream.executor.blocker import ExecutionBlocker
from slipstream.executor.graph import Engine, GraphBuilder, events, validate


@pytest.fixture
def meeting(make_class, any_type):
    """`Meet` nodes return only when `size` of them are under way at once."""
    state = {"inside": 0}

    async def meet(value, size):
        state["inside"] += 1
        deadline = time.monotonic() + 10
        while state["inside"] < size:
            assert time.monotonic() < deadline, "the others never came"
            await asyncio.sleep(0.001)
        return (value,)

    return {"Meet": make_class(meet, {"value": (any_type,), "size": ("INT",)})}


def test_they_run_at_the_same_time(runner, meeting):
    run = runner(meeting)
    graph = GraphBuilder()
    for i in range(3):
        graph.node("Show", value=graph.node("Meet", value=i, size=3).out(0))
    assert sorted(output["value"] for output in run(graph).outputs.values()) == [[0], [1], [2]]


def test_the_calls_for_a_list_run_at_the_same_time(runner, meeting, make_class):
    listed = make_class(lambda: ([1, 2, 3],), {}, OUTPUT_IS_LIST=(True,))
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Meet", value=graph.node("List").out(0), size=3).out(0))
    assert runner({**meeting, "List": listed}).shown(graph) == [1, 2, 3]


def test_those_of_an_expansion_run_at_the_same_time(runner, meeting, make_class):
    def expand():
        graph = GraphBuilder()
        met = [graph.node("Meet", value=i, size=2).out(0) for i in range(2)]
        return {"result": tuple(met), "expand": graph.finalize()}

    run = runner({**meeting, "Expand": make_class(expand, {}, ("A", "B"))})
    graph = GraphBuilder()
    node = graph.node("Expand")
    graph.node("Show", "a", value=node.out(0))
    graph.node("Show", "b", value=node.out(1))
    assert run(graph).outputs == {"a": {"value": [0]}, "b": {"value": [1]}}


def test_they_start_before_sync_nodes_and_go_on_beside_them(runner, make_class, any_type):
    log = []

    async def wait():
        log.append("async starts")
        await asyncio.sleep(0)
        log.append("async goes on")
        return (1,)

    def work(value):
        log.append(f"sync {value}")
        return (value,)

    run = runner({"Wait": make_class(wait, {}), "Work": make_class(work, {"value": (any_type,)})})
    graph = GraphBuilder()
    first = graph.node("Work", value=1)
    waited = graph.node("Wait")
    second = graph.node("Work", value=2)
    for node in (first, waited, second):
        graph.node("Show", value=graph.node("Value", value=node.out(0)).out(0))
    run(graph)
    assert log[0] == "async starts"
    assert log.index("async goes on") < 3


def test_one_that_waits_for_nothing_finishes_at_once(runner, make_class):
    async def now():
        return (1,)

    run = runner({"Now": make_class(now, {})})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Now").out(0))
    assert run.shown(graph) == [1]
    assert run.started() == ["1", "2"]


def test_blocked_elements_of_a_list(runner, meeting, make_class):
    listed = make_class(lambda: ([1, ExecutionBlocker(None), 3],), {}, OUTPUT_IS_LIST=(True,))
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Meet", value=graph.node("List").out(0), size=2).out(0))
    assert runner({**meeting, "List": listed}).shown(graph) == [1, 3]


def test_results_are_cached(runner, meeting):
    run = runner(meeting)
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Meet", value=1, size=1).out(0))
    run(graph)
    assert run.shown(graph) == [1] and run.started() == []


def test_lazy_async_and_expansion_together(runner, meeting, make_class, any_type):
    """A lazy input behind an async node inside an expansion, beside one that is never asked for."""
    lazy = ("*", {"lazy": True})
    choose = make_class(
        lambda flag, a=None, b=None: (a if flag else b,), {"flag": ("BOOLEAN",), "a": lazy, "b": lazy}
    )

    async def ask(self, flag, a=None, b=None):
        await asyncio.sleep(0)
        name, value = ("a", a) if flag else ("b", b)
        return [name] if value is None else []

    choose.check_lazy_status = ask

    def expand(flag):
        graph = GraphBuilder()
        a = graph.node("Meet", "a", value="A", size=1)
        b = graph.node("Meet", "b", value="B", size=99)
        return {
            "result": (graph.node("Choose", flag=flag, a=a.out(0), b=b.out(0)).out(0),),
            "expand": graph.finalize(),
        }

    run = runner({**meeting, "Choose": choose, "Expand": make_class(expand, {"flag": ("BOOLEAN",)})})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Expand", flag=True).out(0))
    assert run.shown(graph) == ["A"]
    assert not any(node.endswith("0.0.b") for node in run.started())


def test_each_knows_its_own_node(runner, make_class, any_type):
    async def report(value):
        await asyncio.sleep(0.001 * value)
        context.progress(value, 10)
        graph = GraphBuilder()
        await asyncio.sleep(0)
        return {
            "result": (graph.node("Value", value=context.current().node_id).out(0),),
            "expand": graph.finalize(),
        }

    run = runner({"Report": make_class(report, {"value": (any_type,)})})
    graph = GraphBuilder()
    for i in (3, 2, 1):
        graph.node("Show", f"show {i}", value=graph.node("Report", f"report {i}", value=i).out(0))
    assert run(graph).outputs == {f"show {i}": {"value": [f"report {i}"]} for i in (1, 2, 3)}
    progress = [(e.node, e.value) for e in run.events if isinstance(e, events.NodeProgress)]
    assert sorted(progress) == [(f"report {i}", i) for i in (1, 2, 3)]
    assert {f"report {i}.0.0.1" for i in (1, 2, 3)} < set(run.started())


@pytest.fixture
def failing(make_class, any_type):
    async def fail(value):
        await asyncio.sleep(0.001)
        raise RuntimeError(f"failed at {value}")

    return {"Fail": make_class(fail, {"value": (any_type,)})}


def test_an_error_after_a_wait(runner, failing):
    run = runner(failing)
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Fail", value=5).out(0))
    error = run(graph).error
    assert (error.node, error.node_type) == ("1", "Fail")
    assert (error.exception_type, error.exception_message) == ("RuntimeError", "failed at 5\n")
    assert error.current_inputs == {"value": [5]}
    # The engine is as good as new.
    graph = GraphBuilder()
    graph.node("Show", value=1)
    assert run.shown(graph) == [1]


def test_the_first_error_of_a_list_is_told(runner, failing, make_class):
    listed = make_class(lambda: ([1, 2],), {}, OUTPUT_IS_LIST=(True,))
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Fail", value=graph.node("List").out(0)).out(0))
    assert runner({**failing, "List": listed})(graph).error.exception_message == "failed at 1\n"


@pytest.fixture
def endless(make_class):
    """A node that never ends, and the log of what happened to it."""
    log = []

    async def forever():
        log.append("started")
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        return (1,)

    return log, {"Forever": make_class(forever, {})}


def test_an_error_elsewhere_stops_those_under_way(runner, endless, make_class):
    log, classes = endless
    run = runner({**classes, "Broken": make_class(lambda: 1 / 0, {})})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Forever").out(0))
    graph.node("Show", value=graph.node("Broken").out(0))
    assert run(graph).error.node_type == "Broken"
    assert log == ["started", "cancelled"]


def test_cancelling_while_they_wait(runner, endless):
    log, classes = endless
    run = runner(classes)
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Forever", "forever").out(0))
    start = time.monotonic()
    result = run(graph, cancelled=lambda: time.monotonic() > start + 0.1)
    assert time.monotonic() < start + 5
    assert log == ["started", "cancelled"]
    assert result.status == "interrupted" and result.error.node == "forever"


def test_cancelling_through_progress(runner, make_class):
    stop = []

    async def work():
        await asyncio.sleep(0.001)
        stop.append(True)
        context.progress(1, 2)
        raise AssertionError("not reached")

    run = runner({"Work": make_class(work, {})})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Work", "work").out(0))
    result = run(graph, cancelled=lambda: bool(stop))
    assert result.status == "interrupted" and result.error.node == "work"


def test_one_that_cancels_itself_is_an_error(runner, make_class):
    async def cancel():
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Cancel").out(0))
    result = runner({"Cancel": make_class(cancel, {})})(graph)
    assert result.status == "error" and "cancelled from inside" in result.error.exception_message


def test_what_nodes_leave_behind_is_stopped(runner, make_class):
    log = []

    async def background():
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("stopped")

    async def start():
        log.append(asyncio.create_task(background()))
        await asyncio.sleep(0)
        return (1,)

    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Start").out(0))
    assert runner({"Start": make_class(start, {})}).shown(graph) == [1]
    assert log[-1] == "stopped"


def test_inside_an_event_loop(runner, meeting):
    run = runner(meeting)
    graph = GraphBuilder()
    graph.node("Show", "show", value=graph.node("Meet", value=1, size=1).out(0))

    async def main():
        return await run.engine.run_async(graph.finalize())

    assert asyncio.run(main()).outputs == {"show": {"value": [1]}}


def test_the_sync_ways_say_so_inside_an_event_loop(runner):
    run = runner()

    async def main():
        with pytest.raises(RuntimeError, match="await run_async"):
            run.engine.run({})
        with pytest.raises(RuntimeError, match="validate_async"):
            validate({}, run.nodes)

    asyncio.run(main())


def test_one_prompt_at_a_time(runner, endless):
    _, classes = endless
    engine = Engine(runner(classes).nodes)
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Forever").out(0))

    async def main():
        first = asyncio.create_task(engine.run_async(graph.finalize()))
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="one at a time"):
            await engine.run_async(graph.finalize())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await engine.run_async({"1": {"class_type": "Show", "inputs": {"value": 1}}})

    assert asyncio.run(main()).status == "success"
