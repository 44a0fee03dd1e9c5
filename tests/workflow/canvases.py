"""Canvas files made for tests, and the ones whose prompts ComfyUI's frontend has fixed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "canvas"


def object_info():
    """The definitions of ComfyUI 0.3.64."""
    return json.loads(gzip.decompress((DATA / "object_info.json.gz").read_bytes()))


def pairs():
    """Saved canvas files, each with the prompt that the frontend makes of it."""
    lines = gzip.decompress((DATA / "pairs.jsonl.gz").read_bytes()).decode().splitlines()
    return {pair["name"]: pair for pair in map(json.loads, lines)}


def cases():
    """Small canvas files, one for each rule, with the frontend's prompts; and the classes made for them."""
    held = json.loads((DATA / "cases.json").read_text())
    return held["cases"], held["classes"]


def node(node_id, kind, *, inputs=(), outputs=("MODEL",), mode=0, values=None, **more):
    """`inputs`: (name, type, link id or None)."""
    return {
        "id": node_id,
        "type": kind,
        "mode": mode,
        "inputs": [{"name": name, "type": type_, "link": link} for name, type_, link in inputs],
        "outputs": [{"name": type_, "type": type_} for type_ in outputs],
        "widgets_values": values,
        **more,
    }


def canvas(nodes, links, **more):
    return {"nodes": nodes, "links": links, **more}


SMALL = {
    "Load": {"input": {"required": {"name": [["a", "b"]]}}, "output": ["MODEL"]},
    "Patch": {
        "input": {"required": {"model": ["MODEL"], "cfg": ["FLOAT", {"default": 8.0}]}},
        "output": ["MODEL"],
    },
    "Use": {"input": {"required": {"model": ["MODEL"], "seed": ["INT", {"default": 7}], "text": ["STRING"]}}},
}
SUBGRAPH = "0f0e0d0c-0000-4000-8000-000000000001"


def subgraph(kind=SUBGRAPH, *, inner="Patch", name="Inner"):
    """One node of class `inner`, its `model` and `cfg` inputs and its output led outside."""
    slots = [
        {"name": "model", "type": "MODEL", "link": 1},
        {"name": "cfg", "type": "FLOAT", "link": 2, "widget": {"name": "cfg"}},
    ]
    return {
        "id": kind,
        "name": name,
        "nodes": [{"id": 11, "type": inner, "inputs": slots, "outputs": [{"type": "MODEL"}]}],
        "links": [
            {"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 11, "target_slot": 0},
            {"id": 2, "origin_id": -10, "origin_slot": 1, "target_id": 11, "target_slot": 1},
            {"id": 3, "origin_id": 11, "origin_slot": 0, "target_id": -20, "target_slot": 0},
        ],
        "inputs": [
            {"name": "model", "type": "MODEL", "linkIds": [1]},
            {"name": "cfg", "type": "FLOAT", "linkIds": [2]},
        ],
        "outputs": [{"name": "MODEL", "type": "MODEL", "linkIds": [3]}],
    }
