"""UniPC (Zhao et al. 2023, arXiv:2302.04867): a multistep predictor and a corrector that shares its
evaluation."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .base import Callback, Predict, steps


def uni_pc(
    predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback, variant: str = "bh1"
) -> Tensor:
    """Algorithms 1 and 2 of the paper on the clean latent, of order 3; B(h) is h ("bh1") or e^h - 1
    ("bh2").

    Written in variance exploding latents, where alpha is 1; flow latents are taken for such, as ComfyUI
    does. A schedule that ends at 0 ends at 0.001 instead, where lambda is finite, and leaves from there.
    """
    if sigmas[-1] == 0:
        sigmas = torch.cat([sigmas[:-1], sigmas.new_tensor([0.001])])
        x = uni_pc(predict, x, sigmas, callback=callback, variant=variant)
        return predict.sampling.parametrisation.leave(x, sigmas[-1])
    total = len(sigmas) - 1
    order = max(1, min(3, total - 1))
    history: list[tuple[Tensor, Tensor]] = []  # (lambda, denoised), the newest last
    corrector: _Step | None = None
    for step, (sigma, sigma_next) in steps(sigmas):
        denoised = predict(x, sigma)
        if corrector is not None:
            x = corrector.corrected(denoised)
        callback(step, denoised, x)
        history = [*history, (-sigma.log(), denoised)][-order:]
        used = step + 1 if step + 1 < order else min(order, total - step)
        corrector = _Step(x, history[-used:], -sigma_next.log(), variant)
        x = corrector.predicted()
    return x


class _Step:
    """A step from the newest point of `history` to half log-SNR `to`; its order is the number of points."""

    def __init__(self, x: Tensor, history: list[tuple[Tensor, Tensor]], to: Tensor, variant: str):
        *earlier, (here, self.denoised) = history
        h = float(to - here)
        self.order = len(history)
        ratios = [float(point - here) / h for point, _ in reversed(earlier)]
        self.changes = [
            (value - self.denoised) / r for (_, value), r in zip(reversed(earlier), ratios, strict=True)
        ]
        self.scale = -h if variant == "bh1" else math.expm1(-h)
        self.base = math.exp(-h) * x - math.expm1(-h) * self.denoised
        self.powers = np.vander([*ratios, 1.0], increasing=True).T
        self.integrals = np.array(self._integrals(-h)) / self.scale

    def _integrals(self, h: float) -> list[float]:
        """k! h phi_(k + 1)(h) for k = 1..order, by the recursion phi_(k + 1) = (phi_k - 1 / k!) / h."""
        phi, values = math.expm1(h) / h, []
        for k in range(1, self.order + 1):
            phi = (phi - 1 / math.factorial(k)) / h
            values.append(math.factorial(k) * phi * h)
        return values

    def _weights(self, points: int) -> list[float]:
        """The coefficients that make the first `points` moments exact."""
        return np.linalg.solve(self.powers[:points, :points], self.integrals[:points]).tolist()

    def predicted(self) -> Tensor:
        if self.order == 1:
            return self.base
        # The paper's simpler choice for order 2, else what the known points allow.
        return self._moved([0.5] if self.order == 2 else self._weights(self.order - 1), self.changes)

    def corrected(self, denoised: Tensor) -> Tensor:
        """The same step once the prediction at its end is known."""
        weights = [0.5] if self.order == 1 else self._weights(self.order)
        return self._moved(weights, [*self.changes, denoised - self.denoised])

    def _moved(self, weights: list[float], changes: list[Tensor]) -> Tensor:
        return self.base - self.scale * sum(w * c for w, c in zip(weights, changes, strict=True))


def uni_pc_bh2(predict: Predict, x: Tensor, sigmas: Tensor, *, callback: Callback) -> Tensor:
    """UniPC with B(h) = e^h - 1, the paper's choice for guided sampling."""
    return uni_pc(predict, x, sigmas, callback=callback, variant="bh2")
