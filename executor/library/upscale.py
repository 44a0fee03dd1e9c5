"""Upscaling with a model: any single-image network that spandrel knows (ESRGAN, SwinIR, DAT, ...)."""

from __future__ import annotations

import itertools

import torch

from .. import context
from ..models import files, folders, memory, tiles

TILE = 512  # pixels, where memory allows
SMALLEST_TILE = 128
OVERLAP = 32


def _spandrel():
    try:
        import spandrel
    except ImportError as error:
        raise RuntimeError(
            "Upscale models are read by spandrel, which cannot be imported here "
            f'({error}); install it with: pip install "slipstream[upscale]"'
        ) from error
    return spandrel


class UpscaleModelLoader:
    RETURN_TYPES = ("UPSCALE_MODEL",)
    FUNCTION = "load_model"
    CATEGORY = "loaders"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model_name": (folders.names("upscale_models"),)}}

    def load_model(self, model_name):
        path = folders.find("upscale_models", model_name)
        spandrel = _spandrel()
        if path.suffix.lower() in files.SAFETENSORS:
            state = {name: entry.read() for name, entry in files.open_weights(path).items()}
        else:
            state = files.load_pickle(path)
        try:
            model = spandrel.ModelLoader().load_from_state_dict(spandrel.canonicalize_state_dict(state))
        except spandrel.UnsupportedModelError as error:
            raise ValueError(f"UpscaleModelLoader: {model_name!r} is no upscale model: {error}") from error
        if not isinstance(model, spandrel.ImageModelDescriptor):
            raise ValueError(f"UpscaleModelLoader: {model_name!r} needs more than a single image")
        return (model.eval(),)


class ImageUpscaleWithModel:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "upscale"
    CATEGORY = "image/upscaling"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"upscale_model": ("UPSCALE_MODEL",), "image": ("IMAGE",)}}

    @torch.no_grad()
    def upscale(self, upscale_model, image):
        """In tiles, which get smaller where the device runs out of memory."""
        if image.shape[-1] != upscale_model.input_channels:
            given, wanted = image.shape[-1], upscale_model.input_channels
            raise ValueError(f"ImageUpscaleWithModel: image has {given} channels, the model takes {wanted}")
        device = memory.device()
        memory.to_device(upscale_model.model, device)
        samples = image.movedim(-1, 1).to(device, torch.float32)
        return (_upscaled(upscale_model, samples, TILE).movedim(1, -1).clamp(0, 1),)


def _upscaled(model, samples: torch.Tensor, side: int) -> torch.Tensor:
    tile = (side, side)
    total = len(samples) * tiles.count(samples.shape[2:], tile, OVERLAP)
    done = itertools.count(1)
    try:
        return tiles.tiled(
            samples,
            model,
            tile=tile,
            overlap=OVERLAP,
            scale=model.scale,
            channels=model.output_channels,
            done=lambda: context.progress(next(done), total),
        )
    except torch.OutOfMemoryError:
        if side // 2 < SMALLEST_TILE:
            raise
    # Not inside `except`, where the error would keep the tensors of the failed attempt alive.
    return _upscaled(model, samples, side // 2)


NODES = {"UpscaleModelLoader": UpscaleModelLoader, "ImageUpscaleWithModel": ImageUpscaleWithModel}

DISPLAY_NAMES = {
    "UpscaleModelLoader": "Load Upscale Model",
    "ImageUpscaleWithModel": "Upscale Image (using Model)",
}
