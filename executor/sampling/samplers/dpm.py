"""DPM-Solver in its noise form (Lu et al. 2022, arXiv:2206.00927) and the second order samplers inspired by
it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .base import Callback, NoiseSampler, Predict, ancestral, ancestral_step, slope, steps


def dpm_2(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """Midpoint method with the midpoint taken in log sigma (DPM-Solver-2, arXiv:2206.00927)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        x = _midpoint(predict, x, denoised, sigma, sigma_next)
    return x


def dpm_2_ancestral(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """`dpm_2` down below the next level, then fresh noise back up."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        down, scale, up = ancestral_step(predict.sampling, sigma, sigma_next, eta)
        x = _midpoint(predict, x, denoised, sigma, down)
        if down > 0:
            x = scale * x + up * s_noise * noise(sigma, sigma_next)
    return x


def _midpoint(predict: Predict, x: Tensor, denoised: Tensor, sigma: Tensor, sigma_next: Tensor) -> Tensor:
    """From `sigma` to `sigma_next` along the slope at their geometric mean; to 0 along the first slope."""
    first = slope(x, denoised, sigma)
    if sigma_next == 0:
        return denoised
    middle = (sigma.log() / 2 + sigma_next.log() / 2).exp()
    halfway = x + first * (middle - sigma)
    return x + slope(halfway, predict(halfway, middle), middle) * (sigma_next - sigma)


class _Solver:
    """One step of DPM-Solver from time `t` to `t_next`, of order 1, 2 or 3; the orders share their
    evaluations.

    Time is t = -log sigma; what is predicted is the noise, which is the slope of the ODE.
    """

    def __init__(self, predict: Predict, x: Tensor, t: Tensor, t_next: Tensor):
        self.predict, self.x, self.t, self.h = predict, x, t, t_next - t
        self.denoised = predict(x, sigma_at(t))
        self.noise = slope(x, self.denoised, sigma_at(t))
        self._changes: dict[float, Tensor] = {}

    def first(self, r: float = 1.0) -> Tensor:
        """`x` after the first `r` of the step."""
        return self.x - sigma_at(self.t + r * self.h) * torch.expm1(r * self.h) * self.noise

    def _change(self, x: Tensor, r: float) -> Tensor:
        """How the predicted noise has changed at `x`, after the first `r` of the step."""
        sigma = sigma_at(self.t + r * self.h)
        return slope(x, self.predict(x, sigma), sigma) - self.noise

    def _early_change(self, r: float) -> Tensor:
        if r not in self._changes:
            self._changes[r] = self._change(self.first(r), r)
        return self._changes[r]

    def second(self, r: float = 1 / 2) -> Tensor:
        """The second order solver with its evaluation at `r`."""
        grown = sigma_at(self.t + self.h) * torch.expm1(self.h)
        return self.first() - grown / (2 * r) * self._early_change(r)

    def third(self, r1: float = 1 / 3, r2: float = 2 / 3) -> Tensor:
        """The third order solver with evaluations at `r1` and `r2`."""
        later = self.first(r2) - self._bend(r2) * (r2 / r1) * self._early_change(r1)
        return self.first() - self._bend(1.0) / r2 * self._change(later, r2)

    def _bend(self, r: float) -> Tensor:
        h = r * self.h
        return sigma_at(self.t + h) * (torch.expm1(h) / h - 1)


def sigma_at(t: Tensor) -> Tensor:
    return (-t).exp()


def _log_span(sigmas: Tensor) -> tuple[Tensor, Tensor]:
    """The stretch of t = -log sigma to integrate over; the solver ends at the last level above 0."""
    last = sigmas[-1] if sigmas[-1] > 0 else sigmas[-2]
    return -sigmas[0].log(), -last.log()


def dpm_fast(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """DPM-Solver-fast: third order steps, uniform in log sigma, that together cost one evaluation for each
    of the given sigmas (arXiv:2206.00927). Only the ends of `sigmas` count."""
    evaluations = len(sigmas) - 1
    if evaluations < 1:
        return x
    full, rest = divmod(evaluations, 3)
    orders = [3] * full + [rest] if rest else [3] * (full - 1) + [2, 1]
    times = torch.linspace(*(float(t) for t in _log_span(sigmas)), len(orders) + 1)
    done = 0
    for (_, (t, t_next)), order in zip(steps(times), orders, strict=True):
        solver = _Solver(predict, x, t, t_next)
        done += order
        callback(done - 1, solver.denoised, x)
        x = (solver.first, solver.second, solver.third)[order - 1]()
    return x


def dpm_adaptive(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    order: int = 3,
    rtol: float = 0.05,
    atol: float = 0.0078,
    h_init: float = 0.05,
    pcoeff: float = 0.0,
    icoeff: float = 1.0,
    dcoeff: float = 0.0,
    accept_safety: float = 0.81,
    eta: float = 0.0,
    s_noise: float = 1.0,
) -> Tensor:
    """DPM-Solver-12 or -23 with a PID controlled step (arXiv:2206.00927). Only the ends of `sigmas` count.

    How many steps there will be is not known: the callback is told how much of the way in log sigma is
    done, in units of the steps given.
    """
    if len(sigmas) < 2:
        return x
    t, t_end = _log_span(sigmas)
    span, total = t_end - t, len(sigmas) - 1
    control = _StepControl(h_init, pcoeff, icoeff, dcoeff, 1.5 if eta else order, accept_safety)
    x_low_before = x
    while t < t_end - 1e-5:
        t_next = torch.minimum(t_end, t + control.h)
        t_down, up = t_next, torch.zeros(())
        if eta:
            down, _ = ancestral(sigma_at(t), sigma_at(t_next), eta)
            t_down = torch.minimum(t_end, -down.log())
            up = (sigma_at(t_next) ** 2 - sigma_at(t_down) ** 2).sqrt()
        solver = _Solver(predict, x, t, t_down)
        if order == 2:
            low, high = solver.first(), solver.second()
        else:
            low, high = solver.second(r=1 / 3), solver.third()
        tolerance = (rtol * torch.maximum(low.abs(), x_low_before.abs())).clamp(min=atol)
        error = float(torch.linalg.norm((low - high) / tolerance)) / x.numel() ** 0.5
        if not math.isfinite(error) or t_next <= t:
            raise RuntimeError(
                f"dpm_adaptive found no step from sigma {float(sigma_at(t)):g} on (error {error:g}): the "
                "model's prediction is not finite, or rtol and atol ask for too much"
            )
        accepted = control.accept(error)
        done = t_next if accepted else t
        step = int(total * float(1 - (t_end - done) / span)) if span > 0 else total
        callback(min(max(step - 1, 0), total - 1), solver.denoised, x)
        if accepted:
            x_low_before = low
            x = high + up * s_noise * noise(sigma_at(t), sigma_at(t_next)) if eta else high
            t = t_next
    return x


class _StepControl:
    """A PID controller of the step size, on the inverse of the error (Soederlind 2003,
    doi:10.1145/641876.641877)."""

    def __init__(self, h: float, p: float, i: float, d: float, order: float, safety: float):
        self.h = h
        self.powers = ((p + i + d) / order, -(p + 2 * d) / order, d / order)
        self.safety = safety
        self.accepted_before: list[float] = []  # inverse errors of the last two steps that stood

    def accept(self, error: float) -> bool:
        """Take the error of a step of size `h`, choose the next `h`; True where the step stands."""
        inverse = 1 / (error + 1e-8)
        self.accepted_before = self.accepted_before or [inverse, inverse]
        history = [inverse, *self.accepted_before]
        factor = math.prod(e**power for e, power in zip(history, self.powers, strict=True))
        factor = 1 + math.atan(factor - 1)
        accepted = factor >= self.safety
        if accepted:
            self.accepted_before = history[:2]
        self.h *= factor
        return accepted
