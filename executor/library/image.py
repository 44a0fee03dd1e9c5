"""IMAGE nodes that make, resize, cut and stack images. An image is float32 [B, H, W, C] in 0..1."""

from __future__ import annotations

import math

import torch

from .inputs import integer, pixels, real
from .latent import FLIPS, ROTATIONS
from .mask import COLOR
from .resample import CROPS, IMAGE_METHODS, resample_images

# Sides that FLUX.1 Kontext was trained on; a width goes with the height opposite, near one megapixel.
KONTEXT_SIDES = (
    *(672, 688, 720, 752, 800, 832, 880, 944, 1024),
    *(1104, 1184, 1248, 1328, 1392, 1456, 1504, 1568),
)


class EmptyImage:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "generate"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, 1), "height": pixels(512, 1)}
        return {"required": {**sides, "batch_size": integer(1, 1, 4096), "color": COLOR}}

    def generate(self, width, height, batch_size=1, color=0):
        rgb = torch.tensor([color >> 16, color >> 8 & 0xFF, color & 0xFF]) / 255
        return (rgb.repeat(batch_size, height, width, 1),)


class ImageScale:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "upscale"
    CATEGORY = "image/upscaling"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512), "height": pixels(512)}
        method = {"image": ("IMAGE",), "upscale_method": (IMAGE_METHODS,)}
        return {"required": {**method, **sides, "crop": (CROPS,)}}

    def upscale(self, image, upscale_method, width, height, crop):
        """A side of 0 follows from the other by the aspect ratio; both 0 leaves the image alone."""
        if width == height == 0:
            return (image,)
        rows, columns = image.shape[1:3]
        size = (
            width or max(1, round(columns * height / rows)),
            height or max(1, round(rows * width / columns)),
        )
        return (resample_images(image, *size, upscale_method, crop),)


class ImageScaleBy:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "upscale"
    CATEGORY = "image/upscaling"

    @classmethod
    def INPUT_TYPES(cls):
        scale = {"upscale_method": (IMAGE_METHODS,), "scale_by": real(1.0, 0.01, 8.0)}
        return {"required": {"image": ("IMAGE",), **scale}}

    def upscale(self, image, upscale_method, scale_by):
        rows, columns = image.shape[1:3]
        return (resample_images(image, round(columns * scale_by), round(rows * scale_by), upscale_method),)


class ImageScaleToTotalPixels:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "upscale"
    CATEGORY = "image/upscaling"

    @classmethod
    def INPUT_TYPES(cls):
        scale = {"upscale_method": (IMAGE_METHODS,), "megapixels": real(1.0, 0.01, 16.0)}
        return {"required": {"image": ("IMAGE",), **scale}}

    def upscale(self, image, upscale_method, megapixels):
        """A megapixel is 1024 x 1024."""
        rows, columns = image.shape[1:3]
        scale = math.sqrt(int(megapixels * 1024 * 1024) / (rows * columns))
        return (resample_images(image, round(columns * scale), round(rows * scale), upscale_method),)


class ImageScaleToMaxDimension:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "upscale"
    CATEGORY = "image/upscaling"

    @classmethod
    def INPUT_TYPES(cls):
        methods = (["area", "lanczos", "bilinear", "nearest-exact", "bicubic"],)
        return {"required": {"image": ("IMAGE",), "upscale_method": methods, "largest_size": pixels(512)}}

    def upscale(self, image, upscale_method, largest_size):
        rows, columns = image.shape[1:3]
        size = (round(side / max(rows, columns) * largest_size) for side in (columns, rows))
        return (resample_images(image, *size, upscale_method),)


class FluxKontextImageScale:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "scale"
    CATEGORY = "advanced/conditioning/flux"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    def scale(self, image):
        """To the training size whose aspect ratio is nearest."""
        aspect = image.shape[2] / image.shape[1]
        sizes = zip(KONTEXT_SIDES, reversed(KONTEXT_SIDES), strict=True)
        width, height = min(sizes, key=lambda size: abs(size[0] / size[1] - aspect))
        return (resample_images(image, width, height, "lanczos", "center"),)


class ResizeAndPadImage:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "resize_and_pad"
    CATEGORY = "image/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "image": ("IMAGE",),
                "target_width": pixels(512, 1),
                "target_height": pixels(512, 1),
                "padding_color": (["white", "black"],),
                "interpolation": (["area", "bicubic", "nearest-exact", "bilinear", "lanczos"],),
            }
        }

    def resize_and_pad(self, image, target_width, target_height, padding_color, interpolation):
        batch, rows, columns, channels = image.shape
        scale = min(target_width / columns, target_height / rows)
        width, height = int(columns * scale), int(rows * scale)
        shape = (batch, target_height, target_width, channels)
        out = torch.full(shape, float(padding_color == "white"), dtype=image.dtype, device=image.device)
        top, left = (target_height - height) // 2, (target_width - width) // 2
        resized = resample_images(image, width, height, interpolation)
        out[:, top : top + height, left : left + width] = resized
        return (out,)


