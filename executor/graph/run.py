"""One run of one prompt: nodes in order, each from its inputs to its result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Literal

import msgspec

from .. import context
from ..blocker import ExecutionBlocker
from . import builder, events, failure
from .cache import Cache, Entry
from .calls import Outputs, Returned, argument_sets, blocker_among, call_each, merge, unpack
from .dependencies import Dependencies
from .failure import DependencyCycle, NodeInputError
from .inputs import Inputs, gather, hidden_values
from .prompt import DuplicateNode, Graph, GraphNode, Prompt, is_link
from .results import Results
from .schedule import Schedule
from .schema import ClassFacts, NodeSchema, Schemas
from .tasks import Tasks, outcome

_POLL_SECONDS = 0.05  # how often `cancelled` is asked while only async calls are under way

# Objects by id and class; for a node of an expansion, preceded by those of the node of the prompt.
Instances = dict[tuple[str, ...], Any]


class Result(msgspec.Struct, frozen=True):
    """How a run ended. `outputs` is what nodes show, by node id; `error` the last event of a run that
    failed or was interrupted; `executed` the nodes called, in order of completion; `cached` those whose
    results were there; `seconds` the time in each node's own calls."""

    status: Literal["success", "error", "interrupted"]
    outputs: dict[str, dict[str, Any]]
    error: events.ExecutionFailed | events.ExecutionInterrupted | None
    executed: list[str]
    cached: list[str]
    seconds: dict[str, float]


