"""A cheap look at a latent: its channels mixed into red, green and blue."""

from __future__ import annotations

import torch
from torch import Tensor

from .model import LatentFormat


def to_rgb(denoised: Tensor, latent: LatentFormat) -> Tensor | None:
    """The first item (of a video the first frame) as uint8 [H, W, 3] on the CPU; None where the family's
    mix is not known. `denoised` is in the denoiser's space."""
    if latent.rgb_factors is None:
        return None
    first = denoised[0] if denoised.ndim == 4 else denoised[0, :, 0]
    factors = torch.tensor(latent.rgb_factors, dtype=torch.float32)
    mixed = first.float().cpu().movedim(0, -1) @ factors + torch.tensor(latent.rgb_bias)
    return ((mixed + 1) / 2).clamp(0, 1).mul(255).to(torch.uint8)