class ImagePadForOutpaint:
    RETURN_TYPES = ("IMAGE", "MASK")
    FUNCTION = "expand_image"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        edges = {edge: pixels(0, step=8) for edge in ("left", "top", "right", "bottom")}
        return {"required": {"image": ("IMAGE",), **edges, "feathering": pixels(40)}}

    def expand_image(self, image, left, top, right, bottom, feathering):
        """Grey around the image; the mask is 1 there and falls off quadratically into the image."""
        batch, rows, columns, channels = image.shape
        shape = (batch, rows + top + bottom, columns + left + right, channels)
        out = torch.full(shape, 0.5)
        inner = (slice(top, top + rows), slice(left, left + columns))
        out[:, inner[0], inner[1]] = image
        mask = torch.ones(shape[1:3])
        mask[inner] = 0
        if feathering > 0 and feathering * 2 < min(rows, columns):
            down, across = _distance(rows, top, bottom).unsqueeze(1), _distance(columns, left, right)
            mask[inner] = (1 - torch.minimum(down, across) / feathering).clamp(min=0) ** 2
        return (out, mask.unsqueeze(0))


def _distance(length: int, before: int, after: int) -> torch.Tensor:
    """Pixels from each position to the nearest end that was extended."""
    index = torch.arange(length)
    far = torch.full((length,), length)
    return torch.minimum(index if before else far, length - index if after else far)


class ImageCrop:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "crop"
    CATEGORY = "image/transform"

    @classmethod
    def INPUT_TYPES(cls):
        sides = {"width": pixels(512, 1), "height": pixels(512, 1)}
        return {"required": {"image": ("IMAGE",), **sides, "x": pixels(0), "y": pixels(0)}}

    def crop(self, image, width, height, x, y):
        """The corner moves in so far that at least one pixel remains."""
        x, y = min(x, image.shape[2] - 1), min(y, image.shape[1] - 1)
        return (image[:, y : y + height, x : x + width],)


class ImageFlip:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "flip"
    CATEGORY = "image/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "flip_method": (FLIPS,)}}

    def flip(self, image, flip_method):
        return (image.flip(1 if flip_method == FLIPS[0] else 2),)


class ImageRotate:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "rotate"
    CATEGORY = "image/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "rotation": (ROTATIONS,)}}

    def rotate(self, image, rotation):
        return (torch.rot90(image, ROTATIONS.index(rotation), (2, 1)),)


class ImageBatch:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "batch"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image1": ("IMAGE",), "image2": ("IMAGE",)}}

    def batch(self, image1, image2):
        if image1.shape[1:] != image2.shape[1:]:
            image2 = resample_images(image2, image1.shape[2], image1.shape[1], "bilinear", "center")
        return (torch.cat((image1, image2)),)


class ImageFromBatch:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "frombatch"
    CATEGORY = "image/batch"

    @classmethod
    def INPUT_TYPES(cls):
        span = {"batch_index": integer(0, 0, 4095), "length": integer(1, 1, 4096)}
        return {"required": {"image": ("IMAGE",), **span}}

    def frombatch(self, image, batch_index, length):
        start = min(batch_index, image.shape[0] - 1)
        return (image[start : start + length].clone(),)


class RepeatImageBatch:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "repeat"
    CATEGORY = "image/batch"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "amount": integer(1, 1, 4096)}}

    def repeat(self, image, amount):
        return (image.repeat(amount, 1, 1, 1),)


class GetImageSize:
    RETURN_TYPES = ("INT", "INT", "INT")
    RETURN_NAMES = ("width", "height", "batch_size")
    FUNCTION = "get_size"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    def get_size(self, image):
        batch, height, width, _ = image.shape
        return (width, height, batch)


NODES = {
    "EmptyImage": EmptyImage,
    "ImageScale": ImageScale,
    "ImageScaleBy": ImageScaleBy,
    "ImageScaleToTotalPixels": ImageScaleToTotalPixels,
    "ImageScaleToMaxDimension": ImageScaleToMaxDimension,
    "FluxKontextImageScale": FluxKontextImageScale,
    "ResizeAndPadImage": ResizeAndPadImage,
    "ImagePadForOutpaint": ImagePadForOutpaint,
    "ImageCrop": ImageCrop,
    "ImageFlip": ImageFlip,
    "ImageRotate": ImageRotate,
    "ImageBatch": ImageBatch,
    "ImageFromBatch": ImageFromBatch,
    "RepeatImageBatch": RepeatImageBatch,
    "GetImageSize": GetImageSize,
}

DISPLAY_NAMES = {
    "ImageScale": "Upscale Image",
    "ImageScaleBy": "Upscale Image By",
    "ImageScaleToTotalPixels": "Scale Image to Total Pixels",
    "ImagePadForOutpaint": "Pad Image for Outpainting",
    "ImageCrop": "Image Crop",
    "ImageBatch": "Batch Images",
    "GetImageSize": "Get Image Size",
}
