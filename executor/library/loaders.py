"""Nodes that load models."""

from __future__ import annotations

import torch

from ..models import checkpoints, files, folders, text_files, vae

WEIGHT_DTYPES = {  # UNETLoader's choices; "fast" ones differ from the others only in how they multiply
    "default": "default",
    "fp8_e4m3fn": "fp8_e4m3fn",
    "fp8_e4m3fn_fast": "fp8_e4m3fn",
    "fp8_e5m2": "fp8_e5m2",
}
CLIP_TYPES = [
    "stable_diffusion",
    "stable_cascade",
    "sd3",
    "stable_audio",
    "mochi",
    "ltxv",
    "pixart",
    "cosmos",
    "lumina2",
    "wan",
    "hidream",
    "chroma",
    "ace",
    "omnigen2",
    "qwen_image",
    "hunyuan_image",
]
DUAL_CLIP_TYPES = ["sdxl", "sd3", "flux", "hunyuan_video", "hidream", "hunyuan_image"]
TEXT_DEVICE = {"device": (["default", "cpu"], {"advanced": True})}
# Tiny autoencoders in vae_approx/, each in two files; they work on scaled latents (see LatentFormat).
TINY_VAES = {
    "taesd": (0.18215, 0.0),
    "taesdxl": (0.13025, 0.0),
    "taesd3": (1.5305, 0.0609),
    "taef1": (0.3611, 0.1159),
}
PIXEL_SPACE = "pixel_space"


class CheckpointLoaderSimple:
    RETURN_TYPES = ("MODEL", "CLIP", "VAE")
    FUNCTION = "load_checkpoint"
    CATEGORY = "loaders"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"ckpt_name": (folders.names("checkpoints"),)}}

    def load_checkpoint(self, ckpt_name):
        return checkpoints.load(folders.find("checkpoints", ckpt_name))


class DiffusersLoader:
    RETURN_TYPES = ("MODEL", "CLIP", "VAE")
    FUNCTION = "load_checkpoint"
    CATEGORY = "advanced/loaders/deprecated"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model_path": (folders.names("diffusers"),)}}

    def load_checkpoint(self, model_path):
        return checkpoints.load(folders.find("diffusers", model_path))


class UNETLoader:
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "load_unet"
    CATEGORY = "advanced/loaders"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "unet_name": (folders.names("diffusion_models"),),
                "weight_dtype": (list(WEIGHT_DTYPES),),
            }
        }

    def load_unet(self, unet_name, weight_dtype):
        path = folders.find("diffusion_models", unet_name)
        return (checkpoints.load_denoiser(path, WEIGHT_DTYPES[weight_dtype]),)


class CLIPLoader:
    RETURN_TYPES = ("CLIP",)
    FUNCTION = "load_clip"
    CATEGORY = "advanced/loaders"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"clip_name": (folders.names("text_encoders"),), "type": (CLIP_TYPES,)},
            "optional": TEXT_DEVICE,
        }

    def load_clip(self, clip_name, type="stable_diffusion", device="default"):
        return (_text_encoder([clip_name], type, device),)


class DualCLIPLoader:
    RETURN_TYPES = ("CLIP",)
    FUNCTION = "load_clip"
    CATEGORY = "advanced/loaders"

    @classmethod
    def INPUT_TYPES(cls):
        names = folders.names("text_encoders")
        return {
            "required": {"clip_name1": (names,), "clip_name2": (names,), "type": (DUAL_CLIP_TYPES,)},
            "optional": TEXT_DEVICE,
        }

    def load_clip(self, clip_name1, clip_name2, type, device="default"):
        return (_text_encoder([clip_name1, clip_name2], type, device),)


class TripleCLIPLoader:
    RETURN_TYPES = ("CLIP",)
    FUNCTION = "load_clip"
    CATEGORY = "advanced/loaders"

    @classmethod
    def INPUT_TYPES(cls):
        choice = ("COMBO", {"multiselect": False, "options": folders.names("text_encoders")})
        return {"required": dict.fromkeys(("clip_name1", "clip_name2", "clip_name3"), choice)}

    def load_clip(self, clip_name1, clip_name2, clip_name3):
        return (_text_encoder([clip_name1, clip_name2, clip_name3], "sd3", "default"),)


def _text_encoder(names, kind, device):
    paths = [folders.find("text_encoders", name) for name in names]
    return text_files.load(paths, kind, torch.device("cpu") if device == "cpu" else None)


class VAELoader:
    RETURN_TYPES = ("VAE",)
    FUNCTION = "load_vae"
    CATEGORY = "loaders"

    @classmethod
    def INPUT_TYPES(cls):
        tiny = [name for name in TINY_VAES if all(_tiny_halves(name))]
        names = folders.Names("vae", [*folders.names("vae"), *tiny, PIXEL_SPACE])
        return {"required": {"vae_name": (names,)}}

    def load_vae(self, vae_name):
        if vae_name == PIXEL_SPACE:
            return (vae.pixel_space(),)
        if vae_name in TINY_VAES:
            return (_tiny_vae(vae_name),)
        return (checkpoints.load_vae(folders.find("vae", vae_name)),)


def _tiny_halves(name):
    """The encoder's and the decoder's file among vae_approx; None for one that is not there."""
    known = folders.names("vae_approx")

    def half(kind):
        return next((file for file in known if file.startswith(f"{name}_{kind}.")), None)

    return half("encoder"), half("decoder")


def _tiny_vae(name):
    weights = {}
    for kind, file in zip(("encoder", "decoder"), _tiny_halves(name), strict=True):
        path = folders.find("vae_approx", file or f"{name}_{kind}.safetensors")
        weights |= {f"taesd_{kind}.{key}": entry for key, entry in files.open_weights(path).items()}
    return checkpoints.vae_of(weights, path, *TINY_VAES[name])


NODES = {
    "CheckpointLoaderSimple": CheckpointLoaderSimple,
    "DiffusersLoader": DiffusersLoader,
    "UNETLoader": UNETLoader,
    "CLIPLoader": CLIPLoader,
    "DualCLIPLoader": DualCLIPLoader,
    "TripleCLIPLoader": TripleCLIPLoader,
    "VAELoader": VAELoader,
}

DISPLAY_NAMES = {
    "CheckpointLoaderSimple": "Load Checkpoint",
    "UNETLoader": "Load Diffusion Model",
    "CLIPLoader": "Load CLIP",
    "VAELoader": "Load VAE",
}
