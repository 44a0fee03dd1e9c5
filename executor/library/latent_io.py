"""LATENT nodes that read and write `.latent` files: safetensors with the tensor and the workflow inside."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..models import folders
from .inputs import SAVE_HIDDEN
from .reading import content_hash, validated
from .saving import Series, embedded

# An empty tensor of this name tells a file of today from the first ones, which hold what the denoiser of
# Stable Diffusion 1 sees: LATENT times its scale.
VERSION = "latent_format_version_0"
SD1_SCALE = 0.18215


class SaveLatent:
    RETURN_TYPES = ()
    FUNCTION = "save"
    CATEGORY = "_for_testing"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        prefix = ("STRING", {"default": "latents/ComfyUI"})
        return {"required": {"samples": ("LATENT",), "filename_prefix": prefix}, "hidden": SAVE_HIDDEN}

    def save(self, samples, filename_prefix, prompt=None, extra_pnginfo=None):
        tensors = {"latent_tensor": samples["samples"].contiguous(), VERSION: torch.tensor([])}
        metadata = {"prompt": "", **embedded(prompt, extra_pnginfo)}
        series = Series(filename_prefix, "output")
        saved = series.save(".latent", lambda path: save_file(tensors, path, metadata))
        return {"ui": {"latents": [saved]}}


class LoadLatent:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "load"
    CATEGORY = "_for_testing"

    @classmethod
    def INPUT_TYPES(cls):
        names = [name for name in folders.input_names() if name.endswith(".latent")]
        return {"required": {"latent": (names,)}}

    @classmethod
    def IS_CHANGED(cls, latent):
        return content_hash(latent)

    @classmethod
    def VALIDATE_INPUTS(cls, latent):
        return validated(latent, "latent")

    def load(self, latent):
        try:
            tensors = load_file(folders.input_file(latent))
        except SafetensorError as error:
            raise ValueError(f"LoadLatent: {latent!r} is not a whole latent file: {error}") from error
        if "latent_tensor" not in tensors:
            raise ValueError(f"LoadLatent: {latent!r} holds {', '.join(tensors)} and no latent_tensor")
        samples = tensors["latent_tensor"].float()
        return ({"samples": samples if VERSION in tensors else samples / SD1_SCALE},)


NODES = {"SaveLatent": SaveLatent, "LoadLatent": LoadLatent}

DISPLAY_NAMES = {}
