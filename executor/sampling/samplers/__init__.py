"""The samplers by the names and in the order of ComfyUI's lists: `SAMPLERS`, and `Sampler`, the choice of
one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from . import adams, cfgpp, dpm, dpmpp, euler, multistep, sde, unipc


@dataclass(frozen=True)
class Algorithm:
    """A sampler function and what it needs of a run."""

    function: Callable[..., Tensor]
    # Where its noise comes from: drawn step by step, or increments of one Brownian path, the same however
    # many steps there are, drawn on the CPU or on the latent's device.
    noise: Literal["none", "stepwise", "brownian", "brownian_device"] = "none"
    discard_penultimate: bool = (
        False  # KSampler drops the last sigma before 0, which this sampler handles badly
    )
    redraw_kept_noise: bool = False  # the part that a noise mask keeps is noised by a draw of its own


SAMPLERS: dict[str, Algorithm] = {
    "euler": Algorithm(euler.euler),
    "euler_cfg_pp": Algorithm(cfgpp.euler_cfg_pp),
    "euler_ancestral": Algorithm(euler.euler_ancestral, "stepwise"),
    "euler_ancestral_cfg_pp": Algorithm(cfgpp.euler_ancestral_cfg_pp, "stepwise"),
    "heun": Algorithm(euler.heun),
    "heunpp2": Algorithm(euler.heunpp2),
    "dpm_2": Algorithm(dpm.dpm_2, discard_penultimate=True),
    "dpm_2_ancestral": Algorithm(dpm.dpm_2_ancestral, "stepwise", discard_penultimate=True),
    "lms": Algorithm(multistep.lms),
    "dpm_fast": Algorithm(dpm.dpm_fast),
    "dpm_adaptive": Algorithm(dpm.dpm_adaptive, "stepwise"),
    "dpmpp_2s_ancestral": Algorithm(dpmpp.dpmpp_2s_ancestral, "stepwise"),
    "dpmpp_2s_ancestral_cfg_pp": Algorithm(cfgpp.dpmpp_2s_ancestral_cfg_pp, "stepwise"),
    "dpmpp_sde": Algorithm(dpmpp.dpmpp_sde, "brownian"),
    "dpmpp_sde_gpu": Algorithm(dpmpp.dpmpp_sde, "brownian_device"),
    "dpmpp_2m": Algorithm(dpmpp.dpmpp_2m),
    "dpmpp_2m_cfg_pp": Algorithm(cfgpp.dpmpp_2m_cfg_pp),
    "dpmpp_2m_sde": Algorithm(dpmpp.dpmpp_2m_sde, "brownian"),
    "dpmpp_2m_sde_gpu": Algorithm(dpmpp.dpmpp_2m_sde, "brownian_device"),
    "dpmpp_2m_sde_heun": Algorithm(dpmpp.dpmpp_2m_sde_heun, "brownian"),
    "dpmpp_2m_sde_heun_gpu": Algorithm(dpmpp.dpmpp_2m_sde_heun, "brownian_device"),
    "dpmpp_3m_sde": Algorithm(dpmpp.dpmpp_3m_sde, "brownian"),
    "dpmpp_3m_sde_gpu": Algorithm(dpmpp.dpmpp_3m_sde, "brownian_device"),
    "ddpm": Algorithm(euler.ddpm, "stepwise"),
    "lcm": Algorithm(euler.lcm, "stepwise"),
    "ipndm": Algorithm(multistep.ipndm),
    "ipndm_v": Algorithm(multistep.ipndm_v),
    "deis": Algorithm(multistep.deis),
    "res_multistep": Algorithm(multistep.res_multistep),
    "res_multistep_cfg_pp": Algorithm(multistep.res_multistep_cfg_pp),
    "res_multistep_ancestral": Algorithm(multistep.res_multistep_ancestral, "stepwise"),
    "res_multistep_ancestral_cfg_pp": Algorithm(multistep.res_multistep_ancestral_cfg_pp, "stepwise"),
    "gradient_estimation": Algorithm(euler.gradient_estimation),
    "gradient_estimation_cfg_pp": Algorithm(cfgpp.gradient_estimation_cfg_pp),
    "er_sde": Algorithm(sde.er_sde, "stepwise"),
    "seeds_2": Algorithm(sde.seeds_2, "stepwise"),
    "seeds_3": Algorithm(sde.seeds_3, "stepwise"),
    "sa_solver": Algorithm(adams.sa_solver, "stepwise"),
    "sa_solver_pece": Algorithm(adams.sa_solver_pece, "stepwise"),
    "ddim": Algorithm(euler.euler, redraw_kept_noise=True),  # DDIM without noise is Euler's method
    "uni_pc": Algorithm(unipc.uni_pc, discard_penultimate=True),
    "uni_pc_bh2": Algorithm(unipc.uni_pc_bh2, discard_penultimate=True),
}

# Reachable through nodes of their own only.
_UNLISTED = {"euler_cfg_pp_alternative": Algorithm(cfgpp.euler_cfg_pp_alternative)}


@dataclass(frozen=True)
class Sampler:
    """SAMPLER: one of `SAMPLERS` (or "euler_cfg_pp_alternative") with options of its function."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in SAMPLERS and self.name not in _UNLISTED:
            raise ValueError(f"unknown sampler {self.name!r}; known are {', '.join(SAMPLERS)}")

    @property
    def algorithm(self) -> Algorithm:
        return SAMPLERS.get(self.name) or _UNLISTED[self.name]
