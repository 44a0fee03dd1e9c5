"""Solvers of the reverse SDE in the half log-SNR `lambda`: SEEDS and ER-SDE."""

from __future__ import annotations

import torch
from torch import Tensor

from ..parametrisation import Parametrisation
from .base import Callback, NoiseSampler, Predict, finite_snr, steps


class _SeedsStep:
    """One step of SEEDS: its stages all start at `x` and see the same realisation of the noise.

    `r` is how much of the step in lambda a stage covers; stages are asked for in order.
    """

    def __init__(
        self,
        form: Parametrisation,
        x: Tensor,
        denoised: Tensor,
        sigmas: tuple[Tensor, Tensor],
        noise: NoiseSampler,
        eta: float,
        s_noise: float,
    ):
        self.form, self.x, self.denoised, self.sigmas = form, x, denoised, sigmas
        self.sampler, self.eta, self.s_noise = noise, eta, s_noise
        self.start, self.end = (form.half_log_snr(sigma) for sigma in sigmas)
        self.noise_done, self.noise = 0.0, torch.zeros(())

    def level(self, r: float) -> Tensor:
        if r in (0, 1):
            return self.sigmas[int(r)]
        return self.form.sigma_at(torch.lerp(self.start, self.end, r))

    def exponent(self, r: float) -> Tensor:
        return -r * (self.end - self.start) * (1 + self.eta)

    def phi_2(self, r: float) -> Tensor:
        """h phi_2(h) = (e^h - 1 - h) / h."""
        h = self.exponent(r)
        return (torch.expm1(h) - h) / h

    def stage(self, r: float, correction: Tensor | None = None) -> Tensor:
        """The exact solution for a constant prediction, `correction` joining it under the exponential."""
        sigma = self.level(r)
        drift = torch.expm1(self.exponent(r)) * self.denoised
        if correction is not None:
            drift = drift + correction
        kept = sigma / self.sigmas[0] * (-r * (self.end - self.start) * self.eta).exp()
        return kept * self.x - self.form.alpha(sigma) * drift + self._noise_at(r) * sigma * self.s_noise

    def _noise_at(self, r: float) -> Tensor:
        """In units of sigma, noise decays by e^(-eta dh) while fresh noise joins it."""
        if self.eta == 0 or self.s_noise == 0:
            return self.noise
        decay = (self.noise_done - r) * (self.end - self.start) * self.eta
        fresh = self.sampler(self.level(self.noise_done), self.level(r))
        self.noise = self.noise * decay.exp() + (-torch.expm1(2 * decay)).sqrt() * fresh
        self.noise_done = r
        return self.noise


def seeds_2(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
    r: float = 0.5,
) -> Tensor:
    """SEEDS-2 on the clean latent (Gonzalez et al. 2023, arXiv:2305.14267)."""
    form = predict.sampling.parametrisation
    for step, pair in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, pair[0])
        callback(step, denoised, x)
        if pair[1] == 0:
            return denoised
        solver = _SeedsStep(form, x, denoised, pair, noise, eta, s_noise)
        change = predict(solver.stage(r), solver.level(r)) - denoised
        x = solver.stage(1.0, torch.expm1(solver.exponent(1.0)) / (2 * r) * change)
    return x


def seeds_3(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
    r_1: float = 1 / 3,
    r_2: float = 2 / 3,
) -> Tensor:
    """SEEDS-3 on the clean latent (arXiv:2305.14267)."""
    form = predict.sampling.parametrisation
    for step, pair in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, pair[0])
        callback(step, denoised, x)
        if pair[1] == 0:
            return denoised
        solver = _SeedsStep(form, x, denoised, pair, noise, eta, s_noise)
        change = predict(solver.stage(r_1), solver.level(r_1)) - denoised
        change = (
            predict(solver.stage(r_2, solver.phi_2(r_2) * r_2 / r_1 * change), solver.level(r_2)) - denoised
        )
        x = solver.stage(1.0, solver.phi_2(1.0) / r_2 * change)
    return x


def er_sde(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    s_noise: float = 1.0,
    max_stage: int = 3,
    eta: float | None = None,
) -> Tensor:
    """Extended reverse-time SDE solver of order 1 to 3 (Cui et al. 2023, arXiv:2309.06169).

    `eta` None takes the paper's noise scale x (e^(x^0.3) + 10); a number takes x^(1 + eta), which is the
    ordinary reverse-time SDE at 1 and the ODE at 0.
    """
    form = predict.sampling.parametrisation

    def scale(level: Tensor) -> Tensor:
        return level ** (1 + eta) if eta is not None else level * ((level**0.3).exp() + 10.0)

    points = 200  # of the Riemann sums below, the published solver's number
    history: list[tuple[Tensor, Tensor]] = []  # (level, denoised) of the steps before, the last one first
    slope_before: Tensor | None = None
    for step, (sigma, sigma_next) in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        if sigma_next == 0:
            return denoised
        alpha, alpha_next = form.alpha(sigma), form.alpha(sigma_next)
        level, level_next = sigma / alpha, sigma_next / alpha_next
        r = scale(level_next) / scale(level)
        x = alpha_next / alpha * r * x + alpha_next * (1 - r) * denoised
        if history and max_stage >= 2:
            dt = level_next - level
            width = -dt / points
            grid = level_next + torch.arange(points) * width
            slope = (denoised - history[0][1]) / (level - history[0][0])
            x = x + alpha_next * (dt + (1 / scale(grid)).sum() * width * scale(level_next)) * slope
            if slope_before is not None and max_stage >= 3:
                bend = (slope - slope_before) / ((level - history[1][0]) / 2)
                weight = ((grid - level) / scale(grid)).sum() * width * scale(level_next)
                x = x + alpha_next * (dt**2 / 2 + weight) * bend
            slope_before = slope
        if s_noise > 0:
            spread = (level_next**2 - level**2 * r**2).clamp(min=0).sqrt()
            x = x + alpha_next * spread * s_noise * noise(sigma, sigma_next)
        history = [(level, denoised), *history[:1]]
    return x
