"""Sigma schedules: `SCHEDULES` by the names and in the order of ComfyUI's list, and those with parameters.

Each gives a 1-d float32 tensor of `steps + 1` descending sigmas (fewer where noted), the last one 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .prediction import ModelSampling


def _to_zero(sigmas: Tensor | list[float]) -> Tensor:
    sigmas = torch.as_tensor(sigmas, dtype=torch.float32)
    return torch.cat([sigmas, sigmas.new_zeros(1)])


def karras(steps: int, sigma_min: float, sigma_max: float, rho: float = 7.0) -> Tensor:
    """Even steps in sigma^(1 / rho) (Karras et al. 2022, arXiv:2206.00364, equation 5)."""
    ramp = torch.linspace(0, 1, steps)
    low, high = sigma_min ** (1 / rho), sigma_max ** (1 / rho)
    return _to_zero((high + ramp * (low - high)) ** rho)


def exponential(steps: int, sigma_min: float, sigma_max: float) -> Tensor:
    """Even steps in log sigma."""
    return _to_zero(torch.linspace(math.log(sigma_max), math.log(sigma_min), steps).exp())


def polyexponential(steps: int, sigma_min: float, sigma_max: float, rho: float = 1.0) -> Tensor:
    """A ramp to the power `rho` in log sigma (k-diffusion)."""
    ramp = torch.linspace(1, 0, steps) ** rho
    return _to_zero((ramp * math.log(sigma_max / sigma_min) + math.log(sigma_min)).exp())


def laplace(steps: int, sigma_min: float, sigma_max: float, mu: float = 0.0, beta: float = 0.5) -> Tensor:
    """Quantiles of a Laplace distribution of log sigma (Hang et al. 2024, arXiv:2407.03297). `steps`
    sigmas, and the last one is not 0: so ComfyUI has it."""
    quantile = 0.5 - torch.linspace(0, 1, steps)
    log_sigma = mu - beta * quantile.sign() * torch.log(1 - 2 * quantile.abs() + 1e-5)
    return log_sigma.exp().clamp(sigma_min, sigma_max)


def variance_preserving(
    steps: int, beta_d: float = 19.9, beta_min: float = 0.1, eps_s: float = 1e-3
) -> Tensor:
    """Even steps in the time of the VP SDE (Song et al. 2021, arXiv:2011.13456)."""
    time = torch.linspace(1, eps_s, steps)
    return _to_zero(torch.expm1(beta_d * time**2 / 2 + beta_min * time).sqrt())


def kl_optimal(steps: int, sigma_min: float, sigma_max: float) -> Tensor:
    """Even steps in atan(sigma) (Sabour et al. 2024, arXiv:2404.14507)."""
    ramp = torch.arange(steps) / max(steps - 1, 1)
    return _to_zero((ramp * math.atan(sigma_min) + (1 - ramp) * math.atan(sigma_max)).tan())


def simple(sampling: ModelSampling, steps: int) -> Tensor:
    """Every n-th of the model's sigmas, from the highest."""
    table = sampling.sigmas
    stride = len(table) / steps
    return _to_zero(table[[-1 - int(i * stride) for i in range(steps)]])


def ddim_uniform(sampling: ModelSampling, steps: int) -> Tensor:
    """Every n-th of the model's sigmas, from the second lowest up; up to half again as many as asked for,
    since n is a whole number."""
    table = sampling.sigmas
    if math.isclose(float(table[1]), 0, abs_tol=1e-5):
        return table[1 :: max(len(table) // (steps + 1), 1)].flip(0)
    return _to_zero(table[1 :: max(len(table) // steps, 1)].flip(0))


def normal(sampling: ModelSampling, steps: int) -> Tensor:
    """Even steps in the model's time, from its highest sigma to its lowest, then 0."""
    start, end = _times(sampling)
    if math.isclose(float(sampling.sigma(end)), 0, abs_tol=1e-5):
        return sampling.sigma(torch.linspace(float(start), float(end), steps + 1)).float()
    return _to_zero(sampling.sigma(torch.linspace(float(start), float(end), steps)))


def sgm_uniform(sampling: ModelSampling, steps: int) -> Tensor:
    """As `normal`, the last step going to 0 from one step above the lowest sigma (Stability's
    generative-models)."""
    start, end = _times(sampling)
    return _to_zero(sampling.sigma(torch.linspace(float(start), float(end), steps + 1)[:-1]))


def _times(sampling: ModelSampling) -> tuple[Tensor, Tensor]:
    return sampling.timestep(sampling.sigmas[-1]), sampling.timestep(sampling.sigmas[0])


def beta(sampling: ModelSampling, steps: int, alpha: float = 0.6, beta: float = 0.6) -> Tensor:
    """Quantiles of a beta distribution over the model's sigmas (Lee et al. 2024, arXiv:2407.12173). Fewer
    steps than asked for where two fall on the same sigma."""
    from scipy.special import betaincinv

    table = sampling.sigmas
    share = betaincinv(alpha, beta, 1 - np.linspace(0, 1, steps, endpoint=False))
    places = np.rint(share * (len(table) - 1)).astype(int)
    return _to_zero(table[list(dict.fromkeys(places.tolist()))])


def linear_quadratic(sampling: ModelSampling, steps: int, threshold: float = 0.025) -> Tensor:
    """Half the steps linear down to `1 - threshold`, the others on the parabola that goes on smoothly to 0
    (Polyak et al. 2024, arXiv:2410.13720)."""
    if steps == 1:
        return torch.tensor([sampling.sigma_max, 0.0])
    linear = steps // 2
    curved = steps - linear
    rise = threshold / linear
    bend = (1 - threshold - rise * curved) / curved**2
    done = [rise * i + bend * max(i - linear, 0) ** 2 for i in range(steps + 1)]
    return torch.tensor([1 - d for d in done[:-1]] + [0.0]) * sampling.sigma_max


def _bounded(schedule: Callable[[int, float, float], Tensor]) -> Callable[[ModelSampling, int], Tensor]:
    return lambda sampling, steps: schedule(steps, sampling.sigma_min, sampling.sigma_max)


SCHEDULES: dict[str, Callable[[ModelSampling, int], Tensor]] = {
    "simple": simple,
    "sgm_uniform": sgm_uniform,
    "karras": _bounded(karras),
    "exponential": _bounded(exponential),
    "ddim_uniform": ddim_uniform,
    "beta": beta,
    "normal": normal,
    "linear_quadratic": linear_quadratic,
    "kl_optimal": _bounded(kl_optimal),
}


def schedule(
    sampling: ModelSampling,
    name: str,
    steps: int,
    *,
    denoise: float = 1.0,
    discard_penultimate: bool = False,
) -> Tensor:
    """The sigmas of schedule `name` for a KSampler.

    With `denoise` below 1 the last `steps` of `steps / denoise` steps; at 0 none (an empty tensor).
    `discard_penultimate` leaves out the last sigma before 0 of a schedule one step longer.
    Raises ValueError for an unknown name.
    """
    if name not in SCHEDULES:
        raise ValueError(f"unknown scheduler {name!r}; known are {', '.join(SCHEDULES)}")
    if denoise <= 0.0:
        return torch.empty(0)
    partial = denoise <= 0.9999
    total = int(steps / denoise) if partial else steps
    sigmas = SCHEDULES[name](sampling, total + discard_penultimate)
    if discard_penultimate:
        sigmas = torch.cat([sigmas[:-2], sigmas[-1:]])
    return sigmas[-(steps + 1) :] if partial else sigmas
