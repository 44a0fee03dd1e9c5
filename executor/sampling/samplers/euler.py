"""First order samplers and Heun's: one straight line a step, or the mean of two or three."""

from __future__ import annotations

from torch import Tensor

from .base import Callback, NoiseSampler, Predict, ancestral, ancestral_step, blend, slope, steps


def euler(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """Euler's method on the probability flow ODE (Karras et al. 2022, arXiv:2206.00364, algorithm 2 without
    churn)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        x = x + slope(x, denoised, sigma) * (sigma_next - sigma)
    return x


def euler_ancestral(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """Euler down below the next level, then fresh noise back up (DDIM with eta, arXiv:2010.02502)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        down, scale, up = ancestral_step(predict.sampling, sigma, sigma_next, eta)
        x = blend(x, denoised, down / sigma)
        if sigma_next > 0 and eta > 0:
            x = scale * x + up * s_noise * noise(sigma, sigma_next)
    return x


def ddpm(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, noise: NoiseSampler) -> Tensor:
    """Ancestral sampling from the posterior q(x_next | x, x0) (Ho et al. 2020, arXiv:2006.11239, equation
    7).

    In variance exploding latents its mean and spread are those of `ancestral` with eta 1. Flow latents are
    taken for variance exploding ones, as ComfyUI does.
    """
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        down, up = ancestral(sigma, sigma_next, 1.0)
        x = blend(x, denoised, down / sigma)
        if sigma_next > 0:
            x = x + up * noise(sigma, sigma_next)
    return x


def lcm(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, noise: NoiseSampler) -> Tensor:
    """Multistep consistency sampling: to the end and back with fresh noise (Song et al. 2023,
    arXiv:2303.01469, algorithm 1; Luo et al. 2023, arXiv:2310.04378)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        x = denoised
        if sigma_next > 0:
            x = predict.sampling.parametrisation.add_noise(x, noise(sigma, sigma_next), sigma_next)
    return x


def heun(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """Heun's second order method (Karras et al. 2022, arXiv:2206.00364, algorithm 2 without churn)."""
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        first = slope(x, denoised, sigma)
        ahead = x + first * (sigma_next - sigma)
        if sigma_next == 0:
            x = ahead
        else:
            second = slope(ahead, predict(ahead, sigma_next), sigma_next)
            x = x + (first + second) / 2 * (sigma_next - sigma)
    return x


def heunpp2(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """Heun++: up to two looks ahead, each weighted by its noise level relative to the first one
    (github.com/Carzit/sd-webui-samplers-scheduler)."""
    last = len(sigmas) - 2
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        slopes = [slope(x, denoised, sigma)]
        ahead = x
        for index in range(step, min(step + 2, last)):
            here, there = sigmas[index], sigmas[index + 1]
            ahead = ahead + slopes[-1] * (there - here)
            slopes.append(slope(ahead, predict(ahead, there), there))
        weights = [sigmas[step + k] / (len(slopes) * sigmas[0]) for k in range(1, len(slopes))]
        mean = sum((w * d for w, d in zip(weights, slopes[1:], strict=True)), (1 - sum(weights)) * slopes[0])
        x = x + mean * (sigma_next - sigma)
    return x


def gradient_estimation(
    predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, gamma: float = 2.0
) -> Tensor:
    """Euler along slopes extrapolated from the last two (Permenter & Yuan 2023, arXiv:2306.04848)."""
    previous = None
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        here = slope(x, denoised, sigma)
        if sigma_next == 0:
            x = denoised
        else:
            estimate = here if previous is None else gamma * here + (1 - gamma) * previous
            x = x + estimate * (sigma_next - sigma)
        previous = here
    return x
