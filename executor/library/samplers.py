"""Nodes that choose a sampler and set its options."""

from __future__ import annotations

from ..sampling.samplers import SAMPLERS, Sampler
from .inputs import integer, real


def _strength(default: float = 1.0, high: float = 100.0):
    return real(default, 0.0, high, round=False)


NOISE_DEVICE = (["gpu", "cpu"],)


class _SamplerNode:
    """One algorithm; its inputs are the options of the sampler function by their names."""

    SAMPLER: str
    OPTIONS: dict

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": dict(cls.OPTIONS)}

    RETURN_TYPES = ("SAMPLER",)
    FUNCTION = "get_sampler"
    CATEGORY = "sampling/custom_sampling/samplers"

    def get_sampler(self, **options):
        name = self.SAMPLER
        if options.pop("noise_device", "cpu") == "gpu":
            name += "_gpu"
        return (Sampler(name, options),)


class KSamplerSelect:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"sampler_name": (list(SAMPLERS),)}}

    RETURN_TYPES = ("SAMPLER",)
    FUNCTION = "get_sampler"
    CATEGORY = "sampling/custom_sampling/samplers"

    def get_sampler(self, sampler_name):
        return (Sampler(sampler_name),)


class SamplerEulerAncestral(_SamplerNode):
    SAMPLER = "euler_ancestral"
    OPTIONS = {"eta": _strength(), "s_noise": _strength()}


class SamplerEulerAncestralCFGPP(_SamplerNode):
    SAMPLER = "euler_ancestral_cfg_pp"
    OPTIONS = {"eta": _strength(high=1.0), "s_noise": _strength(high=10.0)}


class SamplerEulerCFGpp(_SamplerNode):
    OPTIONS = {"version": ("COMBO", {"options": ["regular", "alternative"]})}
    CATEGORY = "_for_testing"
    EXPERIMENTAL = True

    def get_sampler(self, version):
        return (Sampler("euler_cfg_pp" if version == "regular" else "euler_cfg_pp_alternative"),)


class SamplerLMS(_SamplerNode):
    SAMPLER = "lms"
    OPTIONS = {"order": integer(4, 1, 100)}


class SamplerDPMPP_2S_Ancestral(_SamplerNode):
    SAMPLER = "dpmpp_2s_ancestral"
    OPTIONS = {"eta": _strength(), "s_noise": _strength()}


class SamplerDPMPP_SDE(_SamplerNode):
    SAMPLER = "dpmpp_sde"
    OPTIONS = {"eta": _strength(), "s_noise": _strength(), "r": _strength(0.5), "noise_device": NOISE_DEVICE}


class SamplerDPMPP_2M_SDE(_SamplerNode):
    SAMPLER = "dpmpp_2m_sde"
    OPTIONS = {
        "solver_type": (["midpoint", "heun"],),
        "eta": _strength(),
        "s_noise": _strength(),
        "noise_device": NOISE_DEVICE,
    }


class SamplerDPMPP_3M_SDE(_SamplerNode):
    SAMPLER = "dpmpp_3m_sde"
    OPTIONS = {"eta": _strength(), "s_noise": _strength(), "noise_device": NOISE_DEVICE}


class SamplerDPMAdaptative(_SamplerNode):
    SAMPLER = "dpm_adaptive"
    OPTIONS = {
        "order": integer(3, 2, 3),
        "rtol": _strength(0.05),
        "atol": _strength(0.0078),
        "h_init": _strength(0.05),
        "pcoeff": _strength(0.0),
        "icoeff": _strength(1.0),
        "dcoeff": _strength(0.0),
        "accept_safety": _strength(0.81),
        "eta": _strength(0.0),
        "s_noise": _strength(1.0),
    }


class SamplerER_SDE(_SamplerNode):
    OPTIONS = {
        "solver_type": ("COMBO", {"options": ["ER-SDE", "Reverse-time SDE", "ODE"]}),
        "max_stage": integer(3, 1, 3),
        "eta": _strength(),
        "s_noise": _strength(),
    }

    def get_sampler(self, solver_type, max_stage, eta, s_noise):
        if solver_type == "ER-SDE":
            eta = None
        elif solver_type == "ODE" or eta == 0:
            eta, s_noise = 0.0, 0.0
        return (Sampler("er_sde", {"max_stage": max_stage, "eta": eta, "s_noise": s_noise}),)


class SamplerSASolver(_SamplerNode):
    OPTIONS = {
        "model": ("MODEL", {}),
        "eta": _strength(high=10.0),
        "sde_start_percent": real(0.2, 0.0, 1.0, 0.001),
        "sde_end_percent": real(0.8, 0.0, 1.0, 0.001),
        "s_noise": _strength(),
        "predictor_order": integer(3, 1, 6),
        "corrector_order": integer(4, 0, 6),
        "use_pece": ("BOOLEAN", {}),
        "simple_order_2": ("BOOLEAN", {}),
    }

    def get_sampler(self, model, sde_start_percent, sde_end_percent, **options):
        ends = tuple(model.sampling.percent_to_sigma(p) for p in (sde_start_percent, sde_end_percent))
        return (Sampler("sa_solver", {"sde_range": ends, **options}),)


NODES = {
    "KSamplerSelect": KSamplerSelect,
    "SamplerEulerAncestral": SamplerEulerAncestral,
    "SamplerEulerAncestralCFGPP": SamplerEulerAncestralCFGPP,
    "SamplerEulerCFGpp": SamplerEulerCFGpp,
    "SamplerLMS": SamplerLMS,
    "SamplerDPMPP_2S_Ancestral": SamplerDPMPP_2S_Ancestral,
    "SamplerDPMPP_SDE": SamplerDPMPP_SDE,
    "SamplerDPMPP_2M_SDE": SamplerDPMPP_2M_SDE,
    "SamplerDPMPP_3M_SDE": SamplerDPMPP_3M_SDE,
    "SamplerDPMAdaptative": SamplerDPMAdaptative,
    "SamplerER_SDE": SamplerER_SDE,
    "SamplerSASolver": SamplerSASolver,
}

DISPLAY_NAMES = {
    "SamplerEulerAncestralCFGPP": "SamplerEulerAncestralCFG++",
    "SamplerEulerCFGpp": "SamplerEulerCFG++",
}
