"""Where noise comes from: the initial noise (NOISE) and the noise that stochastic samplers add.

Draws, their order and their devices are ComfyUI's, so that a seed gives the same picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .samplers.base import NoiseSampler


def initial_noise(like: Tensor, seed: int, batch_index: Sequence[int] | None = None) -> Tensor:
    """Unit noise of the shape and dtype of `like`, drawn on the CPU.

    With `batch_index` item i of the batch gets the noise that item `batch_index[i]` of a larger batch would
    have; such batches are drawn item by item.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    if batch_index is None:
        return torch.randn(like.shape, dtype=like.dtype, generator=generator)
    shape = (1, *like.shape[1:])
    drawn = [torch.randn(shape, dtype=like.dtype, generator=generator) for _ in range(max(batch_index) + 1)]
    return torch.cat([drawn[index] for index in batch_index])


@dataclass(frozen=True)
class RandomNoise:
    """NOISE: `initial_noise` of a seed."""

    seed: int

    def generate(self, latent: Mapping[str, Any]) -> Tensor:
        return initial_noise(latent["samples"], self.seed, latent.get("batch_index"))


@dataclass(frozen=True)
class NoNoise:
    """NOISE: none, for latents that have theirs."""

    seed: int = 0

    def generate(self, latent: Mapping[str, Any]) -> Tensor:
        return torch.zeros(latent["samples"].shape, dtype=latent["samples"].dtype)


def stepwise(x: Tensor, seed: int) -> NoiseSampler:
    """Fresh noise for each step, from one generator on the device of `x`."""
    generator = torch.Generator(x.device).manual_seed(seed)

    def sample(sigma: Tensor, sigma_next: Tensor) -> Tensor:
        return torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)

    return sample


def brownian(x: Tensor, sigmas: Tensor, seed: int, *, on_device: bool = False) -> NoiseSampler:
    """Increments of one Brownian path over sigma, scaled to unit variance: the path is the same whatever
    the steps.

    Li et al. 2020, arXiv:2001.01328 (the virtual Brownian tree of torchsde). The tree lies on the CPU, or
    on the device of `x`.
    """
    import torchsde

    positive = sigmas[sigmas > 0]
    # The tree resolves sigma to six digits and complains about queries beyond its rounded ends.
    lowest, highest = round(float(positive.min()), 6), round(float(positive.max()), 6)
    tree = torchsde.BrownianTree(
        lowest, torch.zeros_like(x, device=None if on_device else "cpu"), highest, entropy=seed
    )

    def sample(sigma: Tensor, sigma_next: Tensor) -> Tensor:
        sign = 1 if sigma < sigma_next else -1
        low, high = sorted(min(max(float(s), lowest), highest) for s in (sigma, sigma_next))
        return tree(low, high).to(x) * sign / (sigma - sigma_next).abs().sqrt()

    return sample
