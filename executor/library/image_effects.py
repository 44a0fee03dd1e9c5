"""IMAGE nodes that change colours: blend, blur, sharpen, quantise, noise."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from .inputs import integer, real
from .pixels import from_picture, match_channels
from .resample import resample_images


def _soft_light(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """W3C Compositing and Blending Level 1, section 10.1.10; `b` is the source."""
    lightened = torch.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, a.sqrt())
    return torch.where(b <= 0.5, a - (1 - 2 * b) * a * (1 - a), a + (2 * b - 1) * (lightened - a))


def _overlay(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))


BLENDS = {
    "normal": lambda a, b: b,
    "multiply": torch.mul,
    "screen": lambda a, b: 1 - (1 - a) * (1 - b),
    "overlay": _overlay,
    "soft_light": _soft_light,
    "difference": torch.sub,  # signed, as ComfyUI has it; what is negative after mixing is cut off
}


class ImageBlend:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "blend"
    CATEGORY = "image/postprocessing"

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"image1": ("IMAGE",), "image2": ("IMAGE",)}
        return {"required": {**pair, "blend_factor": real(0.5, 0.0, 1.0), "blend_mode": (list(BLENDS),)}}

    def blend(self, image1, image2, blend_factor, blend_mode):
        image2 = match_channels(image1, image2.to(image1.device))
        if image1.shape != image2.shape:
            image2 = resample_images(image2, image1.shape[2], image1.shape[1], "bicubic", "center")
        blended = BLENDS[blend_mode](image1, image2)
        return ((image1 * (1 - blend_factor) + blended * blend_factor).clamp(0, 1),)


class ImageInvert:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "invert"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    def invert(self, image):
        return (1.0 - image,)


class ImageBlur:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "blur"
    CATEGORY = "image/postprocessing"

    @classmethod
    def INPUT_TYPES(cls):
        shape = {"blur_radius": integer(1, 1, 31, 1), "sigma": real(1.0, 0.1, 10.0, 0.1)}
        return {"required": {"image": ("IMAGE",), **shape}}

    def blur(self, image, blur_radius, sigma):
        return (_convolve(image, _gaussian(blur_radius, sigma), "ImageBlur"),)


class ImageSharpen:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "sharpen"
    CATEGORY = "image/postprocessing"

    @classmethod
    def INPUT_TYPES(cls):
        shape = {"sharpen_radius": integer(1, 1, 31, 1), "sigma": real(1.0, 0.1, 10.0)}
        return {"required": {"image": ("IMAGE",), **shape, "alpha": real(1.0, 0.0, 5.0)}}

    def sharpen(self, image, sharpen_radius, sigma, alpha):
        """Adds 10 `alpha` times the difference to a blurred image."""
        kernel = _gaussian(sharpen_radius, sigma) * (-10 * alpha)
        kernel[sharpen_radius, sharpen_radius] += 1 - kernel.sum()
        return (_convolve(image, kernel, "ImageSharpen").clamp(0, 1),)


def _gaussian(radius: int, sigma: float) -> torch.Tensor:
    """A normalised [2r+1, 2r+1] kernel; `sigma` is in units of the radius."""
    axis = torch.linspace(-1, 1, 2 * radius + 1)
    kernel = torch.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / (2 * sigma**2))
    return kernel / kernel.sum()


def _convolve(image: torch.Tensor, kernel: torch.Tensor, node: str) -> torch.Tensor:
    """Each channel with the same kernel; the image is mirrored at its edges."""
    radius = kernel.shape[0] // 2
    if radius >= min(image.shape[1:3]):
        raise ValueError(f"{node}: a radius of {radius} needs an image of more than {radius} pixels each way")
    channels = image.shape[-1]
    padded = F.pad(image.movedim(-1, 1), [radius] * 4, "reflect")
    kernel = kernel.to(image).expand(channels, 1, -1, -1)
    return F.conv2d(padded, kernel, groups=channels).movedim(1, -1)


class ImageQuantize:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "quantize"
    CATEGORY = "image/postprocessing"

    DITHERS = ["none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16"]

    @classmethod
    def INPUT_TYPES(cls):
        palette = {"colors": integer(256, 1, 256, 1), "dither": (cls.DITHERS,)}
        return {"required": {"image": ("IMAGE",), **palette}}

    def quantize(self, image, colors, dither):
        """Each image gets a palette of its own (median cut); alpha is left alone."""
        out = image.clone()
        for index, levels in enumerate((image[..., :3] * 255).to(torch.uint8)):
            picture = Image.fromarray(levels.numpy())
            palette = picture.quantize(colors)
            method = Image.Dither.NONE
            if dither == "floyd-steinberg":
                method = Image.Dither.FLOYDSTEINBERG
            elif dither.startswith("bayer"):
                picture = _ordered(levels, int(dither.removeprefix("bayer-")), len(palette.getpalette()) // 3)
            quantized = picture.quantize(palette=palette, dither=method)
            out[index, ..., :3] = from_picture(quantized.convert("RGB"))
        return (out,)


def _ordered(levels: torch.Tensor, order: int, colors: int) -> Image.Image:
    """`levels` [H, W, 3] with an `order` x `order` Bayer matrix added, as wide as a palette step."""
    threshold = np.zeros((1, 1), np.float32)
    while len(threshold) < order:
        size = 4 * len(threshold) ** 2
        scaled = size * threshold
        blocks = [[scaled - 1.5, scaled + 0.5], [scaled + 1.5, scaled - 0.5]]
        threshold = np.block(blocks) / size
    height, width, _ = levels.shape
    tiled = np.tile(threshold, (-(-height // order), -(-width // order)))[:height, :width, None]
    dithered = levels.numpy() + (2 * 256 / colors * tiled + 0.5)
    return Image.fromarray(dithered.clip(0, 255).astype(np.uint8))


class ImageAddNoise:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "add_noise"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        seed = integer(0, 0, 2**64 - 1, control_after_generate=True)
        return {"required": {"image": ("IMAGE",), "seed": seed, "strength": real(0.5, 0.0, 1.0)}}

    def add_noise(self, image, seed, strength):
        noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(seed)).to(image)
        return ((image + strength * noise).clamp(0, 1),)


NODES = {
    "ImageBlend": ImageBlend,
    "ImageInvert": ImageInvert,
    "ImageBlur": ImageBlur,
    "ImageSharpen": ImageSharpen,
    "ImageQuantize": ImageQuantize,
    "ImageAddNoise": ImageAddNoise,
}

DISPLAY_NAMES = {
    "ImageBlend": "Image Blend",
    "ImageInvert": "Invert Image",
    "ImageBlur": "Image Blur",
    "ImageSharpen": "Image Sharpen",
    "ImageQuantize": "Image Quantize",
}
