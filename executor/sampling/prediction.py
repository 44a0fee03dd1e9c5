"""How a family's noise levels relate to the time its denoiser is told: `ModelSampling` and its kinds.

All are frozen and hold only numbers, so two equal ones are interchangeable and a node that changes the
sampling of a model makes a new one. A `sigma` is a noise level, a `timestep` what the denoiser is told, a
percent the part of the schedule that is done (0 at the start).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from .parametrisation import CosmosFlow, Epsilon, Flow, Parametrisation, Velocity

BEFORE_ANY_SIGMA = (
    999999999.9  # a sigma that no schedule reaches: "from the start on" where sigma has no bound
)


@dataclass(frozen=True)
class ModelSampling:
    """Schedule and parametrisation of a denoiser. Subclasses give `sigmas`, `timestep`, `sigma`,
    `percent_to_sigma`."""

    parametrisation: Parametrisation

    @property
    def sigmas(self) -> Tensor:
        """The noise levels that the schedules choose from, ascending (float32, CPU)."""
        raise NotImplementedError

    @property
    def sigma_min(self) -> float:
        return float(self.sigmas[0])

    @property
    def sigma_max(self) -> float:
        return float(self.sigmas[-1])

    @property
    def flow(self) -> bool:
        """Whether latents are mixed as `(1 - sigma) x0 + sigma n`."""
        return self.parametrisation.flow

    def timestep(self, sigma: Tensor) -> Tensor:
        """What the denoiser is told at noise level `sigma`; same shape and device."""
        raise NotImplementedError

    def sigma(self, timestep: Tensor) -> Tensor:
        """The noise level that a schedule uniform in time visits at `timestep`.

        With a shift this is not the inverse of `timestep`: a shifted flow model is still told its true sigma.
        """
        raise NotImplementedError

    def percent_to_sigma(self, percent: float) -> float:
        """The noise level where `percent` (0..1) of the schedule is done."""
        raise NotImplementedError

    def model_input(self, x: Tensor, sigma: Tensor) -> Tensor:
        return self.parametrisation.model_input(x, sigma)

    def denoised(self, x: Tensor, output: Tensor, sigma: Tensor) -> Tensor:
        """The clean latent, from the denoiser's `output` at noisy latent `x` and `sigma` ([B])."""
        return self.parametrisation.denoised(x, output, sigma, self.timestep(sigma))


def zero_terminal_snr(sigmas: Tensor) -> Tensor:
    """Sigmas rescaled so that the last one is (nearly) pure noise (Lin et al. 2023, arXiv:2305.08891,
    algorithm 1).

    The last alpha would be 0 and its sigma infinite; the published models stand in 4.8973451890853435e-08.
    """
    root = (1.0 / (sigmas**2 + 1.0)).sqrt()
    squared = ((root - root[-1]) * (root[0] / (root[0] - root[-1]))) ** 2
    squared[-1] = 4.8973451890853435e-08
    return ((1.0 - squared) / squared).sqrt()


@dataclass(frozen=True)
class Discrete(ModelSampling):
    """A table of trained noise levels, one per timestep (DDPM); between them log sigma is linear in time.

    `beta_schedule` in diffusers' words: "scaled_linear" (Stable Diffusion) or "linear". `stride` > 1 keeps
    every stride-th level, counted from the noisiest, for models distilled to fewer timesteps.
    """

    parametrisation: Parametrisation = field(default_factory=Epsilon)
    beta_start: float = 0.00085
    beta_end: float = 0.012
    beta_schedule: str = "scaled_linear"
    timesteps: int = 1000
    zero_snr: bool = False
    stride: int = 1

    @cached_property
    def _table(self) -> Tensor:
        power = 2.0 if self.beta_schedule == "scaled_linear" else 1.0
        start, end = self.beta_start ** (1 / power), self.beta_end ** (1 / power)
        betas = torch.linspace(start, end, self.timesteps, dtype=torch.float64) ** power
        alphas = torch.cumprod(1.0 - betas, dim=0)
        sigmas = ((1.0 - alphas) / alphas).sqrt()
        if self.zero_snr:
            sigmas = zero_terminal_snr(sigmas)
        return sigmas[self.stride - 1 :: self.stride]

    @cached_property
    def sigmas(self) -> Tensor:
        return self._table.float()

    @cached_property
    def _log_sigmas(self) -> Tensor:
        # Of the unrounded table: Brownian noise notices a sigma that is off by its last bit.
        return self._table.log().float()

    def timestep(self, sigma):
        distance = sigma.log()[..., None] - self._log_sigmas.to(sigma.device)
        return distance.abs().argmin(dim=-1) * self.stride + (self.stride - 1)

    def sigma(self, timestep):
        table = self._log_sigmas.to(timestep.device)
        index = ((timestep.float() - (self.stride - 1)) / self.stride).clamp(0, len(table) - 1)
        below, above, part = index.floor().long(), index.ceil().long(), index.frac()
        return ((1 - part) * table[below] + part * table[above]).exp()

    def percent_to_sigma(self, percent):
        if percent <= 0.0:
            return BEFORE_ANY_SIGMA
        if percent >= 1.0:
            return 0.0
        return self.sigma(torch.tensor((1.0 - percent) * 999.0)).item()


