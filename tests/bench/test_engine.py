"""The engine benchmark's own prompts; and that cost grows with the graph, counted rather than timed."""

import sys

import pytest
from slipstream.executor.bench import engine
from slipstream.executor.graph import Engine, validate


def test_the_chain_is_a_valid_prompt_of_that_length():
    prompt = engine.chain(50, 7)
    assert validate(prompt, engine.NODES).ok
    result = Engine(engine.NODES).run(prompt)
    assert result.outputs == {"49": {"value": [7]}} and len(result.executed) == 50


def calls_per_node(length, runs):
    """Python and C functions called for each node, in the last of `runs` runs of one chain."""
    called = 0

    def count(frame, event, argument):
        nonlocal called
        called += event in ("call", "c_call")

    graph_engine, prompt = Engine(engine.NODES), engine.chain(length, 7)
    for _ in range(runs):
        called = 0
        sys.setprofile(count)
        try:
            graph_engine.run(prompt)
        finally:
            sys.setprofile(None)
    return called / length


@pytest.mark.parametrize("runs", [1, 2], ids=["uncached", "cached"])
def test_the_work_for_a_node_does_not_grow_with_the_graph(runs):
    assert calls_per_node(1000, runs) < 1.1 * calls_per_node(100, runs)
