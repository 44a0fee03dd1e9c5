"""Accelerators as nodes, the same in ComfyUI and in the bundled host."""

NODES: dict[str, type] = {}
DISPLAY_NAMES: dict[str, str] = {}
