"""The value a node returns to stop everything that depends on one of its outputs."""

from __future__ import annotations


class ExecutionBlocker:
    """As an output value: nodes that would receive it do not run, and pass the block on.

    `message` None blocks silently; a text is reported once at each node that receives it directly.
    Returned bare instead of a tuple it stands for every output of the node.
    """

    __slots__ = ("message",)

    def __init__(self, message: str | None) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"ExecutionBlocker({self.message!r})"
