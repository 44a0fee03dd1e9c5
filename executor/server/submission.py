"""What is the same for every way a prompt comes in: checked by a worker, then queued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..jobs.records import Job, Refused
from ..worker.messages import Validated
from ..workflow.survey import survey
from .dispatcher import Dispatcher

BULK = "bulk"


class Invalid(Exception):
    """The prompt cannot run; `checked` says why."""

    def __init__(self, checked: Validated):
        super().__init__(checked.error["message"] if checked.error else "")
        self.checked = checked


async def submit(
    dispatcher: Dispatcher,
    *,
    job_id: str,
    prompt: Any,
    targets: list[str] | None = None,
    extra_data: dict[str, Any] | None = None,
    client: str = "",
    number: float | None = None,
    front: bool = False,
) -> tuple[Job, Validated]:
    """The job, on disk, and what the check said of outputs that cannot run. Raises Invalid, and as
    `Pool.validate` and `Jobs.submit` do."""
    checked = await dispatcher.pool.validate(prompt, targets)
    if not checked.ok:
        dispatcher.metrics.refused("invalid")
        raise Invalid(checked)
    extra_data = extra_data or {}
    try:
        job, new = await dispatcher.jobs.submit(
            job_id=job_id,
            prompt=checked.prompt,
            outputs=checked.outputs,
            extra_data=extra_data,
            client=client,
            lane=BULK if extra_data.get("lane") == BULK else "interactive",
            number=number,
            front=front,
            kind=_kind(checked.prompt),
            models=sorted({model.name for model in survey(checked.prompt, {}).models}),
        )
    except Refused:
        dispatcher.metrics.refused("queue_full")
        raise
    if new:
        dispatcher.queued(job)
    return job, checked


def _kind(prompt: Mapping[str, Any]) -> str:
    """Stands for prompts that take about as long: of the same node classes, sizes and steps."""
    classes = sorted(node["class_type"] for node in prompt.values())
    sizes = sorted(
        f"{name}={value}"
        for node in prompt.values()
        for name, value in node.get("inputs", {}).items()
        if name in ("width", "height", "length", "batch_size", "steps") and isinstance(value, int)
    )
    return hashlib.sha256(json.dumps([classes, sizes]).encode()).hexdigest()[:16]
