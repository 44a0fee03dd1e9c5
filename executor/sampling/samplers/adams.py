"""SA-Solver (Xue et al. 2023, arXiv:2309.05019): stochastic Adams predictor and corrector on the clean
latent."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .base import Callback, NoiseSampler, Predict, finite_snr


def sa_solver(
    predict: Predict,
    x: Tensor,
    sigmas: Tensor,
    *,
    callback: Callback,
    noise: NoiseSampler,
    eta: float = 1.0,
    sde_range: tuple[float, float] | None = None,
    s_noise: float = 1.0,
    predictor_order: int = 3,
    corrector_order: int = 4,
    use_pece: bool = False,
    simple_order_2: bool = False,
) -> Tensor:
    """Algorithm 1 of the paper. tau is `eta` where sigma lies in `sde_range` (highest, lowest; by default
    from 20 to 80 percent of the schedule) and 0 elsewhere. `use_pece` evaluates the model again after each
    correction.
    """
    form = predict.sampling.parametrisation
    highest, lowest = sde_range or tuple(predict.sampling.percent_to_sigma(p) for p in (0.2, 0.8))
    sigmas = finite_snr(sigmas, predict.sampling)
    lambdas = form.half_log_snr(sigmas)
    total = len(sigmas) - 1
    ends_clean = total > 0 and float(sigmas[-1]) == 0
    predictions: list[Tensor] = []
    predicted, gathered, tau = x, 0.0, 0.0

    def moved(start: int, used: int, end_points: slice, corrects: bool) -> Tensor:
        """`x` from `start` to the next level, the prediction being the polynomial through the last `used`
        ones."""
        h = lambdas[start + 1] - lambdas[start]
        if used == 2 and simple_order_2:
            weights = _simple_weights(lambdas[end_points], lambdas[start], h, tau, corrects)
        else:
            weights = _weights(lambdas[end_points], lambdas[start], lambdas[start + 1], tau)
        drift = sum(w * p for w, p in zip(weights, predictions[-used:], strict=True))
        kept = sigmas[start + 1] / sigmas[start] * (-(tau**2) * h).exp()
        return kept * x + form.alpha(sigmas[start + 1]) * drift + gathered

    for step in range(total):
        sigma, sigma_next = sigmas[step], sigmas[step + 1]
        denoised = predict(predicted, sigma)
        callback(step, denoised, predicted)
        predictions = [*predictions, denoised][-max(predictor_order, corrector_order) :]
        predicts, corrects = min(predictor_order, len(predictions)), min(corrector_order, len(predictions))
        if step == 0 or (sigma_next == 0 and not use_pece):
            corrects = 0
        if ends_clean:  # lower orders near the end are more stable
            predicts, corrects = min(predicts, total - 1 - step), min(corrects, total - step)
        if corrects == 0:
            x = predicted
        else:
            x = moved(step - 1, corrects, slice(step - corrects + 1, step + 1), corrects=True)
            if use_pece:
                denoised = predict(x, sigma)
                predictions[-1] = denoised
        if sigma_next == 0:
            return denoised
        tau = eta if lowest <= float(sigma_next) <= highest else 0.0
        gathered = 0.0
        if tau > 0 and s_noise > 0:
            spread = (-torch.expm1(-2 * tau**2 * (lambdas[step + 1] - lambdas[step]))).sqrt()
            gathered = noise(sigma, sigma_next) * sigma_next * spread * s_noise
        predicted = moved(step, predicts, slice(step - predicts + 1, step + 1), corrects=False)
    return predicted


def sa_solver_pece(predict: Predict, x: Tensor, sigmas: Tensor, **options) -> Tensor:
    """SA-Solver that evaluates the model again after each correction."""
    return sa_solver(predict, x, sigmas, **options, use_pece=True)


def _weights(points: Tensor, start: Tensor, end: Tensor, tau: float) -> list[float]:
    """The weight of the prediction at each of `points`: its Lagrange polynomial integrated over lambda with
    (1 + tau^2) e^((1 + tau^2)(lambda - end)) (equations 15 and 18)."""
    rate = 1 + tau**2
    # About `end`, where the exponential has its weight, the moments do not cancel.
    at = points.double().numpy() - float(end)
    h = float(end) - float(start)
    moments = []
    for p in range(len(at)):
        boundary = (1.0 if p == 0 else 0.0) - (-h) ** p * math.exp(-rate * h)
        moments.append(boundary - (p / rate * moments[-1] if p else 0.0))
    return np.linalg.solve(np.vander(at, increasing=True).T, np.array(moments)).tolist()


def _simple_weights(points: Tensor, start: Tensor, h: Tensor, tau: float, corrects: bool) -> list[Tensor]:
    """The paper's simpler weights for order 2 (appendix D)."""
    rate = 1 + tau**2
    total = -torch.expm1(-h * rate)
    if corrects:
        newest = rate * h / 2
        return [total - newest, newest]
    older = rate * h**2 / 2 / (points[0] - start)
    return [older, total - older]