@dataclass(frozen=True)
class ContinuousEdm(ModelSampling):
    """Any sigma between two bounds; the denoiser is told log(sigma) / 4 (EDM, arXiv:2206.00364)."""

    parametrisation: Parametrisation = field(default_factory=Epsilon)
    lowest: float = 0.002
    highest: float = 120.0

    @cached_property
    def sigmas(self) -> Tensor:
        return torch.linspace(math.log(self.lowest), math.log(self.highest), 1000).exp()

    def timestep(self, sigma):
        return 0.25 * sigma.log()

    def sigma(self, timestep):
        return (timestep / 0.25).exp()

    def percent_to_sigma(self, percent):
        if percent <= 0.0:
            return BEFORE_ANY_SIGMA
        if percent >= 1.0:
            return 0.0
        low, high = math.log(self.sigma_min), math.log(self.sigma_max)
        return math.exp(high + (low - high) * percent)


@dataclass(frozen=True)
class ContinuousV(ContinuousEdm):
    """Any sigma between two bounds; the denoiser is told the angle atan(sigma) in units of pi / 2
    (arXiv:2202.00512)."""

    parametrisation: Parametrisation = field(default_factory=Velocity)
    lowest: float = 0.03
    highest: float = 500.0

    def timestep(self, sigma):
        return sigma.atan() / (math.pi / 2)

    def sigma(self, timestep):
        return (timestep * (math.pi / 2)).tan()


@dataclass(frozen=True)
class CosmosRectified(ContinuousEdm):
    """Flow time sigma / (sigma + 1), for `CosmosFlow`."""

    parametrisation: Parametrisation = field(default_factory=CosmosFlow)
    highest: float = 80.0

    def timestep(self, sigma):
        return sigma / (sigma + 1)

    def sigma(self, timestep):
        last = self.sigma_max
        return torch.where(timestep >= last / (last + 1), last, timestep / (1 - timestep))


@dataclass(frozen=True)
class _Rectified(ModelSampling):
    """Flow models whose schedule is a shift of uniform time: sigma runs from 1 to 0."""

    parametrisation: Parametrisation = field(default_factory=Flow)

    def _shifted(self, time):
        """The shift on flow time (0..1), a float or a tensor."""
        raise NotImplementedError

    def percent_to_sigma(self, percent):
        if percent <= 0.0:
            return 1.0
        if percent >= 1.0:
            return 0.0
        return self._shifted(1.0 - percent)


@dataclass(frozen=True)
class DiscreteFlow(_Rectified):
    """Time shifted by a ratio of signal to noise, s t / (1 + (s - 1) t) (SD3, arXiv:2403.03206, section
    5.3.2).

    `multiplier`: what the denoiser is told at sigma 1 (1000 for most families, 1 for AuraFlow).
    """

    shift: float = 1.0
    multiplier: float = 1000.0

    @cached_property
    def sigmas(self) -> Tensor:
        return self.sigma(torch.arange(1, 1001) / 1000 * self.multiplier)

    def _shifted(self, time):
        return time if self.shift == 1.0 else self.shift * time / (1 + (self.shift - 1) * time)

    def timestep(self, sigma):
        return sigma * self.multiplier

    def sigma(self, timestep):
        return self._shifted(timestep / self.multiplier)


@dataclass(frozen=True)
class FluxFlow(_Rectified):
    """Time shifted by e^mu / (e^mu + 1 / t - 1), the form of Flux; `shift` is mu. The denoiser is told
    sigma."""

    shift: float = 1.15

    @cached_property
    def sigmas(self) -> Tensor:
        return self.sigma(torch.arange(1, 10001) / 10000)

    def _shifted(self, time):
        return math.exp(self.shift) / (math.exp(self.shift) + (1 / time - 1))

    def timestep(self, sigma):
        return sigma

    def sigma(self, timestep):
        return self._shifted(timestep)


def flux_shift(width: int, height: int, *, base: float = 0.5, maximum: float = 1.15) -> float:
    """mu of `FluxFlow` for a picture of that size in pixels: linear in the number of 16 x 16 tokens, `base`
    at 256 and `maximum` at 4096."""
    slope = (maximum - base) / (4096 - 256)
    return base + slope * (width * height / 256 - 256)
