"""What a denoiser's input and output mean: the formulas between noisy latent, output and clean latent.

Two families. *Variance exploding*: `x = x0 + sigma n` (Karras et al. 2022, arXiv:2206.00364). *Flow*: `x =
(1 - sigma) x0 + sigma n` (Liu et al. 2022, arXiv:2209.03003). Everywhere `sigma` is a 0-d tensor or has
shape [B] and is spread over the latent's other axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def spread(sigma: Tensor, like: Tensor) -> Tensor:
    """`sigma` in a shape that multiplies `like` item by item."""
    return sigma if sigma.ndim == 0 else sigma.view(-1, *[1] * (like.ndim - 1))


@dataclass(frozen=True)
class Parametrisation:
    """Variance exploding latents; the subclasses say what the output is."""

    sigma_data: float = 1.0  # standard deviation of clean latents that the preconditioning assumes

    flow = False

    def model_input(self, x: Tensor, sigma: Tensor) -> Tensor:
        """What the denoiser is fed: `x` with unit variance."""
        return x / (spread(sigma, x) ** 2 + self.sigma_data**2) ** 0.5

    def denoised(self, x: Tensor, output: Tensor, sigma: Tensor, timestep: Tensor) -> Tensor:
        """The clean latent that `output`, computed at `x`, stands for."""
        raise NotImplementedError

    def add_noise(self, latent: Tensor, noise: Tensor, sigma: Tensor, *, full: bool = False) -> Tensor:
        """`latent` at noise level `sigma`. `full`: nothing of the latent is to survive; the noise then
        takes the standard deviation of a whole noisy latent, sqrt(1 + sigma^2), as in training."""
        sigma = spread(sigma, noise)
        return latent + noise * (torch.sqrt(1.0 + sigma**2) if full else sigma)

    def leave(self, x: Tensor, sigma: Tensor) -> Tensor:
        """What a run that ends at `sigma` hands out."""
        return x

    def alpha(self, sigma: Tensor) -> Tensor:
        """The factor of the clean latent in `x`."""
        return torch.ones_like(sigma)

    def half_log_snr(self, sigma: Tensor) -> Tensor:
        """lambda = log(alpha / sigma)."""
        return -sigma.log()

    def sigma_at(self, half_log_snr: Tensor) -> Tensor:
        return (-half_log_snr).exp()


@dataclass(frozen=True)
class Epsilon(Parametrisation):
    """The output is the noise n (DDPM, arXiv:2006.11239)."""

    def denoised(self, x, output, sigma, timestep):
        return x - output * spread(sigma, x)


@dataclass(frozen=True)
class Velocity(Parametrisation):
    """The output is alpha n - sigma x0 of the variance preserving form (Salimans & Ho 2022,
    arXiv:2202.00512)."""

    _sign = -1.0

    def denoised(self, x, output, sigma, timestep):
        sigma = spread(sigma, x)
        total = sigma**2 + self.sigma_data**2
        return x * self.sigma_data**2 / total + self._sign * output * sigma * self.sigma_data / total**0.5


@dataclass(frozen=True)
class Edm(Velocity):
    """EDM preconditioning (arXiv:2206.00364, table 1): `Velocity` with the output's sign turned."""

    sigma_data: float = 0.5

    _sign = 1.0


@dataclass(frozen=True)
class Sample(Parametrisation):
    """The output is the clean latent."""

    def denoised(self, x, output, sigma, timestep):
        return output


@dataclass(frozen=True)
class ImageToImage(Sample):
    """The output is the clean latent and the input goes in unscaled."""

    def model_input(self, x, sigma):
        return x


@dataclass(frozen=True)
class Consistency(Epsilon):
    """Latent consistency models (arXiv:2310.04378): `Epsilon` inside the boundary condition f(x, 0) = x."""

    timestep_scaling: float = 10.0

    def denoised(self, x, output, sigma, timestep):
        scaled = spread(timestep, x) * self.timestep_scaling
        boundary = 0.5  # the paper's sigma_data
        total = scaled**2 + boundary**2
        estimate = super().denoised(x, output, sigma, timestep)
        return estimate * scaled / total**0.5 + x * boundary**2 / total


@dataclass(frozen=True)
class Flow(Parametrisation):
    """Rectified flow: the output is the velocity n - x0."""

    flow = True

    def model_input(self, x, sigma):
        return x

    def denoised(self, x, output, sigma, timestep):
        return x - output * spread(sigma, x)

    def add_noise(self, latent, noise, sigma, *, full=False):
        sigma = spread(sigma, noise)
        return sigma * noise + (1.0 - sigma) * latent

    def leave(self, x, sigma):
        return x / (1.0 - spread(sigma, x))

    def alpha(self, sigma):
        return 1.0 - sigma

    def half_log_snr(self, sigma):
        return -sigma.logit()

    def sigma_at(self, half_log_snr):
        return (-half_log_snr).sigmoid()


@dataclass(frozen=True)
class CosmosFlow(Parametrisation):
    """A flow model driven as a variance exploding one: flow time is sigma / (sigma + 1)."""

    def model_input(self, x, sigma):
        return x * (1.0 - spread(sigma / (sigma + 1), x))

    def denoised(self, x, output, sigma, timestep):
        time = spread(sigma / (sigma + 1), x)
        return x * (1.0 - time) - output * time

    def add_noise(self, latent, noise, sigma, *, full=False):
        return latent + noise * spread(sigma, noise)
