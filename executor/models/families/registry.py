"""All families, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from ..files import Weights, under
from .base import Family
from .flux import Flux
from .sd3 import SD3
from .unet import SD1, SD2, SDXL

FAMILIES: tuple[Family, ...] = (Flux(), SD3(), SDXL(), SD2(), SD1())

# Where files keep a denoiser; "" in files that hold nothing else.
PREFIXES = ("model.diffusion_model.", "diffusion_model.", "model.", "transformer.", "")


def denoiser_in(weights: Weights) -> tuple[Family, str] | None:
    """The family of the denoiser in a file, and the prefix of its tensors' names."""
    for prefix in PREFIXES:
        inner = under(weights, prefix)
        for family in FAMILIES:
            if inner and family.owns(inner):
                return family, prefix
    return None
