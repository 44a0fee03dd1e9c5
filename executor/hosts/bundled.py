"""The host that needs no ComfyUI: the library's nodes and the accelerators of this pack."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .. import library
from .base import Host

PACK = "custom_nodes.slipstream"


@cache
def host() -> Host:
    """Every module of the library and the pack's own table, merged.

    Raises ValueError where two of them define the same class.
    """
    nodes: dict[str, type] = {}
    display_names: dict[str, str] = {}
    modules: dict[str, str] = {}
    names = [info.name for info in pkgutil.iter_modules(library.__path__)]
    parts = [importlib.import_module(f"{library.__name__}.{name}") for name in names]
    pack = importlib.import_module("...nodes", __package__)
    for part in (*parts, pack):
        own = getattr(part, "NODES", {})  # modules of shared functions have none
        if twice := nodes.keys() & own.keys():
            raise ValueError(f"{part.__name__} defines nodes that another module has: {', '.join(twice)}")
        nodes |= own
        display_names |= getattr(part, "DISPLAY_NAMES", {})
        if part is pack:
            modules = dict.fromkeys(own, PACK)
    return Host(dict(sorted(nodes.items())), display_names, modules)
