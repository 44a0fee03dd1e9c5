"""How much work something is, counted rather than timed: a test must not depend on what else runs."""

import sys

import pytest


@pytest.fixture
def calls():
    """`calls(work)`: the Python and C functions called while `work()` runs."""

    def counted(work):
        called = 0

        def count(frame, event, argument):
            nonlocal called
            called += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
        return called

    return counted