class Run:
    """The state of the run. A node is visited when its inputs are there; where it has to wait on the way
    (for lazy inputs, async calls, the nodes it expands into) it is visited again, at `_resume`."""

    def __init__(
        self,
        prompt: Prompt,
        *,
        nodes: Mapping[str, type],
        cache: Cache,
        instances: Instances,
        prompt_id: str,
        extra_data: Mapping[str, Any],
        sink: Callable[[events.Event], None],
        cancelled: Callable[[], bool],
        on_error: Callable[[Exception], str | None] | None,
    ) -> None:
        self._prompt_id = prompt_id
        self._emit = sink
        self._cancelled = cancelled
        self._on_error = on_error
        self._instances = instances
        self._graph = Graph(prompt)
        self._schemas = Schemas(nodes)
        # Nothing here refers back to the run: results must go with it, not wait for the garbage collector.
        self._results = Results(self._graph, self._schemas, cache)
        self._schedule = Schedule(Dependencies(self._graph, self._schemas, self._results))
        self._tasks = Tasks(self._schedule)
        self._hidden = hidden_values(self._graph, extra_data)
        self._current: GraphNode | None = None
        self._resume: dict[str, Callable[[], Awaitable[Outputs | None]]] = {}
        self._inputs: dict[str, Inputs] = {}  # of nodes under way
        self._shown: dict[str, dict[str, Any]] = {}
        self._executed: list[str] = []
        self._seconds: dict[str, float] = {}

    async def execute(self, outputs: list[str]) -> Result:
        """Run these nodes. Raises NodeNotFound for one that is not in the prompt."""
        requested = [self._graph.node(node_id) for node_id in outputs]
        self._emit(events.ExecutionStarted(self._prompt_id, failure.now()))
        owners = {node.owner for node in self._graph.nodes.values()}
        cached = await self._results.start(outputs, owners)
        for key in [key for key in self._instances if key[:2] not in owners]:
            del self._instances[key]
        self._emit(events.ExecutionCached(self._prompt_id, cached, failure.now()))
        error: events.ExecutionFailed | events.ExecutionInterrupted | None = None
        try:
            with builder.numbering():
                for node in requested:
                    self._current = node
                    self._schedule.require(node)
                while self._schedule:
                    await self._step()
        except context.Interrupted:
            error = failure.interrupted(self._prompt_id, self._graph, self._current, self._executed)
        except Exception as raised:  # nodes are somebody else's code: they may raise anything
            error = self._failed(raised)
        finally:
            self._resume.clear()
            await self._tasks.cancel()
        self._emit(error or events.ExecutionSucceeded(self._prompt_id, failure.now()))
        status = "success"
        if error is not None:
            status = "error" if isinstance(error, events.ExecutionFailed) else "interrupted"
        return Result(status, self._shown, error, self._executed, cached, self._seconds)

    def _failed(self, error: Exception) -> events.ExecutionFailed:
        advice = self._on_error(error) if self._on_error is not None else None
        node, inputs = self._current, {}
        if node.id in self._inputs:
            hidden = self._schemas[node.class_type].hidden  # among them tokens that must not be shown
            inputs = {name: values for name, values in self._inputs[node.id].items() if name not in hidden}
        return failure.failed(self._prompt_id, self._graph, node, error, inputs, self._executed, advice)

    async def _step(self) -> None:
        node = self._schedule.next()
        if node is not None:
            self._current = node
            self._check_cancelled()
            await self._visit(node)
            if self._tasks:
                await asyncio.sleep(0)  # lets async calls go on between sync ones
        elif self._tasks:
            self._current = self._tasks.first_node()
            await self._tasks.wait(_POLL_SECONDS)
            self._check_cancelled()
        else:
            raise DependencyCycle(self._schedule.cycle())

    def _check_cancelled(self) -> None:
        if self._cancelled():
            raise context.Interrupted

    async def _visit(self, node: GraphNode) -> None:
        resume = self._resume.pop(node.id, None)
        entry = self._results.get(node) if resume is None else None
        if entry is None:
            outputs = await (self._begin(node) if resume is None else resume())
            if outputs is None:
                self._schedule.retry(node)
                return
            self._results.put(node, Entry(outputs, self._shown.get(node.id)))
            self._executed.append(node.id)
        else:
            if entry.ui is not None:
                self._shown[node.id] = entry.ui
            self._emit(events.NodeOutput(self._prompt_id, *node.ids, entry.ui))
        self._emit(events.NodeFinished(self._prompt_id, *node.ids))
        self._inputs.pop(node.id, None)
        self._schedule.complete(node)
        self._results.finished(node)

    async def _begin(self, node: GraphNode) -> Outputs | None:
        """Call the node. None if it has to wait, for its lazy inputs or its async calls."""
        schema = self._schemas[node.class_type]
        self._emit(events.NodeStarted(self._prompt_id, *node.ids))
        inputs, missing = gather(node, schema, self._results.of, self._hidden)
        self._inputs[node.id] = inputs
        instance = self._instance(node, schema)
        report = partial(self._report, node)
        with context.entered(context.NodeContext(self._prompt_id, node.id, report, self._cancelled)):
            if schema.facts.checks_lazy and await self._ask_lazy(node, instance, inputs, missing):
                return None
            started = perf_counter()
            results = self._call(node, getattr(instance, schema.facts.function), inputs, schema.facts)
        tasks = [result for result in results if isinstance(result, asyncio.Task)]
        if tasks:
            await asyncio.sleep(0)  # the calls that wait for nothing get done
            if not all(task.done() for task in tasks):
                self._tasks.hold(node, tasks)
                self._resume[node.id] = partial(self._end, node, schema.facts, results, started)
                return None
        return await self._end(node, schema.facts, results, started)

    def _instance(self, node: GraphNode, schema: NodeSchema) -> Any:
        """The node's object, the same for every prompt that has the node."""
        key = node.owner if node.parent is None else self._graph.node(node.root).owner + node.owner
        instance = self._instances.get(key)
        if instance is None:
            instance = self._instances[key] = schema.node_class()
        return instance

    async def _ask_lazy(self, node: GraphNode, instance: Any, inputs: Inputs, missing: set[str]) -> bool:
        """Ask the node which lazy inputs it needs, and make it wait for those it does not have."""
        as_lists = self._schemas[node.class_type].facts.input_is_list
        answers = await call_each(instance.check_lazy_status, inputs, as_lists)
        lists = [answer for answer in answers if isinstance(answer, (list, tuple, set))]
        wanted = dict.fromkeys(name for names in lists for name in names if isinstance(name, str))
        waits = False
        for name in wanted:
            if name in inputs and name not in missing:
                continue
            if name not in node.links:
                what = "holds a constant there" if name in node.inputs else "has no such input"
                raise NodeInputError(f"node {node} asks for its input {name}, but it {what}")
            self._schedule.wait_for(node, self._graph.node(node.links[name][0]))
            waits = True
        return waits

    def _call(
        self, node: GraphNode, function: Callable[..., Any], inputs: Inputs, facts: ClassFacts
    ) -> list[Any]:
        """Call the node's function for each set of arguments; async calls come back as tasks."""
        results: list[Any] = []
        for index, arguments in enumerate(argument_sets(inputs, facts.input_is_list)):
            self._check_cancelled()
            blocker = blocker_among(arguments, facts.input_is_list)
            if blocker is not None:
                results.append(self._blocked(node, blocker))
                continue
            builder.calling(node.id, index)
            result = function(**arguments)
            results.append(self._tasks.start(result) if inspect.iscoroutine(result) else result)
        return results

    def _blocked(self, node: GraphNode, blocker: ExecutionBlocker) -> ExecutionBlocker:
        """The result of a blocked call: a message is told once, and goes on as a silent block."""
        if blocker.message is None:
            return blocker
        executed = list(self._executed)
        self._emit(events.NodeBlocked(self._prompt_id, *node.ids, node.class_type, blocker.message, executed))
        return ExecutionBlocker(None)

    async def _end(
        self, node: GraphNode, facts: ClassFacts, results: list[Any], started: float
    ) -> Outputs | None:
        """Make outputs of what the calls returned. None if the node expands, and has to wait for that."""
        results = [outcome(result) if isinstance(result, asyncio.Task) else result for result in results]
        self._seconds[node.id] = perf_counter() - started
        returned, shown = unpack(results, facts)
        if shown:
            self._shown[node.id] = shown
            self._emit(events.NodeOutput(self._prompt_id, *node.ids, shown))
        if any(call.graph is not None for call in returned):
            await self._expand(node, returned)
            self._resume[node.id] = partial(self._resolve, facts, returned)
            return None
        if not results:  # an input was an empty list: so are the outputs
            return [[] for _ in facts.return_types]
        return merge(returned, facts, self._linked)

    async def _expand(self, node: GraphNode, returned: list[Returned]) -> None:
        """Add the nodes that the node has returned, and make it wait for those its result links to."""
        raw: dict[str, Any] = {}
        sources: list[str] = []
        for values, graph in returned:
            if graph is None:
                continue
            if not raw.keys().isdisjoint(graph):
                raise DuplicateNode(f"two calls of node {node} expand into nodes of the same id")
            raw |= graph
            sources += [value[0] for value in values if is_link(value)]
        children = [self._graph.add(child_id, child, node) for child_id, child in raw.items()]
        await self._results.expand(node, children, sources)
        for child in children:
            if self._schemas[child.class_type].facts.output_node:
                self._schedule.require(child)
        for source in sources:
            if self._results.of(source) is None:
                self._schedule.wait_for(node, self._graph.node(source))

    async def _resolve(self, facts: ClassFacts, returned: list[Returned]) -> Outputs:
        return merge(returned, facts, self._linked)

    def _linked(self, link: list[Any]) -> list[Any]:
        """The results that a link of an expanded node's result stands for."""
        source = self._graph.node(link[0])
        outputs = self._results.get(source).outputs
        if link[1] >= len(outputs):
            raise NodeInputError(
                f"the result links to output {link[1]} of node {source}, which gave {len(outputs)}"
            )
        return outputs[link[1]]

    def _report(self, node: GraphNode, value: float, total: float, preview: Any) -> None:
        self._emit(events.NodeProgress(self._prompt_id, *node.ids, value, total, preview))
