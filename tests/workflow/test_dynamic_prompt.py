import random

import pytest
from slipstream.executor.workflow.dynamic_prompt import resolve


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a {red|green} star", "a red star"),
        ("a {{red|green} big|small} star", "a red big star"),
        (r"curly \{a\|b\}", "curly {a|b}"),
        ("one /* not\nthis */ two // nor this\nthree", "one  two \nthree"),
        ("a | b", "a | b"),
        ("open {a|b", "open a"),
        ("", ""),
    ],
)
def test_first_alternative(text, first):
    assert resolve(text) == first


def test_drawn_by_the_generator_and_repeatable():
    drawn = {resolve("{a|b|c}", random.Random(seed)) for seed in range(30)}
    assert drawn == {"a", "b", "c"}
    assert resolve("{a|b|c} {d|e}", random.Random(5)) == resolve("{a|b|c} {d|e}", random.Random(5))
