"""The worker process: one engine, one device, one job at a time.

Orders come in on the standard input and reports go out on what was the standard output; whatever nodes
print goes to the standard error, so that it cannot get between.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, BinaryIO

import msgspec

from .. import logs
from ..graph import Engine, events, validate
from ..hosts.base import Host
from . import device, frames, messages
from .messages import Cancel, Describe, Free, Measure, Run, Setup, Validate

GRACE = 10.0  # seconds that a running job has to stop once nobody is there any more
PREVIEW_SIZE = 512  # pixels along the longer side, at most


def main() -> None:
    faulthandler.enable()
    orders, reports = _streams()
    _Worker(orders, reports).work()


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep the two ends for messages, and give everybody else the null device and the standard error."""
    sys.stdout.flush()
    orders, reports = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return os.fdopen(orders, "rb"), os.fdopen(reports, "wb")


class _Worker:
    def __init__(self, orders: BinaryIO, reports: BinaryIO):
        self._orders = orders
        self._reports = reports
        self._sending = threading.Lock()
        self._work: queue.SimpleQueue[Run | Free | None] = queue.SimpleQueue()
        self._accepted: set[tuple[str, int]] = set()  # (job, attempt)
        self._cancelled: set[tuple[str, int]] = set()
        self._job: str | None = None  # that runs

    def work(self) -> None:
        """Until the standard input ends."""
        setup = frames.read_order(self._orders)
        if not isinstance(setup, Setup):
            return
        logs.configure(setup.log_format, setup.verbose, lambda: {"worker": setup.name, "job": self._job})
        try:
            self._host = _prepare(setup)
            self._engine = Engine(self._host.nodes, cache=setup.cache)
            self._send(_ready(self._host))
        except Exception as error:  # a host may fail to load in any way; whoever started us says so
            traceback.print_exc()
            self._send(messages.Unusable(f"{type(error).__name__}: {error}"))
            return
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        while (order := self._work.get()) is not None:
            if isinstance(order, Run):
                self._run(order)
            else:
                self._free(order)

    def _listen(self) -> None:
        """Take orders while the main thread runs jobs. When the stream ends nobody is left to work for: a
        job that is running is stopped, or if it does not stop, ended with the process."""
        try:
            while (order := frames.read_order(self._orders)) is not None:
                match order:
                    case Run():
                        self._accepted.add((order.job, order.attempt))
                        self._work.put(order)
                    case Free():
                        self._work.put(order)
                    case Cancel():
                        self._cancelled |= self._accepted & {(order.job, order.attempt)}
                    case Validate():
                        self._validate(order)
                    case Describe():
                        self._describe(order)
                    case Measure():
                        self._send(messages.Measured(order.call, device.resident(), *device.free_and_total()))
        finally:
            self._cancelled |= self._accepted
            self._work.put(None)
            threading.Timer(GRACE, os._exit, (1,)).start()

    def _send(self, message: messages.FromWorker) -> None:
        content = frames.encode(message)
        with self._sending, suppress(BrokenPipeError):  # whoever started us is gone: `_listen` sees to it
            self._reports.write(content)
            self._reports.flush()

    def _run(self, order: Run) -> None:
        key = (order.job, order.attempt)
        self._job = order.job

        def tell(event: events.Event) -> None:
            preview = b""
            if isinstance(event, events.NodeProgress) and event.preview is not None:
                preview = _jpeg(event.preview) if order.previews else b""
                event = msgspec.structs.replace(event, preview=None)
            self._send(messages.Told(order.job, event, preview))

        result = self._engine.run(
            order.prompt,
            prompt_id=order.job,
            outputs=order.outputs,
            extra_data=order.extra_data,
            sink=tell,
            cancelled=lambda: key in self._cancelled,
        )
        self._job = None
        self._accepted.discard(key)
        self._cancelled.discard(key)
        self._send(messages.Finished(order.job, order.attempt, *msgspec.structs.astuple(result)))

    def _free(self, order: Free) -> None:
        if order.results:
            self._engine.clear()
        if order.models:
            device.unload()

    def _validate(self, order: Validate) -> None:
        found = validate(order.prompt, self._host.nodes, order.targets)
        self._send(
            messages.Validated(
                order.call, found.ok, found.error, found.node_errors, found.outputs, order.prompt
            )
        )

    def _describe(self, order: Describe) -> None:
        if order.name is None:
            content = self._host.object_info()
        else:
            content = {order.name: self._host.describe(order.name)} if order.name in self._host.nodes else {}
        self._send(messages.Described(order.call, json.dumps(content).encode()))


def _prepare(setup: Setup) -> Host:
    """Configure this process, and load the node classes."""
    from ..models import folders

    folders.use(
        folders.Folders(
            models=setup.models,
            input=setup.input,
            output=setup.output,
            temp=setup.temp,
            extra=setup.extra_model_paths,
        )
    )
    folders.kinds()  # reads the YAML files
    device.choose(setup.device, setup.dtype)
    if not setup.host:
        from ..hosts import bundled

        return bundled.host()
    module, _, function = setup.host.partition(":")
    return getattr(importlib.import_module(module), function)()


def _ready(host: Host) -> messages.Ready:
    versions = {"python": sys.version.split()[0], "slipstream": version("slipstream")}
    if "torch" in sys.modules:
        versions["torch"] = version("torch")
    return messages.Ready(os.getpid(), *device.describe(), len(host.nodes), versions)


def _jpeg(make: Callable[[], Any]) -> bytes:
    picture = make()
    if picture is None:
        return b""
    picture.thumbnail((PREVIEW_SIZE, PREVIEW_SIZE))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=85)
    return out.getvalue()
