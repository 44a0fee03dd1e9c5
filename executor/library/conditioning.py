"""CONDITIONING nodes. A conditioning is a list of [tensor [B, tokens, width], options]."""

from __future__ import annotations

import logging

import torch
import torch.nn.functional as F

from .inputs import pixels, real
from .pixels import resize_mask
from .vae import checked

log = logging.getLogger(__name__)


def with_values(conditioning: list, **values) -> list:
    """Every entry with these options set; the entries given stay as they are."""
    return [[tensor, {**options, **values}] for tensor, options in conditioning]


def _first(conditioning: list, node: str):
    """ComfyUI's rule where only one entry can be used: the first."""
    if len(conditioning) > 1:
        log.warning("%s: conditioning_from has %d entries; the first is used", node, len(conditioning))
    return conditioning[0]


class ConditioningCombine:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "combine"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning_1": ("CONDITIONING",), "conditioning_2": ("CONDITIONING",)}}

    def combine(self, conditioning_1, conditioning_2):
        return (conditioning_1 + conditioning_2,)


class ConditioningConcat:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "concat"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning_to": ("CONDITIONING",), "conditioning_from": ("CONDITIONING",)}}

    def concat(self, conditioning_to, conditioning_from):
        added, _ = _first(conditioning_from, "ConditioningConcat")
        return ([[torch.cat((tensor, added), 1), {**options}] for tensor, options in conditioning_to],)


class ConditioningAverage:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "average"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"conditioning_to": ("CONDITIONING",), "conditioning_from": ("CONDITIONING",)}
        return {"required": {**pair, "conditioning_to_strength": real(1.0, 0.0, 1.0)}}

    def average(self, conditioning_to, conditioning_from, conditioning_to_strength):
        """`conditioning_from` is cut, or filled up with zeros, to the number of tokens of each entry."""
        other, other_options = _first(conditioning_from, "ConditioningAverage")
        other_pooled = other_options.get("pooled_output")
        out = []
        for tensor, options in conditioning_to:
            length = tensor.shape[1]
            fitted = F.pad(other[:, :length], (0, 0, 0, max(0, length - other.shape[1])))
            mixed = {**options}
            if other_pooled is not None:
                pooled = options.get("pooled_output")
                pooled = other_pooled if pooled is None else pooled
                mixed["pooled_output"] = _mix(pooled, other_pooled, conditioning_to_strength)
            out.append([_mix(tensor, fitted, conditioning_to_strength), mixed])
        return (out,)


def _mix(a: torch.Tensor, b: torch.Tensor, share: float) -> torch.Tensor:
    return a * share + b * (1 - share)


class ConditioningZeroOut:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "zero_out"
    CATEGORY = "advanced/conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning": ("CONDITIONING",)}}

    def zero_out(self, conditioning):
        out = []
        for tensor, options in conditioning:
            zeroed = {
                key: torch.zeros_like(options[key])
                for key in ("pooled_output", "conditioning_lyrics")
                if options.get(key) is not None
            }
            out.append([torch.zeros_like(tensor), {**options, **zeroed}])
        return (out,)


class ConditioningSetTimestepRange:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "set_range"
    CATEGORY = "advanced/conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        span = {"start": real(0.0, 0.0, 1.0, 0.001), "end": real(1.0, 0.0, 1.0, 0.001)}
        return {"required": {"conditioning": ("CONDITIONING",), **span}}

    def set_range(self, conditioning, start, end):
        return (with_values(conditioning, start_percent=start, end_percent=end),)


