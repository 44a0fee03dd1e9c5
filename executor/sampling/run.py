"""A whole sampling run: from LATENT and noise to LATENT."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from .conditions import prepare
from .guidance import Guider, evaluate
from .model import Samplable
from .noise import brownian, initial_noise, stepwise
from .samplers import Sampler
from .samplers.base import NoiseSampler

Progress = Callable[[int, Tensor, Tensor, int], None]  # step (from 0), denoised, x, steps in all


def sample(
    guider: Guider,
    sampler: Sampler,
    sigmas: Tensor,
    noise: Tensor,
    latent_image: Tensor,
    *,
    seed: int,
    denoise_mask: Tensor | None = None,
    callback: Progress | None = None,
) -> Tensor:
    """Noise `latent_image` to `sigmas[0]` with `noise`, then denoise it to `sigmas[-1]`.

    `latent_image` and the result (float32, CPU) are in LATENT space, both in the shape that the model works
    on; an all zero `latent_image` is taken as it is in the denoiser's space, as ComfyUI does. `seed` is
    that of the noise that the sampler adds. `denoise_mask`, of the latent's shape but for one channel, is 1
    where the latent is to change. `callback` sees every step's `denoised` and `x` in the denoiser's space;
    what it raises ends the run and leaves nothing behind.
    """
    if len(sigmas) == 0:
        return latent_image.float().cpu()
    model = guider.model
    sigmas = sigmas.detach().to("cpu", torch.float32)
    place = {"device": model.device, "dtype": model.dtype}
    with torch.no_grad(), model.session() as predictor:
        noise = noise.to(**place)
        start = latent_image.to(**place)
        if torch.count_nonzero(start) > 0:
            start = model.latent.encode(start)
        mask = None if denoise_mask is None else denoise_mask.to(**place)
        conditions = prepare(
            guider.roles, predictor, model.sampling, noise=noise, latent_image=start, denoise_mask=mask
        )
        algorithm = sampler.algorithm
        kept_noise = (
            initial_noise(noise, (seed + 1) % 2**64).to(**place) if algorithm.redraw_kept_noise else noise
        )
        predict = _Predict(
            guider, partial(evaluate, predictor, conditions, model.options), start, mask, kept_noise
        )
        x = model.sampling.parametrisation.add_noise(start, noise, sigmas[0], full=_is_full(model, sigmas[0]))
        options = dict(sampler.options)
        if algorithm.noise != "none":
            options["noise"] = _noise_sampler(algorithm.noise, x, sigmas, seed)
        total = len(sigmas) - 1

        def report(step: int, denoised: Tensor, x: Tensor) -> None:
            if callback is not None:
                callback(step, denoised, x, total)

        x = algorithm.function(predict, x, sigmas, callback=report, **options)
        x = model.sampling.parametrisation.leave(x, sigmas[-1])
        return model.latent.decode(x.float()).cpu()


def _is_full(model: Samplable, sigma: Tensor) -> bool:
    """Whether a run from `sigma` on starts at the model's highest noise."""
    highest = model.sampling.sigma_max
    return math.isclose(highest, float(sigma), rel_tol=1e-5) or float(sigma) > highest


def _noise_sampler(kind: str, x: Tensor, sigmas: Tensor, seed: int) -> NoiseSampler:
    if kind == "stepwise":
        return stepwise(x, seed)
    return brownian(x, sigmas, seed, on_device=kind == "brownian_device")


class _Predict:
    """The guided model as samplers call it; with a mask, the rest of the latent is held to the start."""

    def __init__(
        self, guider: Guider, evaluate: Callable, start: Tensor, mask: Tensor | None, kept_noise: Tensor
    ):
        self.guider, self.evaluate = guider, evaluate
        self.start, self.mask, self.kept_noise = start, mask, kept_noise
        self.sampling = guider.model.sampling

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        return self._guided(x, sigma, split=False)[0]

    def split(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        return self._guided(x, sigma, split=True)

    def _guided(self, x: Tensor, sigma: Tensor, *, split: bool) -> tuple[Tensor, Tensor]:
        if self.mask is not None:
            x = self._keep(x, self._kept_at(sigma))
        denoised, uncond = self.guider.guide(
            lambda *roles: self.evaluate(x, sigma, roles), x, sigma, split=split
        )
        if self.mask is not None:
            denoised = self._keep(denoised, self.start)
        return denoised, uncond

    def _keep(self, changed: Tensor, kept: Tensor) -> Tensor:
        return changed * self.mask + kept * (1 - self.mask)

    def _kept_at(self, sigma: Tensor) -> Tensor:
        if not self.guider.model.options.noise_kept_part:
            return self.start
        return self.sampling.parametrisation.add_noise(self.start, self.kept_noise, sigma)


def cut_steps(sigmas: Tensor, start: int, end: int, *, force_full_denoise: bool) -> Tensor:
    """The sigmas of steps `start` to `end` of a schedule; where nothing is left to do, none (an empty
    tensor).

    With `force_full_denoise` a run that ends early goes to 0 in its last step.
    """
    if end < len(sigmas) - 1:
        sigmas = sigmas[: end + 1].clone()
        if force_full_denoise:
            sigmas[-1] = 0
    return sigmas[start:] if start < len(sigmas) - 1 else sigmas[:0]
