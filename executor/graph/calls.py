"""Mapping a node's function over its input lists, and making sense of what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from ..blocker import ExecutionBlocker
from .inputs import Inputs
from .prompt import is_link
from .schema import ClassFacts

Outputs = list[list[Any]]


def argument_sets(inputs: Inputs, as_lists: bool) -> list[dict[str, Any]]:
    """The arguments of each call: one call per element of the longest list, shorter lists repeating
    their last element. `as_lists` makes it one call with the lists themselves; an empty list none."""
    if as_lists or not inputs:
        return [inputs]
    lengths = {len(values) for values in inputs.values()}
    if 0 in lengths:
        return []
    return [
        {name: values[i if i < len(values) else -1] for name, values in inputs.items()}
        for i in range(max(lengths))
    ]


def blocker_among(arguments: dict[str, Any], as_lists: bool) -> ExecutionBlocker | None:
    """The first argument (or element of one, for list arguments) that blocks the call."""
    values = chain.from_iterable(arguments.values()) if as_lists else arguments.values()
    for value in values:
        if isinstance(value, ExecutionBlocker):
            return value
    return None


async def call_each(function: Callable[..., Any], inputs: Inputs, as_lists: bool) -> list[Any]:
    """Results of a class's helper functions, which may be async; None for a blocked call."""
    results = []
    for arguments in argument_sets(inputs, as_lists):
        if blocker_among(arguments, as_lists) is not None:
            results.append(None)
            continue
        result = function(**arguments)
        results.append(await result if inspect.iscoroutine(result) else result)
    return results


class Returned(NamedTuple):
    """What one call returned: a value per output, and the nodes it expanded into."""

    values: Sequence[Any]
    graph: dict[str, Any] | None = None


def unpack(results: list[Any], facts: ClassFacts) -> tuple[list[Returned], dict[str, list[Any]]]:
    """What each call returned, and what they show, joined per key. Calls that only show are left out."""
    returned: list[Returned] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        if not isinstance(result, dict):
            returned.append(Returned(_values(result, facts)))
            continue
        if "ui" in result:
            shown.append(result["ui"])
        if "expand" in result:
            returned.append(Returned(_values(result.get("result"), facts), result["expand"]))
        elif "result" in result:
            returned.append(Returned(_values(result["result"], facts)))
    ui = {key: [item for part in shown for item in part.get(key, ())] for key in shown[0]} if shown else {}
    return returned, ui


def _values(result: Any, facts: ClassFacts) -> Sequence[Any]:
    if isinstance(result, ExecutionBlocker):
        return (result,) * len(facts.return_types)
    if result is None:
        if facts.return_types:
            raise TypeError(f"{facts.function} returned None instead of {len(facts.return_types)} outputs")
        return ()
    return result


def merge(returned: list[Returned], facts: ClassFacts, resolve: Callable[[list[Any]], list[Any]]) -> Outputs:
    """One list per output, over all calls in order. `resolve(link)` gives the list of results that a
    link into an expanded graph stands for."""
    calls = [_spread(values, facts, resolve if graph is not None else None) for values, graph in returned]
    if len(calls) <= 1:
        return calls[0] if calls else []
    return [[value for call in calls for value in call[slot]] for slot in range(len(calls[0]))]


def _spread(values: Sequence[Any], facts: ClassFacts, resolve: Callable[..., list[Any]] | None) -> Outputs:
    outputs: Outputs = []
    for value, is_list in zip(values, facts.output_is_list or repeat(False), strict=False):
        if resolve is not None and is_link(value):
            outputs.append(resolve(value))
        elif is_list and not isinstance(value, ExecutionBlocker):
            outputs.append(list(value))
        else:
            outputs.append([value])
    return outputs
