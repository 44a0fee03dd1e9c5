"""Checking a prompt before anything of it runs. Answers have the shape and the words of ComfyUI's, which
its clients know; where ComfyUI would show a Python traceback of its own validation, ours says in one
sentence what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import msgspec

from . import checks
from .prompt import Graph, GraphNode, Prompt, title
from .schema import Schemas, is_output
from .tasks import run_in_new_loop

Error = dict[str, Any]


class Validation(msgspec.Struct, frozen=True):
    """`ok` if at least one output can run; those that can are in `outputs`. `error` is None or
    `{type, message, details, extra_info}`; `node_errors` maps the id of each faulty node to
    `{errors, dependent_outputs, class_type}`, and may be non-empty although `ok`."""

    ok: bool
    error: Error | None
    outputs: list[str]
    node_errors: dict[str, Error]


def validate(prompt: Prompt, nodes: Mapping[str, type], targets: Collection[str] | None = None) -> Validation:
    """Validate `prompt` against the node classes; `targets` restricts the outputs to these node ids.

    Literals are converted to their declared types, and lists unwrapped, in the prompt itself. Not for
    use inside an event loop: there, await `validate_async`.
    """
    return run_in_new_loop(validate_async(prompt, nodes, targets))


async def validate_async(
    prompt: Prompt, nodes: Mapping[str, type], targets: Collection[str] | None = None
) -> Validation:
    refusal = _unusable(prompt, nodes)
    if refusal is not None:
        return Validation(False, refusal, [], {})
    requested = [
        node_id
        for node_id, node in prompt.items()
        if is_output(nodes[node["class_type"]]) and (targets is None or node_id in targets)
    ]
    if not requested:
        return Validation(False, _error("prompt_no_outputs", "Prompt has no outputs"), [], {})
    walk = _Walk(prompt, Schemas(nodes))
    for node_id in requested:
        await walk.visit(node_id)
    good = [node_id for node_id in requested if node_id not in walk.invalid]
    bad = [node_id for node_id in requested if node_id in walk.invalid]
    node_errors = walk.node_errors(bad)
    if good:
        return Validation(True, None, good, node_errors)
    reasons = [error for node_id in bad for error in walk.errors.get(node_id, ())] or walk.cycles
    details = "\n".join(f"{reason['message']}: {reason['details']}" for reason in reasons)
    error = _error("prompt_outputs_failed_validation", "Prompt outputs failed validation", details)
    return Validation(False, error, [], node_errors)


def _error(kind: str, message: str, details: str = "") -> Error:
    return {"type": kind, "message": message, "details": details, "extra_info": {}}


def _unusable(prompt: Prompt, nodes: Mapping[str, type]) -> Error | None:
    """Why no node of the prompt can be looked at: one without a class, or with one nobody knows."""
    if not isinstance(prompt, dict):
        return _error("invalid_prompt", "The prompt is not an object of nodes by id.", type(prompt).__name__)
    unknown: dict[str, Any] = {}
    for node_id, node in prompt.items():
        if not isinstance(node, dict) or not isinstance(node.get("class_type"), str):
            message = "Cannot execute because a node is missing the class_type property."
            return _error("invalid_prompt", message, f"Node ID '#{node_id}'")
        if node["class_type"] not in nodes:
            unknown[node_id] = node
    if not unknown:
        return None
    first = next(iter(unknown.values()))
    return _error(
        "invalid_prompt",
        f"Cannot execute because node {_class_and_title(first)} does not exist.",
        "\n".join(_unknown_details(unknown, nodes)),
    )


def _class_and_title(node: Mapping[str, Any]) -> str:
    class_type, name = node["class_type"], title(node)
    return class_type if name in (None, class_type) else f"{class_type} ('{name}')"


def _unknown_details(unknown: Mapping[str, Any], nodes: Mapping[str, type]) -> Iterator[str]:
    """A line per node of unknown class; all but the first, which the message names, name the class."""
    near: dict[str, list[str]] = {}
    for index, (node_id, node) in enumerate(unknown.items()):
        class_type = node["class_type"]
        if class_type not in near:
            near[class_type] = get_close_matches(class_type, nodes, n=3, cutoff=0.75)
        name = f": {_class_and_title(node)}" if index else ""
        hint = f", perhaps {' or '.join(near[class_type])}" if near[class_type] else ""
        yield f"Node ID '#{node_id}'{name}{hint}"


@dataclass
class _Visit:
    node: GraphNode
    via: checks.Via | None  # the input through which the node was reached first
    links: Iterator[checks.Via]
    found: checks.Found = field(default_factory=checks.Found)


class _Walk:
    """Depth-first from the outputs along links of matching type, without recursion: graphs are deep."""

    def __init__(self, prompt: Prompt, schemas: Schemas) -> None:
        self._graph = Graph(prompt)
        self._schemas = schemas
        self._sources: dict[str, list[str]] = {}  # of the nodes visited so far
        self.errors: dict[str, list[Error]] = {}  # of the node itself, not of those it depends on
        self.invalid: set[str] = set()  # nodes with errors or downstream of such
        self.cycles: list[Error] = []

    async def visit(self, root: str) -> None:
        path: dict[str, _Visit] = {}
        if root not in self._sources:
            path[root] = self._open(root, None)
        while path:
            visit = next(reversed(path.values()))
            via = next(visit.links, None)
            if via is None:
                del path[visit.node.id]
                await self._close(visit)
                continue
            source = via.link[0]
            self._sources[visit.node.id].append(source)
            if source in path:
                self._report_cycle(list(path.values()), source)
            elif source not in self._sources:
                path[source] = self._open(source, via)

    def _open(self, node_id: str, via: checks.Via | None) -> _Visit:
        """Check the node's own inputs, which also tells which links lead on."""
        self._sources[node_id] = []
        visit = _Visit(self._graph.node(node_id), via, iter(()))
        try:
            visit.found = checks.check_inputs(self._graph, visit.node, self._schemas)
            visit.links = iter(visit.found.links)
        except Exception as error:  # INPUT_TYPES is somebody else's code: it may raise anything
            self._fail(visit, error)
        return visit

    async def _close(self, visit: _Visit) -> None:
        """Everything upstream is known: let the class itself validate the inputs."""
        node_id, found = visit.node.id, visit.found
        if found.schema is not None:
            try:
                found.errors += await checks.custom_errors(visit.node, found.schema, found.received)
            except Exception as error:  # as above, for VALIDATE_INPUTS
                self._fail(visit, error)
        errors = visit.found.errors
        if errors:
            self.errors[node_id] = errors
        if errors or not self.invalid.isdisjoint(self._sources[node_id]):
            self.invalid.add(node_id)

    def _fail(self, visit: _Visit, error: Exception) -> None:
        visit.found = checks.Found(errors=[checks.exception_error(error, visit.via)])

    def _report_cycle(self, path: list[_Visit], start: str) -> None:
        first = next(index for index, visit in enumerate(path) if visit.node.id == start)
        cycle = path[first:][::-1]  # in the direction of the links
        error = checks.cycle_error([str(visit.node) for visit in cycle])
        self.cycles.append(error)
        for visit in cycle:
            visit.found.errors.append(error)

    def node_errors(self, bad_outputs: list[str]) -> dict[str, Error]:
        """The faulty nodes, each with the outputs that cannot run because of it."""
        result: dict[str, Error] = {}
        for output in bad_outputs:
            for node_id in self._invalid_upstream(output):
                if node_id not in self.errors:
                    continue
                if node_id not in result:
                    result[node_id] = {
                        "errors": self.errors[node_id],
                        "dependent_outputs": [],
                        "class_type": self._graph.node(node_id).class_type,
                    }
                result[node_id]["dependent_outputs"].append(output)
        return result

    def _invalid_upstream(self, output: str) -> list[str]:
        found = [output]
        seen = {output}
        for node_id in found:
            for source in self._sources[node_id]:
                if source in self.invalid and source not in seen:
                    seen.add(source)
                    found.append(source)
        return found
