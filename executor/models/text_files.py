"""Text encoders from files: single towers, parts of checkpoints, folders in diffusers' layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import memory, tokenizers
from .contents import wrong_kind
from .files import BadFile, Weights, main_dtype, open_weights
from .text import USES, TextEncoder, TextModel, Use
from .text_layout import clip_config, clip_to_transformers, t5_config, t5_to_transformers, tower_in
from .towers import Tower, assemble_clip, assemble_t5

# On accelerators CLIP is small enough for full precision; T5 overflows in float16.
CLIP_DTYPES = (torch.float32,)
T5_DTYPES = (torch.bfloat16,)
TITLES = {"l": "CLIP-L", "g": "CLIP-G", "h": "CLIP-H", "t5xxl": "T5"}
# CLIPLoader's types -> families of text.USES.
TYPES = {"stable_diffusion": "single", "sdxl": "sdxl", "sd3": "sd3", "flux": "flux"}


def tower_of(
    name: str,
    weights: Weights,
    label: str,
    *,
    config: Mapping[str, Any] | None = None,
    device: torch.device | None = None,
) -> Tower:
    """The text model `name` ("l", "g", "h", "t5xxl") from tensors in any known layout.

    `config` is transformers', if it is known; `label` is for errors.
    """
    stored = main_dtype(weights)
    if name == "t5xxl":
        inner = t5_to_transformers(weights)
        compute = memory.compute_dtype(stored, T5_DTYPES, device)
        return assemble_t5(config or t5_config(inner), inner, compute, label)
    inner = clip_to_transformers(weights)
    compute = memory.compute_dtype(stored, CLIP_DTYPES, device)
    return assemble_clip(config or clip_config(inner, name), inner, compute, label)


def model_of(
    name: str, weights: Weights, use: Use, path: Path, device: torch.device | None = None
) -> TextModel:
    """A text model whose vocabulary lies beside `path` or where vocabularies usually are."""
    find = tokenizers.t5 if name == "t5xxl" else tokenizers.clip
    tower = tower_of(name, weights, f"{path} ({TITLES[name]})", device=device)
    return TextModel(name, tower, partial(find, path), use, device or memory.device())


def load(paths: Sequence[Path], kind: str, device: torch.device | None = None) -> TextEncoder:
    """What CLIPLoader and its siblings load: `kind` is one of their types."""
    if kind not in TYPES:
        raise BadFile(f"text encoders of the type {kind!r} are not supported; these are: {', '.join(TYPES)}")
    family = TYPES[kind]
    models: dict[str, TextModel] = {}
    for path in paths:
        weights = open_weights(path)
        name = tower_in(weights)
        if name is None:
            raise wrong_kind(path, weights, "a text encoder")
        if name not in USES[family]:
            known = " or ".join(TITLES[other] for other in USES[family])
            raise BadFile(f"{path}: this is {TITLES[name]}; the type {kind!r} takes {known}")
        if name in models:
            raise BadFile(f"{path}: {TITLES[name]} was given twice; the type {kind!r} takes one of each")
        models[name] = model_of(name, weights, USES[family][name], path, device)
    missing = [] if family in ("single", "sd3") else [name for name in USES[family] if name not in models]
    if missing:
        raise BadFile(f"the type {kind!r} also needs {', '.join(TITLES[name] for name in missing)}")
    return TextEncoder(family, tuple(models.values()))
