"""Saying what a weight file looks like, for files that were put in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .families.registry import denoiser_in
from .files import BadFile, Weights
from .text_layout import tower_in
from .vae_layout import is_kl, is_tiny

LORA = (".lora_up.weight", ".lora_A.weight", ".lora_B.weight", ".hada_w1_a", ".lokr_w1", ".lora.up.weight")
CONTROLNET = ("control_model.", "controlnet_", "input_hint_block.", "zero_convs.")
UPSCALER = ("model.0.weight", "conv_first.weight", "body.0.weight")


@dataclass(frozen=True)
class Look:
    what: str
    loader: str
    folder: str
    fits: Callable[[Weights], bool]


def _ends(*endings: str) -> Callable[[Weights], bool]:
    return lambda weights: any(name.endswith(endings) for name in weights)


def _begins(*beginnings: str) -> Callable[[Weights], bool]:
    return lambda weights: any(name.startswith(beginnings) for name in weights)


def _has(*names: str) -> Callable[[Weights], bool]:
    return lambda weights: any(name in weights for name in names)


def _denoiser(weights: Weights) -> bool:
    return denoiser_in(weights) is not None


def _checkpoint(weights: Weights) -> bool:
    return _begins("first_stage_model.", "vae.", "cond_stage_model.")(weights) and _denoiser(weights)


# The first that fits counts.
LOOKS = (
    Look("a LoRA", "LoraLoader", "loras", _ends(*LORA)),
    Look("a ControlNet", "ControlNetLoader", "controlnet", _begins(*CONTROLNET)),
    Look("a checkpoint", "CheckpointLoaderSimple", "checkpoints", _checkpoint),
    Look("a diffusion model", "UNETLoader", "diffusion_models", _denoiser),
    Look("a CLIP vision model", "CLIPVisionLoader", "clip_vision", _begins("vision_model.", "visual.")),
    Look("a text encoder", "CLIPLoader", "text_encoders", lambda weights: tower_in(weights) is not None),
    Look("a VAE", "VAELoader", "vae", lambda weights: is_kl(weights) or is_tiny(weights)),
    Look("an upscale model", "UpscaleModelLoader", "upscale_models", _has(*UPSCALER)),
    Look("an embedding", "prompts, as embedding:name", "embeddings", lambda weights: len(weights) <= 2),
)


def wrong_kind(path: Path, weights: Weights, wanted: str) -> BadFile:
    """The error for a file that is not `wanted` ("a VAE", ...)."""
    for look in LOOKS:
        if look.what != wanted and look.fits(weights):
            return BadFile(
                f"{path}: this looks like {look.what}, not {wanted}; it belongs in the folder "
                f"{look.folder} and is loaded by {look.loader}"
            )
    names = ", ".join(sorted(weights)[:3])
    return BadFile(f"{path}: this is not {wanted} of a supported kind (it has tensors such as {names})")
