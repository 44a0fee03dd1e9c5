"""LATENT nodes that make, resize, move and combine latents. Sizes in pixels are 8 to a latent cell."""

from __future__ import annotations

import torch

from .inputs import MAX_RESOLUTION, integer, pixels, real, toggle
from .pixels import paste, repeat_to_batch
from .resample import CROPS, LATENT_METHODS, resample

CELL = 8  # pixels to a latent cell, for every node here that counts in pixels
ROTATIONS = ["none", "90 degrees", "180 degrees", "270 degrees"]
FLIPS = ["x-axis: vertically", "y-axis: horizontally"]


def empty(batch: int, *shape: int) -> dict:
    return {"samples": torch.zeros(batch, *shape)}


class EmptyLatentImage:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "generate"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, 16, 8), "height": pixels(512, 16, 8)}
        return {"required": {**sides, "batch_size": integer(1, 1, 4096)}}

    def generate(self, width, height, batch_size=1):
        return (empty(batch_size, 4, height // CELL, width // CELL),)


class EmptySD3LatentImage:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "generate"
    CATEGORY = "latent/sd3"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(1024, 16, 16), "height": pixels(1024, 16, 16)}
        return {"required": {**sides, "batch_size": integer(1, 1, 4096)}}

    def generate(self, width, height, batch_size=1):
        return (empty(batch_size, 16, height // CELL, width // CELL),)


class EmptyHunyuanLatentVideo:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "generate"
    CATEGORY = "latent/video"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(848, 16, 16), "height": pixels(480, 16, 16)}
        return {"required": {**sides, "length": pixels(25, 1, 4), "batch_size": integer(1, 1, 4096)}}

    def generate(self, width, height, length, batch_size=1):
        """The first frame has a latent of its own, then every four share one."""
        return (empty(batch_size, 16, (length - 1) // 4 + 1, height // CELL, width // CELL),)


class TrimVideoLatent:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "trim"
    CATEGORY = "latent/video"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "trim_amount": integer(0, 0, 99999)}}

    def trim(self, samples, trim_amount):
        return ({**samples, "samples": samples["samples"][:, :, trim_amount:]},)


class LatentUpscale:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "upscale"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, step=8), "height": pixels(512, step=8)}
        method = {"samples": ("LATENT",), "upscale_method": (LATENT_METHODS,)}
        return {"required": {**method, **sides, "crop": (CROPS,)}}

    def upscale(self, samples, upscale_method, width, height, crop):
        """A side of 0 follows from the other by the aspect ratio; both 0 leaves the latent alone."""
        if width == height == 0:
            return (samples,)
        rows, columns = samples["samples"].shape[-2:]
        height = max(64, height or round(rows * max(64, width) / columns))
        width = max(64, width or round(columns * height / rows))
        resized = resample(samples["samples"], width // CELL, height // CELL, upscale_method, crop)
        return ({**samples, "samples": resized},)


class LatentUpscaleBy:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "upscale"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        scale = {"upscale_method": (LATENT_METHODS,), "scale_by": real(1.5, 0.01, 8.0)}
        return {"required": {"samples": ("LATENT",), **scale}}

    def upscale(self, samples, upscale_method, scale_by):
        rows, columns = samples["samples"].shape[-2:]
        size = round(columns * scale_by), round(rows * scale_by)
        return ({**samples, "samples": resample(samples["samples"], *size, upscale_method)},)


class LatentRotate:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "rotate"
    CATEGORY = "latent/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "rotation": (ROTATIONS,)}}

    def rotate(self, samples, rotation):
        turned = torch.rot90(samples["samples"], ROTATIONS.index(rotation), (-1, -2))
        return ({**samples, "samples": turned},)


class LatentFlip:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "flip"
    CATEGORY = "latent/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "flip_method": (FLIPS,)}}

    def flip(self, samples, flip_method):
        dim = -2 if flip_method == FLIPS[0] else -1
        return ({**samples, "samples": samples["samples"].flip(dim)},)


class LatentCrop:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "crop"
    CATEGORY = "latent/transform"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, 64, 8), "height": pixels(512, 64, 8)}
        return {"required": {"samples": ("LATENT",), **sides, "x": pixels(0, step=8), "y": pixels(0, step=8)}}

    def crop(self, samples, width, height, x, y):
        """Corners move in so far that at least 64 pixels remain each way."""
        rows, columns = samples["samples"].shape[-2:]
        left, top = min(x // CELL, columns - 8), min(y // CELL, rows - 8)
        part = samples["samples"][..., top : top + height // CELL, left : left + width // CELL]
        return ({**samples, "samples": part},)


class LatentCut:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "cut"
    CATEGORY = "latent/advanced"

    @classmethod
    def INPUT_TYPES(cls):
        span = {"index": pixels(0, -MAX_RESOLUTION), "amount": pixels(1, 1)}
        return {"required": {"samples": ("LATENT",), "dim": (["x", "y", "t"],), **span}}

    def cut(self, samples, dim, index, amount):
        """`amount` cells from `index` on; a negative index counts from the end."""
        tensor = samples["samples"]
        axis = -1 - "xyt".index(dim)
        size = tensor.shape[axis]
        start = min(index, size - 1) if index >= 0 else max(index + size, 0)
        return ({**samples, "samples": tensor.narrow(axis, start, min(amount, size - start))},)


class LatentConcat:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "concat"
    CATEGORY = "latent/advanced"

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"samples1": ("LATENT",), "samples2": ("LATENT",)}
        return {"required": {**pair, "dim": (["x", "-x", "y", "-y", "t", "-t"],)}}

    def concat(self, samples1, samples2, dim):
        first = samples1["samples"]
        parts = [first, repeat_to_batch(samples2["samples"], first.shape[0])]
        if dim.startswith("-"):
            parts.reverse()
        return ({**samples1, "samples": torch.cat(parts, dim=-1 - "xyt".index(dim[-1]))},)


class LatentComposite:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "composite"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        place = {name: pixels(0, step=8) for name in ("x", "y", "feather")}
        return {"required": {"samples_to": ("LATENT",), "samples_from": ("LATENT",), **place}}

    def composite(self, samples_to, samples_from, x, y, feather=0):
        """Edges that lie inside the destination fade in over `feather` pixels."""
        below = samples_to["samples"]
        x, y, feather = x // CELL, y // CELL, feather // CELL
        above = samples_from["samples"][..., : below.shape[-2] - y, : below.shape[-1] - x]
        rows, columns = above.shape[-2:]
        mask = None
        if feather:
            down = _fade(rows, feather, y != 0, y + rows < below.shape[-2])
            across = _fade(columns, feather, x != 0, x + columns < below.shape[-1])
            mask = torch.outer(down, across)
        return ({**samples_to, "samples": paste(below, above, x, y, mask)},)


def _fade(length: int, feather: int, near: bool, far: bool) -> torch.Tensor:
    """Weights along one side: a linear ramp of `feather` cells at the ends that fade."""
    ramp = (torch.arange(1, length + 1) / feather).clamp(max=1)
    weights = torch.ones(length)
    if near:
        weights *= ramp
    if far:
        weights *= ramp.flip(0)
    return weights


class LatentCompositeMasked:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "composite"
    CATEGORY = "latent"

    @classmethod
    def INPUT_TYPES(cls):
        place = {"x": pixels(0, step=8), "y": pixels(0, step=8), "resize_source": toggle(False)}
        return {
            "required": {"destination": ("LATENT",), "source": ("LATENT",), **place},
            "optional": {"mask": ("MASK",)},
        }

    def composite(self, destination, source, x, y, resize_source, mask=None):
        place = x // CELL, y // CELL
        result = paste(destination["samples"], source["samples"], *place, mask, resize_source)
        return ({**destination, "samples": result},)


class SetLatentNoiseMask:
    RETURN_TYPES = ("LATENT",)
    FUNCTION = "set_mask"
    CATEGORY = "latent/inpaint"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"samples": ("LATENT",), "mask": ("MASK",)}}

    def set_mask(self, samples, mask):
        return ({**samples, "noise_mask": mask.reshape(-1, 1, *mask.shape[-2:])},)


NODES = {
    "EmptyLatentImage": EmptyLatentImage,
    "EmptySD3LatentImage": EmptySD3LatentImage,
    "EmptyHunyuanLatentVideo": EmptyHunyuanLatentVideo,
    "TrimVideoLatent": TrimVideoLatent,
    "LatentUpscale": LatentUpscale,
    "LatentUpscaleBy": LatentUpscaleBy,
    "LatentRotate": LatentRotate,
    "LatentFlip": LatentFlip,
    "LatentCrop": LatentCrop,
    "LatentCut": LatentCut,
    "LatentConcat": LatentConcat,
    "LatentComposite": LatentComposite,
    "LatentCompositeMasked": LatentCompositeMasked,
    "SetLatentNoiseMask": SetLatentNoiseMask,
}

DISPLAY_NAMES = {
    "EmptyLatentImage": "Empty Latent Image",
    "LatentUpscale": "Upscale Latent",
    "LatentUpscaleBy": "Upscale Latent By",
    "LatentRotate": "Rotate Latent",
    "LatentFlip": "Flip Latent",
    "LatentCrop": "Crop Latent",
    "LatentComposite": "Latent Composite",
    "SetLatentNoiseMask": "Set Latent Noise Mask",
}
