"""KSampler and KSampler (Advanced)."""

from __future__ import annotations

from ..sampling.guidance import CFGGuider
from ..sampling.noise import NoNoise, RandomNoise
from ..sampling.run import cut_steps
from ..sampling.samplers import SAMPLERS, Sampler
from ..sampling.schedules import SCHEDULES, schedule
from .inputs import integer, real
from .sampling_run import CFG, SEED, run

STEPS = integer(20, 1, 10000)
CONDITIONED = {"positive": ("CONDITIONING",), "negative": ("CONDITIONING",), "latent_image": ("LATENT",)}


class KSampler:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "seed": SEED,
                "steps": STEPS,
                "cfg": CFG,
                "sampler_name": (list(SAMPLERS),),
                "scheduler": (list(SCHEDULES),),
                **CONDITIONED,
                "denoise": real(1.0, 0.0, 1.0),
            }
        }

    RETURN_TYPES = ("LATENT",)
    FUNCTION = "sample"
    CATEGORY = "sampling"

    def sample(
        self, model, seed, steps, cfg, sampler_name, scheduler, positive, negative, latent_image, denoise=1.0
    ):
        sampler = Sampler(sampler_name)
        discard = sampler.algorithm.discard_penultimate
        sigmas = schedule(model.sampling, scheduler, steps, denoise=denoise, discard_penultimate=discard)
        guider = CFGGuider(model, positive, negative, cfg)
        output, _ = run("KSampler", guider, sampler, sigmas, RandomNoise(seed).generate, latent_image, seed)
        return (output,)


class KSamplerAdvanced:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "add_noise": (["enable", "disable"],),
                "noise_seed": SEED,
                "steps": STEPS,
                "cfg": CFG,
                "sampler_name": (list(SAMPLERS),),
                "scheduler": (list(SCHEDULES),),
                **CONDITIONED,
                "start_at_step": integer(0, 0, 10000),
                "end_at_step": integer(10000, 0, 10000),
                "return_with_leftover_noise": (["disable", "enable"],),
            }
        }

    RETURN_TYPES = ("LATENT",)
    FUNCTION = "sample"
    CATEGORY = "sampling"

    def sample(
        self,
        model,
        add_noise,
        noise_seed,
        steps,
        cfg,
        sampler_name,
        scheduler,
        positive,
        negative,
        latent_image,
        start_at_step,
        end_at_step,
        return_with_leftover_noise,
    ):
        sampler = Sampler(sampler_name)
        discard = sampler.algorithm.discard_penultimate
        sigmas = cut_steps(
            schedule(model.sampling, scheduler, steps, discard_penultimate=discard),
            start_at_step,
            end_at_step,
            force_full_denoise=return_with_leftover_noise == "disable",
        )
        noise = NoNoise() if add_noise == "disable" else RandomNoise(noise_seed)
        guider = CFGGuider(model, positive, negative, cfg)
        output, _ = run("KSamplerAdvanced", guider, sampler, sigmas, noise.generate, latent_image, noise_seed)
        return (output,)


NODES = {"KSampler": KSampler, "KSamplerAdvanced": KSamplerAdvanced}

DISPLAY_NAMES = {"KSamplerAdvanced": "KSampler (Advanced)"}
