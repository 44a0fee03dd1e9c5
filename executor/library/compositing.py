"""IMAGE nodes that put one image on or beside another, and alpha channels."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .inputs import integer, pixels, toggle
from .pixels import match_channels, paste, resize_mask
from .resample import resample_images

SPACING_COLORS = {
    "white": (1.0, 1.0, 1.0),
    "black": (0.0, 0.0, 0.0),
    "red": (1.0, 0.0, 0.0),
    "green": (0.0, 1.0, 0.0),
    "blue": (0.0, 0.0, 1.0),
}


class ImageCompositeMasked:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "composite"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        place = {"x": pixels(0), "y": pixels(0), "resize_source": toggle(False)}
        return {
            "required": {"destination": ("IMAGE",), "source": ("IMAGE",), **place},
            "optional": {"mask": ("MASK",)},
        }

    def composite(self, destination, source, x, y, resize_source, mask=None):
        source = match_channels(destination, source).movedim(-1, 1)
        return (paste(destination.movedim(-1, 1), source, x, y, mask, resize_source).movedim(1, -1),)


class JoinImageWithAlpha:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "join"
    CATEGORY = "mask/compositing"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "alpha": ("MASK",)}}

    def join(self, image, alpha):
        """The mask says what is transparent. The longer of the two batches is cut."""
        alpha = 1 - resize_mask(alpha, *image.shape[1:3]).movedim(1, -1)
        batch = min(len(image), len(alpha))
        return (torch.cat((image[:batch, ..., :3], alpha[:batch]), dim=-1),)


class SplitImageWithAlpha:
    RETURN_TYPES = ("IMAGE", "MASK")
    FUNCTION = "split"
    CATEGORY = "mask/compositing"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    def split(self, image):
        """The mask is what is transparent: 1 - alpha, nothing where the image has no alpha."""
        transparent = 1 - image[..., 3] if image.shape[-1] > 3 else torch.zeros_like(image[..., 0])
        return (image[..., :3], transparent)


class ImageStitch:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "stitch"
    CATEGORY = "image/transform"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "image1": ("IMAGE",),
                "direction": (["right", "down", "left", "up"], {"default": "right"}),
                "match_image_size": toggle(True),
                "spacing_width": integer(0, 0, 1024, 2),
                "spacing_color": (list(SPACING_COLORS), {"default": "white"}),
            },
            "optional": {"image2": ("IMAGE",)},
        }

    def stitch(self, image1, direction, match_image_size, spacing_width, spacing_color, image2=None):
        """`image2` beside `image1`, on the side `direction`; without it `image1` comes back unchanged."""
        if image2 is None:
            return (image1,)
        along = 2 if direction in ("left", "right") else 1
        color = SPACING_COLORS[spacing_color]
        batch = max(len(image1), len(image2))
        image1, image2 = _extend_batch(image1, batch), _extend_batch(image2, batch)
        if match_image_size:
            image2 = _match_side(image2, image1, along)
        else:
            # Only the greys fill the rim; next to a coloured strip it is black.
            rim = color[0] if len(set(color)) == 1 else 0.0
            side = max(image1.shape[3 - along], image2.shape[3 - along])
            image1, image2 = _center(image1, side, along, rim), _center(image2, side, along, rim)
        channels = max(image1.shape[-1], image2.shape[-1])
        parts = [_with_channels(image1, channels), _with_channels(image2, channels)]
        if spacing_width > 0:
            shape = list(parts[0].shape)
            shape[along] = spacing_width + spacing_width % 2
            strip = torch.tensor([*color, 1.0])[:channels].to(image1)
            parts.insert(1, strip.expand(shape))
        if direction in ("left", "up"):
            parts.reverse()
        return (torch.cat(parts, dim=along),)


def _extend_batch(image: torch.Tensor, size: int) -> torch.Tensor:
    """Repeat the last image until there are `size`."""
    return torch.cat((image, image[-1:].expand(size - len(image), -1, -1, -1)))


def _match_side(image: torch.Tensor, other: torch.Tensor, along: int) -> torch.Tensor:
    """`image` resized so that the sides that will touch are equally long; aspect ratio kept."""
    rows, columns = other.shape[1:3]
    aspect = image.shape[2] / image.shape[1]
    width, height = (int(rows * aspect), rows) if along == 2 else (columns, int(columns / aspect))
    return resample_images(image, width, height, "lanczos")


def _center(image: torch.Tensor, side: int, along: int, value: float) -> torch.Tensor:
    """Padded to `side` pixels across the stitching direction."""
    missing = side - image.shape[3 - along]
    before, after = missing // 2, missing - missing // 2
    padding = (0, 0, 0, 0, before, after) if along == 2 else (0, 0, before, after)
    return F.pad(image, padding, value=value)


def _with_channels(image: torch.Tensor, channels: int) -> torch.Tensor:
    return F.pad(image, (0, channels - image.shape[-1]), value=1.0)


NODES = {
    "ImageCompositeMasked": ImageCompositeMasked,
    "JoinImageWithAlpha": JoinImageWithAlpha,
    "SplitImageWithAlpha": SplitImageWithAlpha,
    "ImageStitch": ImageStitch,
}

DISPLAY_NAMES = {
    "JoinImageWithAlpha": "Join Image with Alpha",
    "SplitImageWithAlpha": "Split Image with Alpha",
    "ImageStitch": "Image Stitch",
}
