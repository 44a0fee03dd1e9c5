"""Whole models: checkpoint files, and folders in diffusers' layout."""

from __future__ import annotations

from pathlib import Path

from . import denoiser, pipeline_folder, text_files, vae
from .contents import wrong_kind
from .denoiser import Denoiser
from .families.base import Family
from .families.registry import denoiser_in
from .files import Weights, open_weights, under
from .text import USES, TextEncoder
from .vae import VAE


def load(path: Path) -> tuple[Denoiser, TextEncoder | None, VAE | None]:
    """MODEL, CLIP and VAE of a checkpoint; None for parts that it does not hold. Raises `BadFile`."""
    if path.is_dir():
        return pipeline_folder.load(path)
    weights = open_weights(path)
    found = denoiser_in(weights)
    if found is None:
        raise wrong_kind(path, weights, "a checkpoint")
    family, prefix = found
    model = denoiser.load(under(weights, prefix), family, str(path))
    return model, _text(weights, family, path), _vae(weights, family, path)


def load_denoiser(path: Path, weight_dtype: str) -> Denoiser:
    """MODEL alone, from a file that may hold more."""
    weights = open_weights(path)
    found = denoiser_in(weights)
    if found is None:
        raise wrong_kind(path, weights, "a diffusion model")
    family, prefix = found
    return denoiser.load(under(weights, prefix), family, str(path), weight_dtype=weight_dtype)


def load_vae(path: Path) -> VAE:
    """VAE from a file that holds nothing else."""
    return vae_of(open_weights(path), path)


def vae_of(weights: Weights, path: Path, scale: float = 1.0, shift: float = 0.0) -> VAE:
    """VAE from tensors, as vae.load; `path` is for errors."""
    found = vae.load(weights, str(path), scale, shift)
    if found is None:
        raise wrong_kind(path, weights, "a VAE")
    return found


def _text(weights: Weights, family: Family, path: Path) -> TextEncoder | None:
    models = []
    for name, prefixes in family.text_prefixes.items():
        inner = next((part for prefix in prefixes if (part := under(weights, prefix))), None)
        if inner is not None:
            models.append(text_files.model_of(name, inner, USES[family.text][name], path))
        elif name not in family.text_optional:
            return None
    return TextEncoder(family.text, tuple(models)) if models else None


def _vae(weights: Weights, family: Family, path: Path) -> VAE | None:
    for prefix in (family.vae_prefix, "first_stage_model.", "vae."):
        if inner := under(weights, prefix):
            return vae.load(inner, f"{path} (VAE)")
    return None
