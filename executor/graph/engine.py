"""The engine: runs prompts one after another, and keeps between them what can be used again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .cache import make_cache
from .events import Event
from .prompt import Prompt
from .run import Instances, Result, Run
from .schema import is_output
from .tasks import run_in_new_loop


class Engine:
    """Runs prompts on a table of node classes.

    `cache` is `classic` (keep what the latest prompt can use), `lru:N` (keep the N results used last)
    or `none` (drop each result after its last use). `on_error(exception)` is called when a node raises:
    the place to free memory; what it returns is appended to the message.
    """

    def __init__(
        self,
        nodes: Mapping[str, type],
        cache: str = "classic",
        on_error: Callable[[Exception], str | None] | None = None,
    ) -> None:
        self.nodes = nodes
        self._mode = cache
        self._on_error = on_error
        self._busy = False
        self.clear()

    def clear(self) -> None:
        """Forget all results and node instances."""
        self._cache = make_cache(self._mode)
        self._instances: Instances = {}

    def run(
        self,
        prompt: Prompt,
        *,
        prompt_id: str = "",
        outputs: Iterable[str] | None = None,
        extra_data: Mapping[str, Any] | None = None,
        sink: Callable[[Event], None] = lambda event: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Result:
        """Run the nodes `outputs` (default: every output node) and all they need; `prompt` is taken as
        validated. Node functions are called in this thread.

        `extra_data` feeds hidden inputs (`extra_pnginfo`, tokens). `sink` gets every event as it
        happens. `cancelled` is asked before each call, at each progress report, and while async nodes
        are awaited. What nodes raise ends up in the result, never here.
        """
        return run_in_new_loop(
            self.run_async(
                prompt,
                prompt_id=prompt_id,
                outputs=outputs,
                extra_data=extra_data,
                sink=sink,
                cancelled=cancelled,
            )
        )

    async def run_async(
        self,
        prompt: Prompt,
        *,
        prompt_id: str = "",
        outputs: Iterable[str] | None = None,
        extra_data: Mapping[str, Any] | None = None,
        sink: Callable[[Event], None] = lambda event: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Result:
        """As `run`, inside an event loop; the loop stands still while a sync node works."""
        if self._busy:
            raise RuntimeError("this engine is running a prompt; it runs one at a time")
        if outputs is None:
            outputs = [id for id, node in prompt.items() if is_output(self.nodes[node["class_type"]])]
        run = Run(
            prompt,
            nodes=self.nodes,
            cache=self._cache,
            instances=self._instances if self._cache.keeps else {},
            prompt_id=prompt_id,
            extra_data=extra_data or {},
            sink=sink,
            cancelled=cancelled,
            on_error=self._on_error,
        )
        self._busy = True
        try:
            return await run.execute(list(outputs))
        finally:
            self._busy = False
