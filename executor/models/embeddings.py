"""Textual inversion (arXiv:2208.01618): vectors from a file that stand in a prompt as `embedding:name`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from . import folders
from .files import SAFETENSORS, BadFile, load_pickle, open_weights

log = logging.getLogger(__name__)
ENDINGS = ("", ".safetensors", ".pt", ".bin")


def find(name: str) -> Path | None:
    """The file of an embedding, named with or without its ending, in any subfolder; the least deep one."""
    known = sorted(folders.names("embeddings"), key=lambda file: (file.count("/"), file))
    for file in known:
        if any(f"/{file}".endswith(f"/{name}{ending}") for ending in ENDINGS):
            return folders.find("embeddings", file)
    return None


def load(name: str, key: str, width: int) -> torch.Tensor | None:
    """The vectors [N, width] of an embedding for one text model (`key`: clip_l, clip_g, ...).

    None, with a warning where there is a file, if it has no vectors of that width.
    """
    path = find(name)
    if path is None:
        return None
    try:
        vectors = _vectors(path, key)
    except BadFile as error:
        log.warning("embedding:%s is ignored: %s", name, error)
        return None
    if vectors.shape[-1] != width:
        log.warning(
            "embedding:%s is ignored: its vectors have %d numbers, this text model's %d",
            name,
            vectors.shape[-1],
            width,
        )
        return None
    return vectors.reshape(-1, width)


def _vectors(path: Path, key: str) -> torch.Tensor:
    if path.suffix.lower() in SAFETENSORS:
        content: Any = {name: entry.read() for name, entry in open_weights(path).items()}
    else:
        content = load_pickle(path)
    if isinstance(content, dict) and isinstance(content.get("string_to_param"), dict):
        content = content["string_to_param"]
    tensors = content if isinstance(content, dict) else {}
    found = tensors.get(key, next(iter(tensors.values()), None))
    if not isinstance(found, torch.Tensor) or not found.ndim:
        raise BadFile(f"{path}: this is not an embedding")
    return found.detach().float()
