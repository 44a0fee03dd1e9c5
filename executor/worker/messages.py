"""What a worker process and the one that started it say to each other."""

from __future__ import annotations

from typing import Any

import msgspec

from ..graph import events

# To the worker.


class ToWorker(msgspec.Struct, frozen=True, tag=True):
    pass


class Setup(ToWorker, frozen=True):
    """The first message. `name` is the worker's; `host` is `module:function` for what makes the Host, "" for
    the bundled one; folders are paths; `cache` is what the graph engine takes, the last two what
    `logs.configure` takes."""

    name: str = "worker"
    host: str = ""
    device: str = "auto"
    dtype: str = "auto"
    cache: str = "classic"
    models: list[str] = []
    extra_model_paths: list[str] = []
    input: str = "input"
    output: str = "output"
    temp: str = "temp"
    log_format: str = "text"
    verbose: int = 0


class Run(ToWorker, frozen=True):
    """Run a validated prompt. `outputs` are the nodes asked for; `attempt` comes back with the result."""

    job: str
    attempt: int
    prompt: dict[str, Any]
    outputs: list[str]
    extra_data: dict[str, Any] = {}
    previews: bool = True


class Cancel(ToWorker, frozen=True):
    """Stop this attempt at a job at the next step; ignored once it has ended."""

    job: str
    attempt: int


class Free(ToWorker, frozen=True):
    """Once no job is running: unload models, and forget the results kept for later runs."""

    models: bool
    results: bool


class Validate(ToWorker, frozen=True):
    """Answered by `Validated` with the same `call`, also while a job is running."""

    call: int
    prompt: Any
    targets: list[str] | None = None


class Describe(ToWorker, frozen=True):
    """Answered by `Described`: the definitions of all node classes, or of the one called `name`."""

    call: int
    name: str | None = None


class Measure(ToWorker, frozen=True):
    """Answered by `Measured`."""

    call: int


# From the worker.


class FromWorker(msgspec.Struct, frozen=True, tag=True):
    pass


class Ready(FromWorker, frozen=True):
    """The node classes are loaded. `device` is as torch names it; `memory` of it in bytes, 0 if unknown."""

    pid: int
    device: str
    device_name: str
    memory: int
    nodes: int
    versions: dict[str, str]


class Unusable(FromWorker, frozen=True):
    """It cannot work as it was set up; it ends."""

    reason: str


class Told(FromWorker, frozen=True):
    """What happened in a run. `preview` is a JPEG of what the node is making, or empty."""

    job: str
    event: AnyEvent
    preview: bytes = b""


class Finished(FromWorker, frozen=True):
    """The end of a run: `status` is success, error or interrupted, `outputs` what the nodes show, `executed`
    and `cached` node ids, `seconds` by node."""

    job: str
    attempt: int
    status: str
    outputs: dict[str, Any]
    error: events.ExecutionFailed | events.ExecutionInterrupted | None
    executed: list[str]
    cached: list[str]
    seconds: dict[str, float]


class Validated(FromWorker, frozen=True):
    """`prompt` is the one to run: its literals converted to the declared types."""

    call: int
    ok: bool
    error: dict[str, Any] | None
    node_errors: dict[str, Any]
    outputs: list[str]
    prompt: Any


class Described(FromWorker, frozen=True):
    """JSON as /object_info answers."""

    call: int
    content: bytes


class Measured(FromWorker, frozen=True):
    """Bytes: of the process, and free of and in all on its device (0 where there is no telling)."""

    call: int
    resident: int
    device_free: int
    device_total: int


AnyEvent = (
    events.ExecutionStarted
    | events.ExecutionCached
    | events.NodeStarted
    | events.NodeProgress
    | events.NodeOutput
    | events.NodeBlocked
    | events.NodeFinished
    | events.ExecutionFailed
    | events.ExecutionInterrupted
    | events.ExecutionSucceeded
)
Order = Setup | Run | Cancel | Free | Validate | Describe | Measure
Report = Ready | Unusable | Told | Finished | Validated | Described | Measured
