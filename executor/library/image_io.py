"""Nodes that read and write picture files, with the workflow inside as ComfyUI writes it."""

from __future__ import annotations

import mimetypes
import random
import string

import torch
from PIL import Image, ImageOps, ImageSequence
from PIL.PngImagePlugin import PngInfo

from .. import context
from ..models import folders
from .inputs import SAVE_HIDDEN
from .mask import as_image
from .pixels import from_picture, to_picture
from .reading import content_hash, validated
from .saving import Series, embedded

NO_ALPHA = (64, 64)  # the size of the empty mask that an opaque picture gives


def read_frames(name: str, node: str) -> list[Image.Image]:
    """The frames of a picture in the input directory, turned upright; one, for all but animations.

    Raises ValueError for what is not a whole picture.
    """
    path = folders.input_file(name)
    try:
        with Image.open(path) as picture:
            frames = [ImageOps.exif_transpose(frame) for frame in ImageSequence.Iterator(picture)]
            # An MPO holds further views of one photograph (a depth map, the other eye), not an animation.
            is_animation = picture.format != "MPO"
    except Exception as error:  # damaged bytes make Pillow's readers fail in any way
        raise ValueError(f"{node}: {name!r} cannot be read as a picture: {error}") from error
    frames = [_eight_bit(frame) for frame in frames]
    return [frame for frame in frames if frame.size == frames[0].size] if is_animation else frames[:1]


def _eight_bit(frame: Image.Image) -> Image.Image:
    """Greys with 32 bits hold 16-bit levels; brought down by 1/255, as ComfyUI does."""
    return frame.point(lambda level: level * (1 / 255)) if frame.mode == "I" else frame


def _transparency(frame: Image.Image) -> torch.Tensor | None:
    """1 - alpha as [H, W]; None for an opaque picture."""
    if frame.mode == "P" and "transparency" in frame.info:
        frame = frame.convert("RGBA")
    if "A" not in frame.getbands():
        return None
    return 1 - _levels(frame, "A")


def _levels(frame: Image.Image, band: str) -> torch.Tensor:
    return from_picture(frame.getchannel(band)).squeeze(-1)


class LoadImage:
    RETURN_TYPES = ("IMAGE", "MASK")
    FUNCTION = "load_image"
    CATEGORY = "image"

    @classmethod
    def INPUT_TYPES(cls):
        names = [name for name in folders.input_names() if _is_picture(name)]
        return {"required": {"image": (names, {"image_upload": True})}}

    @classmethod
    def IS_CHANGED(cls, image):
        return content_hash(image)

    @classmethod
    def VALIDATE_INPUTS(cls, image):
        return validated(image, "image")

    def load_image(self, image):
        """IMAGE [frames, H, W, 3] and MASK [frames, H, W], 1 where transparent (64 x 64 zeros if opaque)."""
        frames = read_frames(image, type(self).__name__)
        masks = [_transparency(frame) for frame in frames]
        size = NO_ALPHA if all(mask is None for mask in masks) else frames[0].size[::-1]
        masks = [torch.zeros(size) if mask is None else mask for mask in masks]
        return (torch.stack([from_picture(frame.convert("RGB")) for frame in frames]), torch.stack(masks))


def _is_picture(name: str) -> bool:
    return (mimetypes.guess_type(name, strict=False)[0] or "").startswith("image/")


class LoadImageOutput(LoadImage):
    """The canvas asks the server for the list of files."""

    EXPERIMENTAL = True

    @classmethod
    def INPUT_TYPES(cls):
        route = {"route": "/internal/files/output", "refresh_button": True, "control_after_refresh": "first"}
        options = {"image_upload": True, "image_folder": "output", "remote": route}
        return {"required": {"image": ("COMBO", options)}}


class LoadImageMask:
    RETURN_TYPES = ("MASK",)
    FUNCTION = "load_image"
    CATEGORY = "mask"

    CHANNELS = ["alpha", "red", "green", "blue"]

    @classmethod
    def INPUT_TYPES(cls):
        image = (folders.input_names(), {"image_upload": True})
        return {"required": {"image": image, "channel": (cls.CHANNELS,)}}

    @classmethod
    def IS_CHANGED(cls, image, channel):
        return content_hash(image)

    @classmethod
    def VALIDATE_INPUTS(cls, image):
        return validated(image, "image")

    def load_image(self, image, channel):
        """The first frame's channel; for alpha, what is transparent."""
        frame = read_frames(image, "LoadImageMask")[0].convert("RGBA")
        levels = _levels(frame, channel[0].upper())
        return ((1 - levels if channel == "alpha" else levels).unsqueeze(0),)


class SaveImage:
    RETURN_TYPES = ()
    FUNCTION = "save_images"
    CATEGORY = "image"
    OUTPUT_NODE = True

    KIND = "output"
    COMPRESS_LEVEL = 4

    @classmethod
    def INPUT_TYPES(cls):
        prefix = ("STRING", {"default": "ComfyUI"})
        return {"required": {"images": ("IMAGE",), "filename_prefix": prefix}, "hidden": SAVE_HIDDEN}

    def save_images(self, images, filename_prefix="ComfyUI", prompt=None, extra_pnginfo=None):
        info = PngInfo()
        for key, value in embedded(prompt, extra_pnginfo).items():
            info.add_text(key, value)
        options = {"pnginfo": info, "compress_level": self.COMPRESS_LEVEL}
        series = Series(filename_prefix, self.KIND, images.shape[2], images.shape[1])
        saved = []
        for number, image in enumerate(images):
            context.check()
            picture = to_picture(image)
            saved.append(series.save(".png", lambda path, p=picture: p.save(path, "PNG", **options), number))
        return {"ui": {"images": saved}}


class PreviewImage(SaveImage):
    KIND = "temp"
    COMPRESS_LEVEL = 1

    def __init__(self):
        self.suffix = "_temp_" + "".join(random.choices(string.ascii_lowercase, k=5))

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"images": ("IMAGE",)}, "hidden": SAVE_HIDDEN}

    def save_images(self, images, filename_prefix="ComfyUI", prompt=None, extra_pnginfo=None):
        return super().save_images(images, filename_prefix + self.suffix, prompt, extra_pnginfo)


class MaskPreview(PreviewImage):
    FUNCTION = "preview_mask"
    CATEGORY = "mask"
    COMPRESS_LEVEL = 4

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"mask": ("MASK",)}, "hidden": SAVE_HIDDEN}

    def preview_mask(self, mask, prompt=None, extra_pnginfo=None):
        return self.save_images(as_image(mask), prompt=prompt, extra_pnginfo=extra_pnginfo)


NODES = {
    "LoadImage": LoadImage,
    "LoadImageOutput": LoadImageOutput,
    "LoadImageMask": LoadImageMask,
    "SaveImage": SaveImage,
    "PreviewImage": PreviewImage,
    "MaskPreview": MaskPreview,
}

DISPLAY_NAMES = {
    "LoadImage": "Load Image",
    "LoadImageOutput": "Load Image (from Outputs)",
    "LoadImageMask": "Load Image (as Mask)",
    "SaveImage": "Save Image",
    "PreviewImage": "Preview Image",
}
