"""MASK nodes. A mask is float32 [B, H, W] in 0..1; 1 is selected."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .inputs import MAX_RESOLUTION, integer, pixels, real, toggle

CHANNELS = ["red", "green", "blue", "alpha"]
COLOR = integer(0, 0, 0xFFFFFF, 1, display="color")


def batched(mask: torch.Tensor) -> torch.Tensor:
    """[B, H, W] of a mask with any leading dimensions."""
    return mask.reshape(-1, *mask.shape[-2:])


def as_image(mask: torch.Tensor) -> torch.Tensor:
    return batched(mask).unsqueeze(-1).expand(-1, -1, -1, 3)


class MaskToImage:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "mask_to_image"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mask": ("MASK",)}}

    def mask_to_image(self, mask):
        return (as_image(mask),)


class ImageToMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "image_to_mask"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "channel": (CHANNELS,)}}

    def image_to_mask(self, image, channel):
        index = CHANNELS.index(channel)
        if index >= image.shape[-1]:
            raise ValueError(f"ImageToMask: the image has {image.shape[-1]} channels and no {channel} one")
        return (image[..., index],)


class ImageColorToMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "image_to_mask"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "color": COLOR}}

    def image_to_mask(self, image, color):
        levels = (image[..., :3].clamp(0, 1) * 255).round().int()
        wanted = torch.tensor([color >> 16, color >> 8 & 0xFF, color & 0xFF], device=image.device)
        return ((levels == wanted).all(-1).float(),)


class SolidMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "solid"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": real(1.0, 0.0, 1.0), "width": pixels(512, 1), "height": pixels(512, 1)}}

    def solid(self, value, width, height):
        return (torch.full((1, height, width), float(value)),)


class InvertMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "invert"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mask": ("MASK",)}}

    def invert(self, mask):
        return (1.0 - mask,)


class CropMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "crop"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, 1), "height": pixels(512, 1)}
        return {"required": {"mask": ("MASK",), "x": pixels(0), "y": pixels(0), **sides}}

    def crop(self, mask, x, y, width, height):
        return (batched(mask)[:, y : y + height, x : x + width],)


class MaskComposite:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "combine"
    CATEGORY = "mask"

    OPERATIONS = {
        "multiply": torch.mul,
        "add": torch.add,
        "subtract": torch.sub,
        "and": lambda a, b: (a.round().bool() & b.round().bool()).float(),
        "or": lambda a, b: (a.round().bool() | b.round().bool()).float(),
        "xor": lambda a, b: (a.round().bool() ^ b.round().bool()).float(),
    }

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"destination": ("MASK",), "source": ("MASK",)}
        return {"required": {**pair, "x": pixels(0), "y": pixels(0), "operation": (list(cls.OPERATIONS),)}}

    def combine(self, destination, source, x, y, operation):
        out = batched(destination).clone()
        covered = out[:, y : y + source.shape[-2], x : x + source.shape[-1]]  # a view: written through
        seen = batched(source)[:, : covered.shape[1], : covered.shape[2]]
        covered.copy_(self.OPERATIONS[operation](covered, seen))
        return (out.clamp(0, 1),)


class FeatherMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "feather"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        edges = {edge: pixels(0) for edge in ("left", "top", "right", "bottom")}
        return {"required": {"mask": ("MASK",), **edges}}

    def feather(self, mask, left, top, right, bottom):
        """Let the mask rise linearly from each edge.

        As in ComfyUI the first step counted from the right or bottom is index 0, so the weakest weight
        lands on the opposite edge: workflows are tuned to that picture.
        """
        out = batched(mask).clone()
        for dim, near, far in ((2, left, right), (1, top, bottom)):
            size = out.shape[dim]
            for length, sign in ((min(near, size), 1), (min(far, size), -1)):
                steps = torch.arange(length)
                weights = torch.ones(size)
                weights[sign * steps] = (steps + 1) / length
                out *= weights.reshape([-1 if d == dim else 1 for d in range(3)])
        return (out,)


class GrowMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "expand_mask"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        expand = integer(0, -MAX_RESOLUTION, MAX_RESOLUTION, 1)
        return {"required": {"mask": ("MASK",), "expand": expand, "tapered_corners": toggle(True)}}

    def expand_mask(self, mask, expand, tapered_corners):
        """Grey dilation `expand` pixels wide, erosion where negative: by a diamond, or by a square."""
        sign = -1 if expand < 0 else 1
        out = sign * batched(mask).unsqueeze(1)
        if tapered_corners:
            for _ in range(min(abs(expand), out.shape[-1] + out.shape[-2])):
                out = torch.maximum(_dilate(out, 1, 0), _dilate(out, 0, 1))
        else:
            out = _dilate(out, min(abs(expand), out.shape[-2]), 0)
            out = _dilate(out, 0, min(abs(expand), out.shape[-1]))
        return (sign * out.squeeze(1),)


def _dilate(mask: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The greatest value within `rows` up and down and `columns` left and right. [B, 1, H, W]."""
    return F.max_pool2d(mask, (2 * rows + 1, 2 * columns + 1), stride=1, padding=(rows, columns))


class ThresholdMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "threshold"
    CATEGORY = "mask"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mask": ("MASK",), "value": real(0.5, 0.0, 1.0)}}

    def threshold(self, mask, value):
        return ((mask > value).float(),)


NODES = {
    "MaskToImage": MaskToImage,
    "ImageToMask": ImageToMask,
    "ImageColorToMask": ImageColorToMask,
    "SolidMask": SolidMask,
    "InvertMask": InvertMask,
    "CropMask": CropMask,
    "MaskComposite": MaskComposite,
    "FeatherMask": FeatherMask,
    "GrowMask": GrowMask,
    "ThresholdMask": ThresholdMask,
}

DISPLAY_NAMES = {
    "MaskToImage": "Convert Mask to Image",
    "ImageToMask": "Convert Image to Mask",
}
