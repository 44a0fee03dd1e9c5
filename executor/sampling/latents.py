"""Making LATENTs and noise masks fit the model that is to sample them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from .conditions import repeat_to_batch
from .model import LatentFormat

# Which node makes empty latents of so many channels, for pictures (2) or video (3).
EMPTY_LATENT_NODES = {
    (4, 2): "EmptyLatentImage",
    (16, 2): "EmptySD3LatentImage",
    (16, 3): "EmptyHunyuanLatentVideo",
}


def fit_latent(samples: Tensor, latent: LatentFormat) -> Tensor:
    """`samples` in the shape that the model works on: B C H W, or B C T H W.

    An empty (all zero) latent takes any number of channels; a picture is a video of one frame. Raises
    ValueError for anything else that does not fit.
    """
    wanted = "B C T H W" if latent.dims == 3 else "B C H W"
    if samples.ndim != latent.dims + 2 and not (latent.dims == 3 and samples.ndim == 4):
        raise ValueError(
            f"has {samples.ndim} axes {tuple(samples.shape)}, but the model works on {wanted}{_maker(latent)}"
        )
    if samples.shape[1] != latent.channels:
        if torch.count_nonzero(samples) > 0:
            raise ValueError(
                f"has {samples.shape[1]} channels, but the model works on {latent.channels}{_maker(latent)}"
            )
        samples = samples.new_zeros(samples.shape[0], latent.channels, *samples.shape[2:])
    return samples.unsqueeze(2) if samples.ndim < latent.dims + 2 else samples


def _maker(latent: LatentFormat) -> str:
    node = EMPTY_LATENT_NODES.get((latent.channels, latent.dims))
    return f" (as {node} makes them, or VAEEncode with this model's own VAE)" if node else ""


def fit_mask(mask: Tensor, shape: Sequence[int]) -> Tensor:
    """A noise mask of any resolution for latents of `shape`: batch and spatial axes as there, 1 or C
    channels.

    B H W and B 1 H W are pictures; for video latents their batch is the frames. Raises ValueError for other
    shapes.
    """
    dims = len(shape) - 2
    if mask.ndim < 2 or mask.ndim > dims + 2:
        raise ValueError(f"has shape {tuple(mask.shape)}; a mask is [batch, height, width]")
    if mask.ndim < dims + 2 or dims == 2:
        lead = (-1, 1) if dims == 2 else (1, 1, -1)
        mask = mask.reshape(*lead, *mask.shape[-2:])
    mask = functional.interpolate(
        mask.float(), size=tuple(shape[2:]), mode="bilinear" if dims == 2 else "trilinear"
    )
    if mask.shape[1] not in (1, shape[1]):
        raise ValueError(f"has {mask.shape[1]} channels; the latent has {shape[1]}")
    return repeat_to_batch(mask, shape[0])
