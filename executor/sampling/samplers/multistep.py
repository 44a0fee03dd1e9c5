"""Linear multistep samplers: one evaluation a step, the slopes of earlier steps reused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .base import Callback, NoiseSampler, Predict, ancestral, blend, slope, steps


def _combine(weights: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    """The weighted sum; weights run from the newest slope back, `slopes` from the oldest on."""
    newest_first = reversed(slopes[-len(weights) :])
    return sum(float(w) * d for w, d in zip(weights, newest_first, strict=True))


def _adams(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    callback: Callback,
    order: int,
    weights: Callable[[int, int], Sequence[float]],
) -> Tensor:
    """x_next = x + sum_j w_j d_(step - j), with `weights(step, order)` newest first; a step to 0 takes the
    clean latent."""
    slopes: list[Tensor] = []
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        callback(step, denoised, x)
        slopes = [*slopes, slope(x, denoised, sigma)][-order:]
        x = denoised if sigma_next == 0 else x + _combine(weights(step, len(slopes)), slopes)
    return x


def _lagrange(points: Sequence[float], j: int, at: np.ndarray) -> np.ndarray:
    """The polynomial that is 1 at `points[j]` and 0 at the others, evaluated `at`."""
    return math.prod((at - p) / (points[j] - p) for k, p in enumerate(points) if k != j) * np.ones_like(at)


def lms(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, order: int = 4) -> Tensor:
    """Adams-Bashforth on the uneven grid of sigmas (linear multistep, as in k-diffusion): the polynomial
    through the last slopes, integrated exactly."""
    levels = sigmas.double().numpy()
    nodes, node_weights = np.polynomial.legendre.leggauss((order + 1) // 2)

    def weights(step: int, used: int) -> list[float]:
        start, end = levels[step], levels[step + 1]
        at, points = (start + end) / 2 + nodes * (end - start) / 2, levels[step - np.arange(used)]
        return [float(node_weights @ _lagrange(points, j, at)) * (end - start) / 2 for j in range(used)]

    return _adams(predict, x, sigmas, callback, order, weights)


_ADAMS_BASHFORTH = ((1,), (3 / 2, -1 / 2), (23 / 12, -16 / 12, 5 / 12), (55 / 24, -59 / 24, 37 / 24, -9 / 24))


def ipndm(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, max_order: int = 4) -> Tensor:
    """Improved PNDM (Zhang & Chen 2022, arXiv:2204.13902): the weights of an even grid."""

    def weights(step: int, used: int) -> list[float]:
        return [w * float(sigmas[step + 1] - sigmas[step]) for w in _ADAMS_BASHFORTH[used - 1]]

    return _adams(predict, x, sigmas, callback, max_order, weights)


def ipndm_v(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, max_order: int = 4) -> Tensor:
    """iPNDM with weights for uneven steps (arXiv:2204.13902), as the diff-sampler toolbox and ComfyUI have
    them.

    Those weights are Adams-Bashforth's (which `lms` has) save for three slips that pictures made with them
    depend on: in the integral of the second difference, a term too much in that of the third, and the scale
    of the fourth weight. They leave the method of second order.
    """
    levels = sigmas.double().numpy()

    def weights(step: int, used: int) -> list[float]:
        h, *before = (levels[step + 1 - k] - levels[step - k] for k in range(used))
        w = np.zeros(used)
        w[0] = h
        if used >= 2:
            w += _newton(h**2 / 2, levels[step - np.arange(used)], 1)
        if used >= 3:
            h1, h2 = before[:2]
            w += _newton(h * h1 * (h1 + h2) / 2 - h**3 / 6, levels[step - np.arange(used)], 2)
        if used == 4:
            h1, h2, h3 = before
            third = h**4 / 4 + h**3 * (2 * h1 + h2) / 3 + h**2 * h1 * (h1 + h2) / 2
            third += h**3 * (h + 2 * h1) / 6  # the term too much
            term = _newton(third, levels[step - np.arange(used)], 3)
            term[3] *= (h1 / h2) / (h2 / h3)
            w += term
        return w.tolist()

    return _adams(predict, x, sigmas, callback, max_order, weights)


def _newton(integral: float, points: np.ndarray, degree: int) -> np.ndarray:
    """`integral` times the weights of the divided difference over the first `degree + 1` points."""
    weights = np.zeros(len(points))
    for j in range(degree + 1):
        weights[j] = integral / math.prod(points[j] - points[k] for k in range(degree + 1) if k != j)
    return weights


def deis(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, max_order: int = 3) -> Tensor:
    """tAB-DEIS (Zhang & Chen 2022, arXiv:2204.13902): the slope as a polynomial in the time of
    the VP SDE, integrated over sigma.

    With sigma(t)^2 = exp(b t^2 / 2 + a t) - 1, a and b such that t runs from 1e-3 to 1 between sigma 0.002
    and 80.
    """
    eps, low, high = 1e-3, math.log(0.002**2 + 1), math.log(80.0**2 + 1)
    b = 2 * (low / eps - high) / (eps - 1)
    a = high - b / 2
    squares = sigmas.double().numpy() ** 2
    times = (np.sqrt(a**2 + 2 * b * np.log1p(squares)) - a) / b

    def weights(step: int, used: int) -> list[float]:
        t, t_next = times[step], times[step + 1]
        if used == 1:
            return [float(sigmas[step + 1] - sigmas[step])]
        at = np.linspace(t, t_next, 10000)
        square = np.expm1(b * at**2 / 2 + a * at)
        dsigma_dt = (a + b * at) * (square + 1) / (2 * np.sqrt(square))
        points = times[step - np.arange(used)]
        return [float((dsigma_dt * _lagrange(points, j, at)).mean() * (t_next - t)) for j in range(used)]

    return _adams(predict, x, sigmas, callback, max_order, weights)


def _res_multistep(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    callback: Callback,
    noise: NoiseSampler | None,
    eta: float,
    s_noise: float,
    cfg_pp: bool,
) -> Tensor:
    """Second order exponential multistep in log sigma (RES, Zhang et al. 2023, arXiv:2308.02157)."""
    previous: tuple[Tensor, Tensor, Tensor] | None = (
        None  # sigma, where its step went down to, its prediction
    )
    for step, (sigma, sigma_next) in steps(sigmas):
        if cfg_pp:
            denoised, seen = predict.split(x, sigma)
        else:
            denoised = seen = predict(x, sigma)
        callback(step, denoised, x)
        down, up = ancestral(sigma, sigma_next, eta)
        shifted = x + denoised - seen
        if previous is None or not 0 < down < sigma:
            x = blend(shifted, denoised, down / sigma)
        else:
            sigma_before, down_before, seen_before = previous
            h = (sigma / down).log()
            c2 = (down_before / sigma_before).log() / h
            phi_1 = -torch.expm1(-h) / h
            weight = (1 - phi_1) / h / c2
            x = down / sigma * shifted + h * ((phi_1 - weight) * seen + weight * seen_before)
        if noise is not None and sigma_next > 0 and eta > 0:
            x = x + up * s_noise * noise(sigma, sigma_next)
        previous = sigma, down, seen
    return x


def res_multistep(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """RES (arXiv:2308.02157), deterministic."""
    return _res_multistep(predict, x, sigmas, callback, None, 0.0, 0.0, cfg_pp=False)


def res_multistep_cfg_pp(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """RES with CFG++ (arXiv:2406.08070)."""
    return _res_multistep(predict, x, sigmas, callback, None, 0.0, 0.0, cfg_pp=True)


def res_multistep_ancestral(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """RES down below the next level, then fresh noise back up."""
    return _res_multistep(predict, x, sigmas, callback, noise, eta, s_noise, cfg_pp=False)


def res_multistep_ancestral_cfg_pp(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    s_noise: float = 1.0,
) -> Tensor:
    """`res_multistep_ancestral` with CFG++."""
    return _res_multistep(predict, x, sigmas, callback, noise, eta, s_noise, cfg_pp=True)
