"""Nodes that take schedules apart, change them, or write them down."""

from __future__ import annotations

import math
import re

import torch

from .inputs import integer, real, toggle


class SplitSigmas:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sigmas": ("SIGMAS",), "step": integer(0, 0, 10000)}}

    RETURN_TYPES = ("SIGMAS", "SIGMAS")
    RETURN_NAMES = ("high_sigmas", "low_sigmas")
    FUNCTION = "get_sigmas"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def get_sigmas(self, sigmas, step):
        return (sigmas[: step + 1], sigmas[step:])


class SplitSigmasDenoise:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sigmas": ("SIGMAS",), "denoise": real(1.0, 0.0, 1.0)}}

    RETURN_TYPES = ("SIGMAS", "SIGMAS")
    RETURN_NAMES = ("high_sigmas", "low_sigmas")
    FUNCTION = "get_sigmas"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def get_sigmas(self, sigmas, denoise):
        """The last `denoise` of the steps are the low ones; with none of them there are no high ones
        either, as in ComfyUI."""
        low = round(max(len(sigmas) - 1, 0) * denoise)
        return (sigmas[:-low] if low else sigmas[:0], sigmas[-(low + 1) :])


class FlipSigmas:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sigmas": ("SIGMAS",)}}

    RETURN_TYPES = ("SIGMAS",)
    FUNCTION = "get_sigmas"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def get_sigmas(self, sigmas):
        """Upside down, for running backwards; a run cannot start at 0, so it starts at 0.0001."""
        sigmas = sigmas.flip(0)
        if len(sigmas) > 0 and sigmas[0] == 0:
            sigmas[0] = 0.0001
        return (sigmas,)


class SetFirstSigma:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sigmas": ("SIGMAS",), "sigma": real(136.0, 0.0, 20000.0, 0.001, round=False)}}

    RETURN_TYPES = ("SIGMAS",)
    FUNCTION = "set_first_sigma"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def set_first_sigma(self, sigmas, sigma):
        sigmas = sigmas.clone()
        sigmas[:1] = sigma
        return (sigmas,)


class ExtendIntermediateSigmas:
    SPACINGS = {
        "linear": lambda part: part,
        "cosine": lambda part: math.sin(part * math.pi / 2),
        "sine": lambda part: 1 - math.cos(part * math.pi / 2),
    }

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "sigmas": ("SIGMAS",),
                "steps": integer(2, 1, 100),
                "start_at_sigma": real(-1.0, -1.0, 20000.0, round=False),
                "end_at_sigma": real(12.0, 0.0, 20000.0, round=False),
                "spacing": (list(cls.SPACINGS),),
            }
        }

    RETURN_TYPES = ("SIGMAS",)
    FUNCTION = "extend"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def extend(self, sigmas, steps, start_at_sigma, end_at_sigma, spacing):
        """Each step that starts between the two sigmas becomes `steps` steps; a negative start has no
        bound."""
        highest = math.inf if start_at_sigma < 0 else start_at_sigma
        parts = [self.SPACINGS[spacing](i / steps) for i in range(1, steps)]
        extended = []
        for sigma, following in zip(sigmas.tolist(), sigmas.tolist()[1:], strict=False):
            extended.append(sigma)
            if end_at_sigma <= sigma <= highest:
                extended += [sigma + part * (following - sigma) for part in parts]
        return (torch.tensor(extended + sigmas.tolist()[-1:], dtype=torch.float32),)


class ManualSigmas:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sigmas": ("STRING", {"default": "1, 0.5", "multiline": False})}}

    RETURN_TYPES = ("SIGMAS",)
    FUNCTION = "get_sigmas"
    CATEGORY = "_for_testing/custom_sampling"
    EXPERIMENTAL = True

    def get_sigmas(self, sigmas):
        """The numbers in a text, whatever is between them."""
        numbers = re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", sigmas)
        return (torch.tensor([float(number) for number in numbers], dtype=torch.float32),)


class SamplingPercentToSigma:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL", {}),
                "sampling_percent": real(0.0, 0.0, 1.0, 0.0001),
                "return_actual_sigma": toggle(False),
            }
        }

    RETURN_TYPES = ("FLOAT",)
    RETURN_NAMES = ("sigma_value",)
    FUNCTION = "get_sigma"
    CATEGORY = "sampling/custom_sampling/sigmas"

    def get_sigma(self, model, sampling_percent, return_actual_sigma):
        """The ends of the schedule are bounds that hold for every sigma, or the model's own with
        `return_actual_sigma`."""
        ends = {0.0: model.sampling.sigma_max, 1.0: model.sampling.sigma_min}
        if return_actual_sigma and sampling_percent in ends:
            return (ends[sampling_percent],)
        return (model.sampling.percent_to_sigma(sampling_percent),)


NODES = {
    "SplitSigmas": SplitSigmas,
    "SplitSigmasDenoise": SplitSigmasDenoise,
    "FlipSigmas": FlipSigmas,
    "SetFirstSigma": SetFirstSigma,
    "ExtendIntermediateSigmas": ExtendIntermediateSigmas,
    "ManualSigmas": ManualSigmas,
    "SamplingPercentToSigma": SamplingPercentToSigma,
}

DISPLAY_NAMES = {}
