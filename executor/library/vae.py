"""Nodes between IMAGE and LATENT."""

from __future__ import annotations

import math

import torch

from .inputs import integer
from .pixels import resize_mask

OVERLAP = integer(64, 0, 4096, 32)
# For video autoencoders: frames at a time, and how many of them overlap.
TEMPORAL = {"temporal_size": integer(64, 8, 4096, 4), "temporal_overlap": integer(8, 4, 4096, 4)}


def checked(vae):
    """A VAE input, which is None where a checkpoint holds no VAE."""
    if vae is None:
        raise ValueError("vae: the checkpoint that this comes from holds no VAE; load one with VAELoader")
    return vae


class VAEDecode:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "decode"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "vae": ("VAE",)}}

    def decode(self, vae, samples):
        return (checked(vae).decode(samples["samples"]),)


class VAEDecodeTiled:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "decode"
    CATEGORY = "_for_testing"

    @classmethod
    def INPUT_TYPES(cls):
        tile = integer(512, 64, 4096, 32)
        return {
            "required": {
                "samples": ("LATENT",),
                "vae": ("VAE",),
                "tile_size": tile,
                "overlap": OVERLAP,
                **TEMPORAL,
            }
        }

    def decode(self, vae, samples, tile_size, overlap=64, temporal_size=64, temporal_overlap=8):
        ratio = checked(vae).ratio
        overlap = min(overlap, tile_size // 4)
        return (vae.decode_tiled(samples["samples"], tile_size // ratio, overlap // ratio),)


class VAEEncode:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "encode"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"pixels": ("IMAGE",), "vae": ("VAE",)}}

    def encode(self, vae, pixels):
        return ({"samples": checked(vae).encode(pixels)},)


class VAEEncodeTiled:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "encode"
    CATEGORY = "_for_testing"

    @classmethod
    def INPUT_TYPES(cls):
        tile = integer(512, 64, 4096, 64)
        return {
            "required": {
                "pixels": ("IMAGE",),
                "vae": ("VAE",),
                "tile_size": tile,
                "overlap": OVERLAP,
                **TEMPORAL,
            }
        }

    def encode(self, vae, pixels, tile_size, overlap, temporal_size=64, temporal_overlap=8):
        return ({"samples": checked(vae).encode_tiled(pixels, tile_size, overlap)},)


class VAEEncodeForInpaint:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "encode"
    CATEGORY = "latent/inpaint"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "pixels": ("IMAGE",),
                "vae": ("VAE",),
                "mask": ("MASK",),
                "grow_mask_by": integer(6, 0, 64, 1),
            }
        }

    def encode(self, vae, pixels, mask, grow_mask_by=6):
        """What is masked becomes grey before encoding; the noise mask is the mask, grown by some pixels."""
        ratio = checked(vae).ratio
        height, width = pixels.shape[1:3]
        mask = resize_mask(mask, height, width)
        # Cut to whole latent cells, the same from both ends.
        top, left = height % ratio // 2, width % ratio // 2
        rows, columns = slice(top, top + height // ratio * ratio), slice(left, left + width // ratio * ratio)
        mask = mask[:, :, rows, columns].round()
        kept = (1.0 - mask).movedim(1, -1)
        grey = (pixels[:, rows, columns, :3] - 0.5) * kept + 0.5
        return ({"samples": vae.encode(grey), "noise_mask": grown(mask, grow_mask_by)},)


def grown(mask, by):
    """A mask [B, 1, H, W] of zeros and ones, its ones spread over squares of `by` pixels."""
    if not by:
        return mask
    spread = torch.nn.functional.conv2d(mask, torch.ones(1, 1, by, by), padding=math.ceil((by - 1) / 2))
    return spread.clamp(0, 1).round()[:, :, : mask.shape[2], : mask.shape[3]]


NODES = {
    "VAEDecode": VAEDecode,
    "VAEDecodeTiled": VAEDecodeTiled,
    "VAEEncode": VAEEncode,
    "VAEEncodeTiled": VAEEncodeTiled,
    "VAEEncodeForInpaint": VAEEncodeForInpaint,
}

DISPLAY_NAMES = {
    "VAEDecode": "VAE Decode",
    "VAEDecodeTiled": "VAE Decode (Tiled)",
    "VAEEncode": "VAE Encode",
    "VAEEncodeTiled": "VAE Encode (Tiled)",
    "VAEEncodeForInpaint": "VAE Encode (for Inpainting)",
}
