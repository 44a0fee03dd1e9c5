"""LATENT nodes on batches and on whole latents as numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .inputs import integer, real
from .pixels import repeat_to_batch
from .resample import resample


def fitted(samples: torch.Tensor, like: torch.Tensor, method: str = "bilinear") -> torch.Tensor:
    """`samples` with the height and width of `like`, cut to its aspect ratio first."""
    if samples.shape[1:] == like.shape[1:]:
        return samples
    return resample(samples, like.shape[-1], like.shape[-2], method, "center")


def _indices(latent: dict) -> list[int]:
    return latent.get("batch_index", list(range(latent["samples"].shape[0])))


class _TwoLatents:
    RETURN_TYPES = ("LATENT",)
    CATEGORY = "latent/advanced"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples1": ("LATENT",), "samples2": ("LATENT",)}}

    @staticmethod
    def pair(samples1: dict, samples2: dict) -> tuple[torch.Tensor, torch.Tensor]:
        """Both tensors in the shape of the first."""
        first = samples1["samples"]
        return first, repeat_to_batch(fitted(samples2["samples"], first), first.shape[0])


class LatentAdd(_TwoLatents):
    FUNCTION = "add"

    def add(self, samples1, samples2):
        first, second = self.pair(samples1, samples2)
        return ({**samples1, "samples": first + second},)


class LatentSubtract(_TwoLatents):
    FUNCTION = "subtract"

    def subtract(self, samples1, samples2):
        first, second = self.pair(samples1, samples2)
        return ({**samples1, "samples": first - second},)


class LatentInterpolate(_TwoLatents):
    FUNCTION = "interpolate"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {**super().INPUT_TYPES()["required"], "ratio": real(1.0, 0.0, 1.0)}}

    def interpolate(self, samples1, samples2, ratio):
        """Mix directions and norms of the channel vectors apart, so that the mix does not fade."""
        first, second = self.pair(samples1, samples2)
        norm = first.norm(dim=1, keepdim=True) * ratio + second.norm(dim=1, keepdim=True) * (1 - ratio)
        direction = F.normalize(first, dim=1) * ratio + F.normalize(second, dim=1) * (1 - ratio)
        return ({**samples1, "samples": F.normalize(direction, dim=1) * norm},)


class LatentBlend(_TwoLatents):
    FUNCTION = "blend"
    CATEGORY = "_for_testing"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {**super().INPUT_TYPES()["required"], "blend_factor": real(0.5, 0, 1)}}

    def blend(self, samples1, samples2, blend_factor):
        first = samples1["samples"]
        second = fitted(samples2["samples"], first, "bicubic")
        return ({**samples1, "samples": first * blend_factor + second * (1 - blend_factor)},)


class LatentBatch(_TwoLatents):
    FUNCTION = "batch"
    CATEGORY = "latent/batch"

    def batch(self, samples1, samples2):
        first = samples1["samples"]
        samples = torch.cat((first, fitted(samples2["samples"], first)))
        return ({**samples1, "samples": samples, "batch_index": _indices(samples1) + _indices(samples2)},)


class LatentMultiply:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "multiply"
    CATEGORY = "latent/advanced"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "multiplier": real(1.0, -10.0, 10.0)}}

    def multiply(self, samples, multiplier):
        return ({**samples, "samples": samples["samples"] * multiplier},)


class LatentBatchSeedBehavior:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "set_behavior"
    CATEGORY = "latent/advanced"

    @classmethod
    def INPUT_TYPES(cls):
        behavior = (["random", "fixed"], {"default": "fixed"})
        return {"required": {"samples": ("LATENT",), "seed_behavior": behavior}}

    def set_behavior(self, samples, seed_behavior):
        """ "fixed": the whole batch gets the noise of its first element."""
        out = {key: value for key, value in samples.items() if key != "batch_index"}
        if seed_behavior == "fixed":
            out["batch_index"] = _indices(samples)[:1] * samples["samples"].shape[0]
        return (out,)


class LatentFromBatch:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "frombatch"
    CATEGORY = "latent/batch"

    @classmethod
    def INPUT_TYPES(cls):
        span = {"batch_index": integer(0, 0, 63), "length": integer(1, 1, 64)}
        return {"required": {"samples": ("LATENT",), **span}}

    def frombatch(self, samples, batch_index, length):
        tensor = samples["samples"]
        start = min(batch_index, tensor.shape[0] - 1)
        chosen = slice(start, start + length)
        out = {**samples, "samples": tensor[chosen].clone(), "batch_index": _indices(samples)[chosen]}
        if "noise_mask" in samples and samples["noise_mask"].shape[0] > 1:
            out["noise_mask"] = repeat_to_batch(samples["noise_mask"], tensor.shape[0])[chosen].clone()
        return (out,)


class RepeatLatentBatch:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "repeat"
    CATEGORY = "latent/batch"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "amount": integer(1, 1, 64)}}

    def repeat(self, samples, amount):
        """Where a batch has indices, each copy gets fresh ones, so that no two share their noise."""
        size = samples["samples"].shape[0]
        out = {**samples, "samples": repeat_to_batch(samples["samples"], size * amount)}
        if "noise_mask" in samples and samples["noise_mask"].shape[0] > 1:
            out["noise_mask"] = repeat_to_batch(repeat_to_batch(samples["noise_mask"], size), size * amount)
        if "batch_index" in samples:
            indices = samples["batch_index"]
            span = max(indices) - min(indices) + 1
            out["batch_index"] = [index + span * copy for copy in range(amount) for index in indices]
        return (out,)


NODES = {
    "LatentAdd": LatentAdd,
    "LatentSubtract": LatentSubtract,
    "LatentMultiply": LatentMultiply,
    "LatentInterpolate": LatentInterpolate,
    "LatentBlend": LatentBlend,
    "LatentBatch": LatentBatch,
    "LatentBatchSeedBehavior": LatentBatchSeedBehavior,
    "LatentFromBatch": LatentFromBatch,
    "RepeatLatentBatch": RepeatLatentBatch,
}

DISPLAY_NAMES = {
    "LatentBlend": "Latent Blend",
    "LatentFromBatch": "Latent From Batch",
    "RepeatLatentBatch": "Repeat Latent Batch",
}
