"""Resizing of latents and images with ComfyUI's methods.

`nearest-exact`, `bilinear`, `area` and `bicubic` are torch's (no antialiasing), `lanczos` is Pillow's on
8-bit pixels, `bislerp` interpolates the channel vector of a latent along the sphere, so that blending two
latents does not shrink their norm.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from PIL import Image

from .pixels import from_picture, to_picture

IMAGE_METHODS = ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"]
LATENT_METHODS = ["nearest-exact", "bilinear", "area", "bicubic", "bislerp"]
CROPS = ["disabled", "center"]


def resample(
    samples: torch.Tensor, width: int, height: int, method: str, crop: str = "disabled"
) -> torch.Tensor:
    """Resize [B, C, ..., H, W] to `height` x `width`; `crop` "center" cuts to the new aspect ratio first.

    Raises ValueError where a side would be empty.
    """
    if width < 1 or height < 1:
        raise ValueError(f"cannot resize to {width} x {height} pixels: each side needs at least 1")
    if samples.ndim > 4:
        frames = samples.flatten(2, -3).transpose(1, 2).flatten(0, 1)
        resized = resample(frames, width, height, method, crop)
        resized = resized.unflatten(0, (samples.shape[0], -1)).transpose(1, 2)
        return resized.reshape(*samples.shape[:-2], height, width)

    if crop == "center":
        samples = _cut_to_aspect(samples, width / height)
    if method == "bislerp":
        across = _bislerp_axis(samples.float(), width, -1)
        return _bislerp_axis(across, height, -2).to(samples.dtype)
    if method == "lanczos":
        pictures = [to_picture(image.movedim(0, -1)) for image in samples]
        resized = [picture.resize((width, height), Image.Resampling.LANCZOS) for picture in pictures]
        return torch.stack([from_picture(picture).movedim(-1, 0) for picture in resized]).to(samples)
    return F.interpolate(samples, size=(height, width), mode=method)


def resample_images(images: torch.Tensor, width: int, height: int, method: str, crop: str = "disabled"):
    """`resample` for IMAGE tensors, [B, H, W, C]."""
    return resample(images.movedim(-1, 1), width, height, method, crop).movedim(1, -1)


def _cut_to_aspect(samples: torch.Tensor, aspect: float) -> torch.Tensor:
    height, width = samples.shape[-2:]
    ratio = aspect / (width / height)
    left = round((width - width * ratio) / 2) if ratio < 1 else 0
    top = round((height - height / ratio) / 2) if ratio > 1 else 0
    return samples[..., top : height - top, left : width - left]


def _bislerp_axis(samples: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """Spherical interpolation of [B, C, H, W] along one spatial axis; norms are interpolated linearly."""
    old = samples.shape[dim]
    position = (torch.arange(length, device=samples.device) + 0.5) * (old / length) - 0.5
    position = position.clamp(0, old - 1)
    index = position.long()
    shape = [1, 1, 1, 1]
    shape[dim] = length
    t = (position - index).reshape(shape)

    a = samples.index_select(dim, index)
    b = samples.index_select(dim, (index + 1).clamp(max=old - 1))
    from_, to = F.normalize(a, dim=1), F.normalize(b, dim=1)
    cosine = (from_ * to).sum(1, keepdim=True)
    angle = torch.acos(cosine)
    turned = torch.sin((1 - t) * angle) * from_ + torch.sin(t * angle) * to
    norm = a.norm(dim=1, keepdim=True) * (1 - t) + b.norm(dim=1, keepdim=True) * t
    result = turned / torch.sin(angle) * norm
    # Where the vectors are parallel or opposite sin(angle) vanishes, and there is no arc to follow.
    result = torch.where(cosine > 1 - 1e-5, a, result)
    return torch.where(cosine < 1e-5 - 1, a * (1 - t) + b * t, result)
