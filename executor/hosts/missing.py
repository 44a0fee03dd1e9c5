"""Where a node class that a host lacks can be had."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

# How the classes of widely used packs begin or end.
PREFIXES = {
    "VHS_": "ComfyUI-VideoHelperSuite",
    "IPAdapter": "ComfyUI_IPAdapter_plus",
    "Nunchaku": "ComfyUI-nunchaku",
    "WanVideo": "ComfyUI-WanVideoWrapper",
    "HyVideo": "ComfyUI-HunyuanVideoWrapper",
    "UltimateSDUpscale": "ComfyUI_UltimateSDUpscale",
    "TeaCache": "ComfyUI-TeaCache",
    "MagCache": "ComfyUI-MagCache",
    "CR ": "ComfyUI_Comfyroll_CustomNodes",
    "easy ": "ComfyUI-Easy-Use",
    "KSampler (Efficient": "efficiency-nodes-comfyui",
    "ADE_": "ComfyUI-AnimateDiff-Evolved",
}
SUFFIXES = {
    "GGUF": "ComfyUI-GGUF",
    "(rgthree)": "rgthree-comfy",
    "KJ": "ComfyUI-KJNodes",
    "Preprocessor": "comfyui_controlnet_aux",
    "MultiGPU": "ComfyUI-MultiGPU",
    "|pysssss": "ComfyUI-Custom-Scripts",
}


@cache
def core() -> frozenset[str]:
    """The classes that come with ComfyUI 0.3.64."""
    return frozenset(files(__package__).joinpath("core_nodes.txt").read_text("utf-8").splitlines())


def explain(name: str, known: Iterable[str], pack: str = "") -> str:
    """`pack` is the pack of nodes that the workflow's file says the class is from."""
    if pack:
        return f"{name} belongs to the node pack {pack}; it is not among the bundled nodes."
    if name in core():
        return f"{name} comes with ComfyUI; it is not among the bundled nodes."
    starting = (pack for prefix, pack in PREFIXES.items() if name.startswith(prefix))
    ending = (pack for suffix, pack in SUFFIXES.items() if name.endswith(suffix))
    if pack := next(starting, None) or next(ending, None):
        return explain(name, known, pack)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "no node pack known here has it."
    return f"{name} is no node class known here; {hint}"
