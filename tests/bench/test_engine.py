"""The engine benchmark's own prompts, and its bounds on a small scale."""

import pytest
from slipstream.executor.bench import engine
from slipstream.executor.graph import Engine, validate


def test_the_chain_is_a_valid_prompt_of_that_length():
    prompt = engine.chain(50, 7)
    assert validate(prompt, engine.NODES).ok
    result = Engine(engine.NODES).run(prompt)
    assert result.outputs == {"49": {"value": [7]}} and len(result.executed) == 50


@pytest.mark.slow
def test_the_costs_are_met_and_do_not_grow_with_the_graph():
    *costs, uncached, cached = engine.measure()
    assert [figure for figure in costs if not figure.ok] == []
    # Memory traffic of other processes weighs on long chains more than on short ones. Anything quadratic
    # would be at 10 and more.
    assert uncached.value < 2 and cached.value < 2
