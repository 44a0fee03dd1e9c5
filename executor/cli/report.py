"""What a finished run says: result files, texts, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Outputs = Mapping[str, Mapping[str, Any]]  # what nodes show, by node id


def paths(outputs: Outputs) -> Iterator[tuple[str, Path]]:
    """(node id, file) of everything that nodes saved, or made for a preview."""
    from ..models import folders

    for node_id, shown in outputs.items():
        for entries in shown.values():
            for entry in entries if isinstance(entries, (list, tuple)) else ():
                if isinstance(entry, Mapping) and "filename" in entry:
                    folder = folders.by_type(entry.get("type", "output")) / entry.get("subfolder", "")
                    yield node_id, folder / entry["filename"]


def texts(outputs: Outputs) -> Iterator[tuple[str, str]]:
    """(node id, text) of what nodes show as text."""
    for node_id, shown in outputs.items():
        for text in shown.get("text") or ():
            yield node_id, str(text)


def seconds_by_work(
    prompt: Mapping[str, Any], schema: Mapping[str, Any], seconds: Mapping[str, float]
) -> dict[str, float]:
    """The seconds of the nodes summed by kind of work: load, sample, decode, as far as they occur."""
    found: dict[str, float] = {}
    for node_id, spent in seconds.items():
        kind = _work(prompt.get(node_id, {}).get("class_type", ""), schema)
        found[kind] = found.get(kind, 0.0) + spent
    return {kind: found[kind] for kind in ("load", "sample", "decode") if kind in found}


def _work(class_type: str, schema: Mapping[str, Any]) -> str:
    definition = schema.get(class_type, {})
    category = definition.get("category", "")
    if class_type.startswith("VAEDecode"):
        return "decode"
    if "loaders" in category:
        return "load"
    if category.startswith("sampling") and "LATENT" in definition.get("output", ()):
        return "sample"
    return "other"


def timing(seconds: Mapping[str, float]) -> str:
    """`4.20 s (load 1.10, sample 2.80, decode 0.20)`."""
    parts = ", ".join(f"{kind} {spent:.2f}" for kind, spent in seconds.items() if kind != "total")
    return f"{seconds['total']:.2f} s" + (f" ({parts})" if parts else "")


def as_json(result: Any, **about: Any) -> dict[str, Any]:
    """A run as `--json` prints it; `about` are the fields that the result does not know."""
    return {
        **about,
        "status": result.status,
        "outputs": [{"node": node_id, "path": str(path)} for node_id, path in paths(result.outputs)],
        "texts": [{"node": node_id, "text": text} for node_id, text in texts(result.outputs)],
        "cached": result.cached,
        "error": _error(result.error),
    }


def _error(error: Any) -> dict[str, Any] | None:
    if error is None:
        return None
    fields = ("node_type", "title", "exception_type", "exception_message")
    return {
        "node": error.real_node,
        **{name: getattr(error, name) for name in fields if hasattr(error, name)},
    }
