"""Nodes that make a schedule of sigmas."""

from __future__ import annotations

import torch

from ..sampling import gits, schedules
from ..sampling.level_tables import ALIGN_YOUR_STEPS, OPTIMAL_STEPS, from_levels
from .inputs import integer, real
from .sampling import STEPS

DENOISE = real(1.0, 0.0, 1.0)


def _parameter(default: float, low: float = 0.0, high: float = 5000.0, step: float = 0.01):
    return real(default, low, high, step, round=False)


BOUNDS = {"sigma_max": _parameter(14.614642), "sigma_min": _parameter(0.0291675)}


class _SchedulerNode:
    OPTIONS: dict

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": dict(cls.OPTIONS)}

    RETURN_TYPES = ("SIGMAS",)
    FUNCTION = "get_sigmas"
    CATEGORY = "sampling/custom_sampling/schedulers"

    @classmethod
    def above_zero(cls, **values):
        """Raises ValueError for the first value that is 0."""
        for name, value in values.items():
            if value <= 0:
                raise ValueError(f"{cls.__name__}: {name} is {value}; it has to be above 0")


class BasicScheduler(_SchedulerNode):
    OPTIONS = {
        "model": ("MODEL",),
        "scheduler": (list(schedules.SCHEDULES),),
        "steps": STEPS,
        "denoise": DENOISE,
    }

    def get_sigmas(self, model, scheduler, steps, denoise):
        if denoise <= 0.0:
            return (torch.empty(0),)
        total = int(steps / denoise) if denoise < 1.0 else steps
        return (schedules.schedule(model.sampling, scheduler, total)[-(steps + 1) :],)


class KarrasScheduler(_SchedulerNode):
    OPTIONS = {"steps": STEPS, **BOUNDS, "rho": _parameter(7.0, high=100.0)}

    def get_sigmas(self, steps, sigma_max, sigma_min, rho):
        self.above_zero(rho=rho)
        return (schedules.karras(steps, sigma_min, sigma_max, rho),)


class ExponentialScheduler(_SchedulerNode):
    OPTIONS = {"steps": STEPS, **BOUNDS}

    def get_sigmas(self, steps, sigma_max, sigma_min):
        self.above_zero(sigma_max=sigma_max, sigma_min=sigma_min)
        return (schedules.exponential(steps, sigma_min, sigma_max),)


class PolyexponentialScheduler(_SchedulerNode):
    OPTIONS = {"steps": STEPS, **BOUNDS, "rho": _parameter(1.0, high=100.0)}

    def get_sigmas(self, steps, sigma_max, sigma_min, rho):
        self.above_zero(sigma_max=sigma_max, sigma_min=sigma_min)
        return (schedules.polyexponential(steps, sigma_min, sigma_max, rho),)


class LaplaceScheduler(_SchedulerNode):
    OPTIONS = {
        "steps": STEPS,
        **BOUNDS,
        "mu": _parameter(0.0, -10.0, 10.0, 0.1),
        "beta": _parameter(0.5, high=10.0, step=0.1),
    }

    def get_sigmas(self, steps, sigma_max, sigma_min, mu, beta):
        return (schedules.laplace(steps, sigma_min, sigma_max, mu, beta),)


class VPScheduler(_SchedulerNode):
    OPTIONS = {
        "steps": STEPS,
        "beta_d": _parameter(19.9),
        "beta_min": _parameter(0.1),
        "eps_s": _parameter(0.001, high=1.0, step=0.0001),
    }

    def get_sigmas(self, steps, beta_d, beta_min, eps_s):
        return (schedules.variance_preserving(steps, beta_d, beta_min, eps_s),)


class BetaSamplingScheduler(_SchedulerNode):
    OPTIONS = {
        "model": ("MODEL",),
        "steps": STEPS,
        "alpha": _parameter(0.6, high=50.0),
        "beta": _parameter(0.6, high=50.0),
    }

    def get_sigmas(self, model, steps, alpha, beta):
        self.above_zero(alpha=alpha, beta=beta)
        return (schedules.beta(model.sampling, steps, alpha, beta),)


class SDTurboScheduler(_SchedulerNode):
    OPTIONS = {"model": ("MODEL",), "steps": integer(1, 1, 10), "denoise": real(1.0, 0, 1.0)}

    def get_sigmas(self, model, steps, denoise):
        """Some of the ten timesteps 999, 899, ... that the turbo models are distilled to
        (arXiv:2311.17042)."""
        skipped = 10 - int(10 * denoise)
        timesteps = torch.arange(999, 0, -100)[skipped : skipped + steps]
        return (torch.cat([model.sampling.sigma(timesteps), torch.zeros(1)]),)


class AlignYourStepsScheduler(_SchedulerNode):
    OPTIONS = {
        "model_type": ("COMBO", {"options": list(ALIGN_YOUR_STEPS)}),
        "steps": integer(10, 1, 10000),
        "denoise": DENOISE,
    }

    def get_sigmas(self, model_type, steps, denoise):
        return (from_levels(ALIGN_YOUR_STEPS[model_type], steps, denoise),)


class OptimalStepsScheduler(_SchedulerNode):
    OPTIONS = {
        "model_type": ("COMBO", {"options": list(OPTIMAL_STEPS)}),
        "steps": integer(20, 3, 1000),
        "denoise": DENOISE,
    }

    def get_sigmas(self, model_type, steps, denoise):
        return (from_levels(OPTIMAL_STEPS[model_type], steps, denoise),)


class GITSScheduler(_SchedulerNode):
    OPTIONS = {"coeff": real(1.2, 0.8, 1.5, 0.05), "steps": integer(10, 2, 1000), "denoise": DENOISE}

    def get_sigmas(self, coeff, steps, denoise):
        try:
            levels = gits.levels(coeff, min(steps, gits.MOST_STEPS))
        except ValueError as error:
            raise ValueError(f"GITSScheduler: coeff: {error}") from error
        return (from_levels(levels, steps, denoise),)


NODES = {
    "BasicScheduler": BasicScheduler,
    "KarrasScheduler": KarrasScheduler,
    "ExponentialScheduler": ExponentialScheduler,
    "PolyexponentialScheduler": PolyexponentialScheduler,
    "LaplaceScheduler": LaplaceScheduler,
    "VPScheduler": VPScheduler,
    "BetaSamplingScheduler": BetaSamplingScheduler,
    "SDTurboScheduler": SDTurboScheduler,
    "AlignYourStepsScheduler": AlignYourStepsScheduler,
    "OptimalStepsScheduler": OptimalStepsScheduler,
    "GITSScheduler": GITSScheduler,
}

DISPLAY_NAMES = {}
