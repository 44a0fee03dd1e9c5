"""VAE: pictures to latents and back, as an immutable handle.

IMAGE is [B, H, W, 3] in 0..1, LATENT [B, C, h, w] in the autoencoder's own space, both float32 on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import context
from ..sampling.model import LatentFormat
from . import memory, vae_layout
from .files import BadFile, Weights, main_dtype
from .modules import assemble
from .tiles import count, tiled

# An autoencoder works in this type on accelerators: half precision overflows in some of the published ones.
DTYPES = (torch.bfloat16,)


class Codec(torch.nn.Module):
    """An autoencoder of diffusers between pictures in -1..1 and LATENT: both [B, C, H, W]."""

    def __init__(self, module: torch.nn.Module, scale: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        self.module, self.scale, self.shift = module, scale, shift

    def encode(self, picture: torch.Tensor) -> torch.Tensor:
        """The mean of the posterior, where there is one."""
        encoded = self.module.encode(picture)
        latent = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents
        return latent / self.scale + self.shift

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        return self.module.decode((latent - self.shift) * self.scale, return_dict=False)[0]


class PixelSpace(torch.nn.Module):
    """No autoencoder: the latent is the picture."""

    def encode(self, picture: torch.Tensor) -> torch.Tensor:
        return picture

    decode = encode


@dataclass(frozen=True, eq=False)
class VAE:
    codec: Codec | PixelSpace
    latent: LatentFormat
    device: torch.device
    compute: torch.dtype

    @property
    def ratio(self) -> int:
        """Pixels to a latent cell, along a side."""
        return self.latent.spatial_ratio

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """IMAGE from `samples`; in tiles where the device has too little memory for the whole."""
        self._check(latent)
        decode = self._runner("decode")
        try:
            pictures = torch.cat([decode(item).cpu() for item in latent.split(1)])
        except torch.OutOfMemoryError:
            return self.decode_tiled(latent)
        return _image(pictures)

    def encode(self, image: torch.Tensor) -> torch.Tensor:
        """`samples` from IMAGE; sides are cut, equally at both ends, to multiples of the ratio."""
        pictures = self._pictures(image)
        encode = self._runner("encode")
        try:
            return torch.cat([encode(item).cpu() for item in pictures.split(1)])
        except torch.OutOfMemoryError:
            return self.encode_tiled(image)

    def decode_tiled(self, latent: torch.Tensor, tile: int = 64, overlap: int = 16) -> torch.Tensor:
        """As `decode`, in tiles; sizes in latent cells."""
        self._check(latent)
        return _image(self._tiled(latent, "decode", (tile, tile), overlap, self.ratio, 3))

    def encode_tiled(self, image: torch.Tensor, tile: int = 512, overlap: int = 64) -> torch.Tensor:
        """As `encode`, in tiles; sizes in pixels."""
        pictures = self._pictures(image)
        return self._tiled(pictures, "encode", (tile, tile), overlap, 1 / self.ratio, self.latent.channels)

    def _tiled(self, x, method: str, tile: tuple[int, int], overlap: int, scale: float, channels: int):
        """The mean of three passes, with square, tall and wide tiles, so that no seams coincide."""
        height, width = tile
        overlap = overlap if overlap < min(tile) // 2 else min(tile) // 4
        passes = [(height, width), (height * 2, width // 2), (height // 2, width * 2)]
        total = len(x) * sum(count(x.shape[2:], sides, overlap) for sides in passes)
        finished = 0

        def done() -> None:
            nonlocal finished
            finished += 1
            context.progress(finished, total)

        function = self._runner(method)
        results = [
            tiled(x, function, tile=sides, overlap=overlap, scale=scale, channels=channels, done=done)
            for sides in passes
        ]
        return sum(results) / len(results)

    def _runner(self, method: str) -> Callable[[torch.Tensor], torch.Tensor]:
        codec = memory.to_device(self.codec, self.device)
        run = getattr(codec, method)
        return lambda x: run(x.to(self.device, self.compute)).float()

    def _check(self, latent: torch.Tensor) -> None:
        if latent.ndim != 4 or latent.shape[1] != self.latent.channels:
            raise ValueError(
                f"this VAE decodes latents of shape [B, {self.latent.channels}, H, W]; "
                f"it was given {list(latent.shape)}, which another kind of model made"
            )

    def _pictures(self, image: torch.Tensor) -> torch.Tensor:
        height, width = (side // self.ratio * self.ratio for side in image.shape[1:3])
        if not height or not width:
            raise ValueError(f"the picture is smaller than {self.ratio} pixels, which one latent cell takes")
        top, left = (image.shape[1] - height) // 2, (image.shape[2] - width) // 2
        cut = image[:, top : top + height, left : left + width, :3]
        return cut.movedim(-1, 1) * 2.0 - 1.0


def _image(pictures: torch.Tensor) -> torch.Tensor:
    return ((pictures + 1.0) / 2.0).clamp(0.0, 1.0).movedim(1, -1)


def load(weights: Weights, name: str, scale: float = 1.0, shift: float = 0.0) -> VAE | None:
    """The autoencoder among `weights`, None if there is none; `name` is for errors.

    `scale` and `shift` are for tiny autoencoders, which work in the denoiser's space (see LatentFormat).
    """
    if vae_layout.is_kl(weights):
        inner = vae_layout.kl_to_diffusers(weights)
        return from_config("AutoencoderKL", vae_layout.kl_config(inner), inner, name)
    if vae_layout.is_tiny(weights):
        inner = vae_layout.tiny_to_diffusers(weights)
        return from_config("AutoencoderTiny", vae_layout.tiny_config(inner), inner, name, scale, shift)
    return None


def from_config(
    kind: str, config: Mapping[str, Any], weights: Weights, name: str, scale: float = 1.0, shift: float = 0.0
) -> VAE:
    """The autoencoder of a class name and config in diffusers' layout."""
    builders = {"AutoencoderKL": vae_layout.build_kl, "AutoencoderTiny": vae_layout.build_tiny}
    if kind not in builders:
        raise BadFile(f"{name}: autoencoders of the class {kind} are not supported")
    compute = memory.compute_dtype(main_dtype(weights), DTYPES)
    module = assemble(lambda: builders[kind](config), weights, compute, name)
    ratio = 2 ** (len(module.config.block_out_channels) - 1)
    return VAE(
        codec=Codec(module, scale, shift),
        latent=LatentFormat(channels=module.config.latent_channels, spatial_ratio=ratio),
        device=memory.device(),
        compute=compute,
    )


def pixel_space() -> VAE:
    """The VAE of models that work on pixels: LATENT is the picture in -1..1."""
    latent = LatentFormat(channels=3, spatial_ratio=1)
    return VAE(PixelSpace(), latent, torch.device("cpu"), torch.float32)
