"""DPM-Solver++ (Lu et al. 2022, arXiv:2211.01095): exponential integrators in the half log-SNR `lambda`, on
the clean latent. The SDE forms solve the reverse SDE with `eta` times its noise."""

from __future__ import annotations

import torch
from torch import Tensor

from ..parametrisation import Parametrisation
from .base import Callback, NoiseSampler, Predict, ancestral, ancestral_step, blend, finite_snr, steps


def dpmpp_2s_ancestral(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """DPM-Solver++(2S), algorithm 1 with r = 1/2, down below the next level; then fresh noise back up."""
    form = predict.sampling.parametrisation
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        down, scale, up = ancestral_step(predict.sampling, sigma, sigma_next, eta)
        if down == 0:
            x = denoised
        else:
            if form.flow and sigma == 1:  # lambda of pure noise is infinite
                middle = torch.full_like(sigma, 0.9999)
            else:
                middle = form.sigma_at((form.half_log_snr(sigma) + form.half_log_snr(down)) / 2)
            halfway = blend(x, denoised, middle / sigma)
            x = blend(x, predict(halfway, middle), down / sigma)
        if sigma_next > 0 and eta > 0:
            x = scale * x + up * s_noise * noise(sigma, sigma_next)
    return x


def dpmpp_2m(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """DPM-Solver++(2M), algorithm 2. Flow latents are taken for variance exploding ones, as ComfyUI does:
    the same lines, extrapolated in log sigma."""
    previous: tuple[Tensor, Tensor] | None = None
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        target = denoised
        if previous is not None and sigma_next > 0:
            sigma_before, denoised_before = previous
            r = (sigma_before / sigma).log() / (sigma / sigma_next).log()
            target = denoised + (denoised - denoised_before) / (2 * r)
        x = blend(x, target, sigma_next / sigma)
        previous = sigma, denoised
    return x


def dpmpp_sde(
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
    """The stochastic single step form of second order (arXiv:2211.01095; k-diffusion's DPM++
    SDE).

    Both stages start at `x`; the second uses the prediction at `r` of the way in lambda, extrapolated to
    its middle.
    """
    form = predict.sampling.parametrisation

    def stage(target: Tensor, sigma: Tensor, sigma_next: Tensor) -> Tensor:
        start, end = ((-form.half_log_snr(s)).exp() for s in (sigma, sigma_next))
        down, up = ancestral(start, end, eta)
        alpha, kept = form.alpha(sigma_next), down / start
        moved = alpha / form.alpha(sigma) * kept * x + alpha * (1 - kept) * target
        if eta > 0 and s_noise > 0:
            moved = moved + alpha * up * s_noise * noise(sigma, sigma_next)
        return moved

    for step, (sigma, sigma_next) in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        if sigma_next == 0:
            x = denoised
        else:
            middle = form.sigma_at(torch.lerp(form.half_log_snr(sigma), form.half_log_snr(sigma_next), r))
            denoised_middle = predict(stage(denoised, sigma, middle), middle)
            x = stage(torch.lerp(denoised, denoised_middle, 1 / (2 * r)), sigma, sigma_next)
    return x


def _sde_first_order(
    form: Parametrisation,
    x: Tensor,
    denoised: Tensor,
    sigma: Tensor,
    sigma_next: Tensor,
    h: Tensor,
    eta: float,
) -> Tensor:
    """The exact step of length `h` in lambda for a constant prediction, without its noise."""
    return (
        sigma_next / sigma * (-h * eta).exp() * x
        - form.alpha(sigma_next) * torch.expm1(-h * (1 + eta)) * denoised
    )


def _sde_noise(sigma_next: Tensor, h: Tensor, eta: float) -> Tensor:
    """The standard deviation of the noise that a step of length `h` in lambda gathers."""
    return sigma_next * (-torch.expm1(-2 * h * eta)).sqrt()


def dpmpp_2m_sde(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
    solver_type: str = "midpoint",
) -> Tensor:
    """SDE-DPM-Solver++(2M) (arXiv:2211.01095). `solver_type` weighs the second order term as the
    "midpoint" or the "heun" rule."""
    form = predict.sampling.parametrisation
    previous = h_before = None
    for step, (sigma, sigma_next) in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        if sigma_next == 0:
            return denoised
        h = form.half_log_snr(sigma_next) - form.half_log_snr(sigma)
        x = _sde_first_order(form, x, denoised, sigma, sigma_next, h, eta)
        if previous is not None:
            h_eta = h * (1 + eta)
            grown = -torch.expm1(-h_eta)
            weight = grown / 2 if solver_type == "midpoint" else 1 - grown / h_eta
            x = x + form.alpha(sigma_next) * weight * (h / h_before) * (denoised - previous)
        if eta > 0 and s_noise > 0:
            x = x + _sde_noise(sigma_next, h, eta) * s_noise * noise(sigma, sigma_next)
        previous, h_before = denoised, h
    return x


def dpmpp_2m_sde_heun(predict: Predict, x: Tensor, sigmas: Tensor, **options) -> Tensor:
    """`dpmpp_2m_sde` with the Heun rule."""
    return dpmpp_2m_sde(predict, x, sigmas, solver_type="heun", **options)


def dpmpp_3m_sde(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """The third order multistep form (k-diffusion): first and second divided differences of the prediction
    in lambda under the exponential integrals phi_2 and phi_3."""
    form = predict.sampling.parametrisation
    history: list[tuple[Tensor, Tensor]] = []  # (denoised, h) of the steps before, the last one first
    for step, (sigma, sigma_next) in steps(finite_snr(sigmas, predict.sampling)):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        if sigma_next == 0:
            return denoised
        h = form.half_log_snr(sigma_next) - form.half_log_snr(sigma)
        x = _sde_first_order(form, x, denoised, sigma, sigma_next, h, eta)
        alpha, h_eta = form.alpha(sigma_next), h * (1 + eta)
        phi_2 = torch.expm1(-h_eta) / h_eta + 1
        if history:
            r0 = history[0][1] / h
            change = (denoised - history[0][0]) / r0
            if len(history) == 2:
                r1 = history[1][1] / h
                bend = (change - (history[0][0] - history[1][0]) / r1) / (r0 + r1)
                x = x - alpha * (phi_2 / h_eta - 0.5) * bend
                change = change + bend * r0
            x = x + alpha * phi_2 * change
        if eta > 0 and s_noise > 0:
            x = x + _sde_noise(sigma_next, h, eta) * s_noise * noise(sigma, sigma_next)
        history = [(denoised, h), *history[:1]]
    return x
