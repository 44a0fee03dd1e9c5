"""What every sampler is given and the few formulas that they share.

A sampler is a function `(predict, x, sigmas, *, callback, [noise,] **options) -> x`. `x` is a noisy latent
in the denoiser's space at `sigmas[0]`; the result is at `sigmas[-1]`. `sigmas` is a 1-d float32 tensor on
the CPU, so that arithmetic on noise levels never waits for the device that `x` is on. Nothing is kept
between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from ..prediction import ModelSampling


class Predict(Protocol):
    """The guided model: the clean latent that it sees in `x` at noise level `sigma` (0-d)."""

    sampling: ModelSampling

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor: ...

    def split(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """The guided prediction and the one without the prompt, for CFG++ samplers."""
        ...


Callback = Callable[[int, Tensor, Tensor], None]  # step (from 0), denoised, x; called once for each step
NoiseSampler = Callable[[Tensor, Tensor], Tensor]  # unit noise like x for the step from one sigma to the next


def steps(sigmas: Tensor) -> Iterator[tuple[int, tuple[Tensor, Tensor]]]:
    """(step, (sigma, sigma_next)) for each step."""
    return enumerate(pairwise(sigmas))


def slope(x: Tensor, denoised: Tensor, sigma: Tensor) -> Tensor:
    """dx / dsigma of the probability flow ODE (Karras et al. 2022, equation 3)."""
    return (x - denoised) / sigma


def blend(x: Tensor, denoised: Tensor, ratio: Tensor) -> Tensor:
    """`x` taken along a straight line towards `denoised`, until `ratio` of its noise level is left."""
    return ratio * x + (1 - ratio) * denoised


def ancestral(sigma: Tensor, sigma_next: Tensor, eta: float) -> tuple[Tensor, Tensor]:
    """Where to step down to, and how much noise then leads back up to `sigma_next` (variance exploding
    latents)."""
    if eta == 0:
        return sigma_next, torch.zeros_like(sigma_next)
    if sigma.isinf():  # sigma / alpha of a flow's pure noise: ComfyUI replaces all of it, whatever eta is
        return torch.zeros_like(sigma_next), sigma_next
    up = torch.minimum(sigma_next, eta * sigma_next * (1 - (sigma_next / sigma) ** 2).sqrt())
    return (sigma_next**2 - up**2).sqrt(), up


def flow_ancestral(sigma: Tensor, sigma_next: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
    """As `ancestral` for flow latents, which are also scaled on the way up so that the signal keeps 1 -
    sigma_next.

    Returns (down, scale, up): `x_next = scale x_down + up noise`.
    """
    down = (sigma_next * (1 + (sigma_next / sigma - 1) * eta)).clamp(min=0)
    scale = (1 - sigma_next) / (1 - down)
    return down, scale, (sigma_next**2 - down**2 * scale**2).clamp(min=0).sqrt()


def ancestral_step(
    sampling: ModelSampling, sigma: Tensor, sigma_next: Tensor, eta: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(down, scale, up) for either kind of latent; see `flow_ancestral`."""
    if sampling.flow:
        return flow_ancestral(sigma, sigma_next, eta)
    down, up = ancestral(sigma, sigma_next, eta)
    return down, torch.ones_like(down), up


def finite_snr(sigmas: Tensor, sampling: ModelSampling) -> Tensor:
    """Sigmas of which log(alpha / sigma) exists: a flow that starts at pure noise starts a hair later
    instead."""
    if sampling.flow and len(sigmas) > 1 and sigmas[0] >= 1:
        sigmas = sigmas.clone()
        sigmas[0] = sampling.percent_to_sigma(1e-4)
    return sigmas
