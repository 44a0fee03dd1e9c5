"""CFG++ samplers (Chung et al. 2024, arXiv:2406.08070): step from the guided clean latent along the noise
that the model sees without the prompt."""

from __future__ import annotations

from torch import Tensor

from .base import Callback, NoiseSampler, Predict, ancestral, blend, slope, steps


def euler_cfg_pp(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """DDIM with CFG++ (arXiv:2406.08070, algorithm 2)."""
    return euler_ancestral_cfg_pp(predict, x, sigmas, callback=callback, noise=_no_noise, eta=0.0)


def _no_noise(sigma: Tensor, sigma_next: Tensor) -> Tensor:
    raise AssertionError("a deterministic sampler asked for noise")


def euler_ancestral_cfg_pp(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """The same with DDIM's noise (arXiv:2010.02502, equation 16), measured in sigma / alpha."""
    form = predict.sampling.parametrisation
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised, uncond = predict.split(x, sigma)
        callback(step, denoised, x)
        alpha, alpha_next = form.alpha(sigma), form.alpha(sigma_next)
        down, up = ancestral(sigma / alpha, sigma_next / alpha_next, eta)
        x = alpha_next * (denoised + down * slope(x, alpha * uncond, sigma))
        if sigma_next > 0 and eta > 0 and s_noise > 0:
            x = x + alpha_next * up * s_noise * noise(sigma, sigma_next)
    return x


def euler_cfg_pp_alternative(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """Euler steps with the guidance subtracted from the noisy latent (ComfyUI's "alternative" version)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised, uncond = predict.split(x, sigma)
        callback(step, denoised, x)
        x = x + slope(x - denoised + uncond, denoised, sigma) * (sigma_next - sigma)
    return x


def dpmpp_2s_ancestral_cfg_pp(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """DPM-Solver++(2S) ancestral with CFG++. Flow latents are taken for variance exploding ones, as ComfyUI
    does."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised, uncond = predict.split(x, sigma)
        callback(step, denoised, x)
        down, up = ancestral(sigma, sigma_next, eta)
        if down == 0:
            x = denoised
        else:
            middle = (sigma.log() / 2 + down.log() / 2).exp()
            halfway = blend(
                x + denoised - uncond, denoised, middle / sigma
            )  # not blended: the guidance shift
            denoised_middle, uncond_middle = predict.split(halfway, middle)
            # ComfyUI shifts by the unguided prediction at the middle, but the guided one at the start.
            x = blend(x + denoised - uncond_middle, denoised_middle, down / sigma)
        if sigma_next > 0 and eta > 0:
            x = x + up * s_noise * noise(sigma, sigma_next)
    return x


def dpmpp_2m_cfg_pp(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """DPM-Solver++(2M) with CFG++; the second order term compares with the unguided prediction before."""
    previous: tuple[Tensor, Tensor] | None = None
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised, uncond = predict.split(x, sigma)
        callback(step, denoised, x)
        ratio = sigma_next / sigma
        moved = denoised + ratio * (x - uncond)
        if previous is not None and sigma_next > 0:
            sigma_before, uncond_before = previous
            r = (sigma_before / sigma).log() / (sigma / sigma_next).log()
            moved = moved + (1 - ratio) / (2 * r) * (denoised - uncond_before)
        x = moved
        previous = sigma, uncond
    return x


def gradient_estimation_cfg_pp(
    predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, gamma: float = 2.0
) -> Tensor:
    """Gradient estimation (arXiv:2306.04848) with CFG++."""
    previous = None
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised, uncond = predict.split(x, sigma)
        callback(step, denoised, x)
        here = slope(x, uncond, sigma)
        if sigma_next == 0:
            x = denoised
        else:
            x = denoised + here * sigma_next
            if previous is not None:
                x = x + (gamma - 1) * (here - previous) * (sigma_next - sigma)
        previous = here
    return x
