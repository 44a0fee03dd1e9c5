"""Group nodes of old files."""

from __future__ import annotations

from .canvas_file import Canvas
from .wiring import Classes


def to_subgraphs(canvas: Canvas, classes: Classes) -> None:
    """Later."""
