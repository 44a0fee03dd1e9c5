"""Sampling in parts: noise, guiders, and the nodes that run a sampler over sigmas."""

from __future__ import annotations

import torch

from ..sampling import guidance
from ..sampling.noise import NoNoise
from ..sampling.noise import RandomNoise as SeededNoise
from .inputs import toggle
from .sampling import CONDITIONED
from .sampling_run import CFG, SEED, fitted, run


class SamplerCustom:
    @classmethod
    def INPUT_TYPES(cls):
        conditioned = dict(CONDITIONED)
        latent_image = conditioned.pop("latent_image")
        return {
            "required": {
                "model": ("MODEL",),
                "add_noise": toggle(True),
                "noise_seed": SEED,
                "cfg": CFG,
                **conditioned,
                "sampler": ("SAMPLER",),
                "sigmas": ("SIGMAS",),
                "latent_image": latent_image,
            }
        }

    RETURN_TYPES = ("LATENT", "LATENT")
    RETURN_NAMES = ("output", "denoised_output")
    FUNCTION = "sample"
    CATEGORY = "sampling/custom_sampling"

    def sample(self, model, add_noise, noise_seed, cfg, positive, negative, sampler, sigmas, latent_image):
        noise = SeededNoise(noise_seed) if add_noise else NoNoise()
        guider = guidance.CFGGuider(model, positive, negative, cfg)
        return run("SamplerCustom", guider, sampler, sigmas, noise.generate, latent_image, noise_seed)


class SamplerCustomAdvanced:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "noise": ("NOISE",),
                "guider": ("GUIDER",),
                "sampler": ("SAMPLER",),
                "sigmas": ("SIGMAS",),
                "latent_image": ("LATENT",),
            }
        }

    RETURN_TYPES = ("LATENT", "LATENT")
    RETURN_NAMES = ("output", "denoised_output")
    FUNCTION = "sample"
    CATEGORY = "sampling/custom_sampling"

    def sample(self, noise, guider, sampler, sigmas, latent_image):
        return run("SamplerCustomAdvanced", guider, sampler, sigmas, noise.generate, latent_image, noise.seed)


class BasicGuider:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "conditioning": ("CONDITIONING",)}}

    RETURN_TYPES = ("GUIDER",)
    FUNCTION = "get_guider"
    CATEGORY = "sampling/custom_sampling/guiders"

    def get_guider(self, model, conditioning):
        return (guidance.BasicGuider(model, conditioning),)


class CFGGuider:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "positive": ("CONDITIONING",),
                "negative": ("CONDITIONING",),
                "cfg": CFG,
            }
        }

    RETURN_TYPES = ("GUIDER",)
    FUNCTION = "get_guider"
    CATEGORY = "sampling/custom_sampling/guiders"

    def get_guider(self, model, positive, negative, cfg):
        return (guidance.CFGGuider(model, positive, negative, cfg),)


class DualCFGGuider:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "cond1": ("CONDITIONING",),
                "cond2": ("CONDITIONING",),
                "negative": ("CONDITIONING",),
                "cfg_conds": CFG,
                "cfg_cond2_negative": CFG,
                "style": (["regular", "nested"],),
            }
        }

    RETURN_TYPES = ("GUIDER",)
    FUNCTION = "get_guider"
    CATEGORY = "sampling/custom_sampling/guiders"

    def get_guider(self, model, cond1, cond2, negative, cfg_conds, cfg_cond2_negative, style):
        nested = style == "nested"
        return (guidance.DualCFGGuider(model, cond1, cond2, negative, cfg_conds, cfg_cond2_negative, nested),)


class RandomNoise:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"noise_seed": SEED}}

    RETURN_TYPES = ("NOISE",)
    FUNCTION = "get_noise"
    CATEGORY = "sampling/custom_sampling/noise"

    def get_noise(self, noise_seed):
        return (SeededNoise(noise_seed),)


class DisableNoise:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    RETURN_TYPES = ("NOISE",)
    FUNCTION = "get_noise"
    CATEGORY = "sampling/custom_sampling/noise"

    def get_noise(self):
        return (NoNoise(),)


class AddNoise:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "noise": ("NOISE",),
                "sigmas": ("SIGMAS",),
                "latent_image": ("LATENT",),
            }
        }

    RETURN_TYPES = ("LATENT",)
    FUNCTION = "add_noise"
    CATEGORY = "_for_testing/custom_sampling/noise"

    def add_noise(self, model, noise, sigmas, latent_image):
        """As much noise as the sigmas span; with one sigma, as it says."""
        if len(sigmas) == 0:
            return (latent_image,)
        latent = fitted("AddNoise", latent_image, model.latent)
        level = sigmas[0] if len(sigmas) == 1 else (sigmas[0] - sigmas[-1]).abs()
        samples = latent["samples"]
        if torch.count_nonzero(samples) > 0:
            samples = model.latent.encode(samples)
        noisy = model.sampling.parametrisation.add_noise(samples, noise.generate(latent), level)
        return ({**latent, "samples": torch.nan_to_num(model.latent.decode(noisy), 0.0, 0.0, 0.0)},)


NODES = {
    "SamplerCustom": SamplerCustom,
    "SamplerCustomAdvanced": SamplerCustomAdvanced,
    "BasicGuider": BasicGuider,
    "CFGGuider": CFGGuider,
    "DualCFGGuider": DualCFGGuider,
    "RandomNoise": RandomNoise,
    "DisableNoise": DisableNoise,
    "AddNoise": AddNoise,
}

DISPLAY_NAMES = {}
