"""Shorthand for the (type, options) pairs that INPUT_TYPES is made of."""

from __future__ import annotations

MAX_RESOLUTION = 16384  # ComfyUI's limit for a side, in pixels

SAVE_HIDDEN = {"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"}


class _Anything(str):
    """A type that links to every other: engines compare types with `!=`."""

    def __ne__(self, other: object) -> bool:
        return False


ANY = _Anything("*")


def integer(default: int, low: int, high: int, step: int | None = None, **options):
    return ("INT", _range(default, low, high, step) | options)


def real(default: float, low: float, high: float, step: float = 0.01, **options):
    return ("FLOAT", _range(default, low, high, step) | options)


def pixels(default: int, low: int = 0, step: int = 1):
    """A length or position in pixels."""
    return integer(default, low, MAX_RESOLUTION, step)


def toggle(default: bool):
    return ("BOOLEAN", {"default": default})


def text(multiline: bool = True):
    return ("STRING", {"multiline": multiline})


def _range(default, low, high, step):
    limits = {"default": default, "min": low, "max": high}
    return limits if step is None else limits | {"step": step}
