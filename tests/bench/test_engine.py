"""The engine benchmark's own prompts; and that cost grows with the graph, counted rather than timed."""

import pytest
from slipstream.executor.bench import engine
from slipstream.executor.graph import Engine, validate


def test_the_chain_is_a_valid_prompt_of_that_length():
    prompt = engine.chain(50, 7)
    assert validate(prompt, engine.NODES).ok
    result = Engine(engine.NODES).run(prompt)
    assert result.outputs == {"49": {"value": [7]}} and len(result.executed) == 50


@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
def test_the_work_for_a_node_does_not_grow_with_the_graph(calls, cached):
    def per_node(length):
        graph_engine, prompt = Engine(engine.NODES), engine.chain(length, 7)
        if cached:
            graph_engine.run(prompt)
        return calls(lambda: graph_engine.run(prompt)) / length

    assert per_node(1000) < 1.1 * per_node(100)
