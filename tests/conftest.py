"""Fixtures for tests of more than one folder."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
import torch
from slipstream.executor.sampling.model import LatentFormat, ModelOptions
from slipstream.executor.sampling.prediction import Discrete, ModelSampling


@dataclass(frozen=True)
class GaussianModel:
    """A MODEL without a network: the exact posterior mean of a Gaussian N(mean, variance).

    A CONDITIONING entry's tensor is the mean, in the denoiser's space. `calls` collects the conditions of
    every evaluation, `open` how many sessions there are.
    """

    sampling: ModelSampling = field(default_factory=Discrete)
    latent: LatentFormat = field(default_factory=lambda: LatentFormat(channels=4))
    options: ModelOptions = field(default_factory=ModelOptions)
    variance: float = 0.25
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    calls: list = field(default_factory=list, compare=False)
    latents: list = field(default_factory=list, compare=False)
    open: list = field(default_factory=list, compare=False)

    @contextmanager
    def session(self):
        self.open.append(True)
        try:
            yield self
        finally:
            self.open.pop()

    def prepare(self, entry, *, noise, latent_image, denoise_mask):
        return {"mean": entry[0].to(noise)}

    def predict(self, x, sigma, inputs, conditions):
        assert sigma.shape == (x.shape[0],)
        self.calls.append(conditions)
        self.latents.append(x)
        sigma = sigma.view(-1, *[1] * (x.ndim - 1))
        mean, v = inputs["mean"], self.variance
        if self.sampling.flow:
            kept = 1 - sigma
            return mean + v * kept / (kept**2 * v + sigma**2) * (x - kept * mean)
        return mean + v / (v + sigma**2) * (x - mean)

    def with_sampling(self, sampling, latent=None):
        return replace(self, sampling=sampling, latent=latent or self.latent)

    def with_options(self, **changes):
        return replace(self, options=replace(self.options, **changes))


@pytest.fixture
def gaussian_model():
    """The class `GaussianModel`."""
    return GaussianModel