class ConditioningSetArea:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "set_area"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(64, 64, 8), "height": pixels(64, 64, 8)}
        place = {"x": pixels(0, step=8), "y": pixels(0, step=8)}
        return {
            "required": {
                "conditioning": ("CONDITIONING",),
                **sides,
                **place,
                "strength": real(1.0, 0.0, 10.0),
            }
        }

    def set_area(self, conditioning, width, height, x, y, strength):
        """The area is kept in latent cells of 8 pixels."""
        area = (height // 8, width // 8, y // 8, x // 8)
        return (with_values(conditioning, area=area, strength=strength, set_area_to_bounds=False),)


class ConditioningSetAreaPercentage:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "set_area"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": real(1.0, 0, 1.0), "height": real(1.0, 0, 1.0)}
        place = {"x": real(0, 0, 1.0), "y": real(0, 0, 1.0)}
        return {
            "required": {
                "conditioning": ("CONDITIONING",),
                **sides,
                **place,
                "strength": real(1.0, 0.0, 10.0),
            }
        }

    def set_area(self, conditioning, width, height, x, y, strength):
        area = ("percentage", height, width, y, x)
        return (with_values(conditioning, area=area, strength=strength, set_area_to_bounds=False),)


class ConditioningSetAreaStrength:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "set_strength"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning": ("CONDITIONING",), "strength": real(1.0, 0.0, 10.0)}}

    def set_strength(self, conditioning, strength):
        return (with_values(conditioning, strength=strength),)


class ConditioningSetMask:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "set_mask"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "conditioning": ("CONDITIONING",),
                "mask": ("MASK",),
                "strength": real(1.0, 0.0, 10.0),
                "set_cond_area": (["default", "mask bounds"],),
            }
        }

    def set_mask(self, conditioning, mask, strength, set_cond_area):
        mask = mask if mask.ndim > 2 else mask.unsqueeze(0)
        bounds = set_cond_area == "mask bounds"
        return (with_values(conditioning, mask=mask, mask_strength=strength, set_area_to_bounds=bounds),)


class InpaintModelConditioning:
    RETURN_TYPES = ("CONDITIONING", "CONDITIONING", "LATENT")
    RETURN_NAMES = ("positive", "negative", "latent")
    FUNCTION = "encode"
    CATEGORY = "conditioning/inpaint"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "positive": ("CONDITIONING",),
                "negative": ("CONDITIONING",),
                "vae": ("VAE",),
                "pixels": ("IMAGE",),
                "mask": ("MASK",),
                "noise_mask": ("BOOLEAN", {"default": True}),
            }
        }

    def encode(self, positive, negative, vae, pixels, mask, noise_mask=True):
        """For inpainting checkpoints: they also see the picture with the masked part grey, and the mask."""
        height, width = pixels.shape[1:3]
        mask = resize_mask(mask, height, width)
        # Cut to whole latent cells, the same from both ends.
        top, left = height % 8 // 2, width % 8 // 2
        rows, columns = slice(top, top + height // 8 * 8), slice(left, left + width // 8 * 8)
        mask = mask[:, :, rows, columns]
        kept = (1 - mask.round()).movedim(1, -1)
        masked = pixels[:, rows, columns].clone()
        masked[..., :3] = (masked[..., :3] - 0.5) * kept + 0.5

        latent = {"samples": checked(vae).encode(pixels)}
        if noise_mask:
            latent["noise_mask"] = mask
        seen = {"concat_latent_image": vae.encode(masked), "concat_mask": mask}
        return (with_values(positive, **seen), with_values(negative, **seen), latent)


NODES = {
    "ConditioningCombine": ConditioningCombine,
    "ConditioningConcat": ConditioningConcat,
    "ConditioningAverage": ConditioningAverage,
    "ConditioningZeroOut": ConditioningZeroOut,
    "ConditioningSetTimestepRange": ConditioningSetTimestepRange,
    "ConditioningSetArea": ConditioningSetArea,
    "ConditioningSetAreaPercentage": ConditioningSetAreaPercentage,
    "ConditioningSetAreaStrength": ConditioningSetAreaStrength,
    "ConditioningSetMask": ConditioningSetMask,
    "InpaintModelConditioning": InpaintModelConditioning,
}

DISPLAY_NAMES = {
    "ConditioningCombine": "Conditioning (Combine)",
    "ConditioningConcat": "Conditioning (Concat)",
    "ConditioningSetArea": "Conditioning (Set Area)",
    "ConditioningSetAreaPercentage": "Conditioning (Set Area with Percentage)",
    "ConditioningSetMask": "Conditioning (Set Mask)",
}
