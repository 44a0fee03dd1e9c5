"""What several image, mask and latent nodes share: 8-bit pictures, batches, channels, pasting."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image


def to_picture(image: torch.Tensor) -> Image.Image:
    """[H, W, C] or [H, W] in 0..1 as an 8-bit picture, cut off (not rounded) as ComfyUI does."""
    levels = np.clip(255.0 * image.cpu().numpy(), 0, 255).astype(np.uint8)
    return Image.fromarray(levels.squeeze(-1) if levels.shape[-1] == 1 and levels.ndim == 3 else levels)


def from_picture(picture: Image.Image) -> torch.Tensor:
    """An 8-bit picture as float32 [H, W, C] in 0..1."""
    levels = torch.from_numpy(np.array(picture).astype(np.float32) / 255.0)
    return levels if levels.ndim == 3 else levels.unsqueeze(-1)


def repeat_to_batch(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Make the first dimension `size` long: cut, or start again from the first element."""
    if tensor.shape[0] < size:
        tensor = tensor.repeat(-(-size // tensor.shape[0]), *[1] * (tensor.ndim - 1))
    return tensor[:size]


def match_channels(destination: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`source` [..., C] with as many channels as `destination`; a missing alpha becomes opaque."""
    missing = destination.shape[-1] - source.shape[-1]
    return F.pad(source, (0, missing), value=1.0) if missing > 0 else source[..., : destination.shape[-1]]


def resize_mask(mask: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """A mask of any leading shape as [B, 1, height, width], bilinear."""
    return F.interpolate(mask.reshape(-1, 1, *mask.shape[-2:]), size=(height, width), mode="bilinear")


def paste(
    destination: torch.Tensor,
    source: torch.Tensor,
    x: int,
    y: int,
    mask: torch.Tensor | None = None,
    resize_source: bool = False,
) -> torch.Tensor:
    """`destination` [B, C, ..., H, W] with `source` at column `x`, row `y`, as far as it reaches into it.

    `mask` [.., h, w] is stretched over the whole source and says how much of it shows.
    """
    height, width = destination.shape[-2:]
    source = source.to(destination.device)
    if resize_source:
        source = F.interpolate(source, size=(height, width), mode="bilinear")
    source = repeat_to_batch(source, destination.shape[0])

    left, right = max(x, 0), min(x + source.shape[-1], width)
    top, bottom = max(y, 0), min(y + source.shape[-2], height)
    result = destination.clone()
    if left >= right or top >= bottom:
        return result
    seen = (..., slice(top - y, bottom - y), slice(left - x, right - x))
    covered = (..., slice(top, bottom), slice(left, right))
    if mask is None:
        result[covered] = source[seen]
    else:
        mask = repeat_to_batch(resize_mask(mask.to(destination), *source.shape[-2:]), source.shape[0])
        mask = mask.reshape(*mask.shape[:2], *[1] * (source.ndim - 4), *mask.shape[2:])[seen]
        result[covered] = mask * source[seen] + (1 - mask) * destination[covered]
    return result
