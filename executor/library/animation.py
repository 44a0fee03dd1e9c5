"""Nodes that save a batch of images as one animated picture."""

from __future__ import annotations

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from .inputs import SAVE_HIDDEN, integer, real, toggle
from .pixels import to_picture
from .saving import Series, embedded


class _SaveAnimated:
    RETURN_TYPES = ()
    FUNCTION = "save_images"
    CATEGORY = "image/animation"
    OUTPUT_NODE = True

    COMMON = {
        "images": ("IMAGE",),
        "filename_prefix": ("STRING", {"default": "ComfyUI"}),
        "fps": real(6.0, 0.01, 1000.0),
    }

    @staticmethod
    def save(images, filename_prefix: str, suffix: str, fps: float, **options) -> dict:
        first, *others = [to_picture(image) for image in images]
        options |= {"save_all": True, "append_images": others, "duration": int(1000 / fps)}
        series = Series(filename_prefix, "output", images.shape[2], images.shape[1])
        saved = series.save(suffix, lambda path: first.save(path, suffix[1:].upper(), **options))
        return {"ui": {"images": [saved], "animated": (len(images) != 1,)}}


class SaveAnimatedPNG(_SaveAnimated):
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {**cls.COMMON, "compress_level": integer(4, 0, 9)}, "hidden": SAVE_HIDDEN}

    def save_images(self, images, filename_prefix, fps, compress_level, prompt=None, extra_pnginfo=None):
        """The workflow goes into `comf` chunks behind the frames: key, NUL, JSON."""
        info = PngInfo()
        for key, value in embedded(prompt, extra_pnginfo).items():
            info.add(b"comf", f"{key}\0{value}".encode("latin-1"), after_idat=True)
        return self.save(images, filename_prefix, ".png", fps, pnginfo=info, compress_level=compress_level)


class SaveAnimatedWEBP(_SaveAnimated):
    METHODS = {"default": 4, "fastest": 0, "slowest": 6}
    # EXIF's "Model" holds the prompt; "Make" and the tags below it the rest.
    PROMPT_TAG, EXTRA_TAG = 0x0110, 0x010F

    @classmethod
    def INPUT_TYPES(cls):
        encoding = {"lossless": toggle(True), "quality": integer(80, 0, 100), "method": (list(cls.METHODS),)}
        return {"required": {**cls.COMMON, **encoding}, "hidden": SAVE_HIDDEN}

    def save_images(
        self, images, filename_prefix, fps, lossless, quality, method, prompt=None, extra_pnginfo=None
    ):
        exif = Image.Exif()
        entries = embedded(prompt, extra_pnginfo)
        if "prompt" in entries:
            exif[self.PROMPT_TAG] = f"prompt:{entries.pop('prompt')}"
        for index, (key, value) in enumerate(entries.items()):
            exif[self.EXTRA_TAG - index] = f"{key}:{value}"
        encoding = {"lossless": lossless, "quality": quality, "method": self.METHODS[method]}
        return self.save(images, filename_prefix, ".webp", fps, exif=exif, **encoding)


NODES = {"SaveAnimatedPNG": SaveAnimatedPNG, "SaveAnimatedWEBP": SaveAnimatedWEBP}

DISPLAY_NAMES = {}
