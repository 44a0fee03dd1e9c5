"""Nodes that change how a MODEL is sampled: its noise levels, what its output means, its guidance."""

from __future__ import annotations

from dataclasses import replace

from ..sampling import parametrisation as forms
from ..sampling.guidance import Rescaled
from ..sampling.model import LatentFormat
from ..sampling.prediction import (
    ContinuousEdm,
    ContinuousV,
    CosmosRectified,
    Discrete,
    DiscreteFlow,
    FluxFlow,
    flux_shift,
)
from .inputs import pixels, real, toggle


class _ModelNode:
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "patch"
    CATEGORY = "advanced/model"


class ModelSamplingDiscrete(_ModelNode):
    FORMS = {
        "eps": forms.Epsilon(),
        "v_prediction": forms.Velocity(),
        "lcm": forms.Consistency(),
        "x0": forms.Sample(),
        "img_to_img": forms.ImageToImage(),
    }
    LCM_STRIDE = 20  # latent consistency models are distilled to 50 of 1000 timesteps

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "sampling": (list(cls.FORMS),), "zsnr": toggle(False)}}

    def patch(self, model, sampling, zsnr):
        """Keeps the betas of a model that has some."""
        base = model.sampling if isinstance(model.sampling, Discrete) else Discrete()
        stride = self.LCM_STRIDE if sampling == "lcm" else 1
        changed = replace(base, parametrisation=self.FORMS[sampling], zero_snr=zsnr, stride=stride)
        return (model.with_sampling(changed),)


class ModelSamplingContinuousEDM(_ModelNode):
    FORMS = {
        "v_prediction": forms.Velocity(),
        "edm": forms.Edm(),
        "edm_playground_v2.5": forms.Edm(),
        "eps": forms.Epsilon(),
        "cosmos_rflow": forms.CosmosFlow(),
    }
    # Playground v2.5 normalises its latents channel by channel to a standard deviation of 0.5.
    PLAYGROUND = LatentFormat(
        channels=4,
        shift=(-1.6574, 1.886, -1.383, 2.5155),
        scale=tuple(0.5 / deviation for deviation in (8.4927, 5.9022, 6.5498, 5.2299)),
    )

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "sampling": (list(cls.FORMS),),
                "sigma_max": real(120.0, 0.0, 1000.0, 0.001, round=False),
                "sigma_min": real(0.002, 0.0, 1000.0, 0.001, round=False),
            }
        }

    def patch(self, model, sampling, sigma_max, sigma_min):
        _check_bounds(type(self).__name__, sigma_min, sigma_max)
        kind = CosmosRectified if sampling == "cosmos_rflow" else ContinuousEdm
        latent = None
        if sampling == "edm_playground_v2.5":
            latent = replace(model.latent, shift=self.PLAYGROUND.shift, scale=self.PLAYGROUND.scale)
        return (model.with_sampling(kind(self.FORMS[sampling], sigma_min, sigma_max), latent),)


class ModelSamplingContinuousV(_ModelNode):
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "sampling": (["v_prediction"],),
                "sigma_max": real(500.0, 0.0, 1000.0, 0.001, round=False),
                "sigma_min": real(0.03, 0.0, 1000.0, 0.001, round=False),
            }
        }

    def patch(self, model, sampling, sigma_max, sigma_min):
        _check_bounds(type(self).__name__, sigma_min, sigma_max)
        return (model.with_sampling(ContinuousV(lowest=sigma_min, highest=sigma_max)),)


def _check_bounds(node: str, sigma_min: float, sigma_max: float) -> None:
    if not 0 < sigma_min < sigma_max:
        raise ValueError(
            f"{node}: sigma_min is {sigma_min} and sigma_max {sigma_max}; it takes 0 < sigma_min < sigma_max"
        )


class ModelSamplingSD3(_ModelNode):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "shift": real(3.0, 0.0, 100.0)}}

    def patch(self, model, shift):
        return (model.with_sampling(DiscreteFlow(shift=shift, multiplier=1000.0)),)


class ModelSamplingAuraFlow(_ModelNode):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "shift": real(1.73, 0.0, 100.0)}}

    def patch(self, model, shift):
        return (model.with_sampling(DiscreteFlow(shift=shift, multiplier=1.0)),)


class ModelSamplingFlux(_ModelNode):
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "max_shift": real(1.15, 0.0, 100.0),
                "base_shift": real(0.5, 0.0, 100.0),
                "width": pixels(1024, 16, 8),
                "height": pixels(1024, 16, 8),
            }
        }

    def patch(self, model, max_shift, base_shift, width, height):
        return (
            model.with_sampling(
                FluxFlow(shift=flux_shift(width, height, base=base_shift, maximum=max_shift))
            ),
        )


class RescaleCFG(_ModelNode):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "multiplier": real(0.7, 0.0, 1.0)}}

    def patch(self, model, multiplier):
        return (model.with_options(cfg_function=Rescaled(multiplier)),)


NODES = {
    "ModelSamplingDiscrete": ModelSamplingDiscrete,
    "ModelSamplingContinuousEDM": ModelSamplingContinuousEDM,
    "ModelSamplingContinuousV": ModelSamplingContinuousV,
    "ModelSamplingSD3": ModelSamplingSD3,
    "ModelSamplingAuraFlow": ModelSamplingAuraFlow,
    "ModelSamplingFlux": ModelSamplingFlux,
    "RescaleCFG": RescaleCFG,
}

DISPLAY_NAMES = {}
