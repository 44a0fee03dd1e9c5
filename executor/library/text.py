"""Nodes that turn prompts into CONDITIONING."""

from __future__ import annotations

from .conditioning import with_values
from .inputs import integer, pixels, real

PROMPT = ("STRING", {"multiline": True, "dynamicPrompts": True})
GUIDANCE = real(3.5, 0.0, 100.0, 0.1)


def checked(clip):
    """A CLIP input, which is None where a checkpoint holds no text encoder."""
    if clip is None:
        raise ValueError(
            "clip: the checkpoint that this comes from holds no complete text encoder; "
            "load one with CLIPLoader, DualCLIPLoader or TripleCLIPLoader"
        )
    return clip


class CLIPTextEncode:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "encode"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"text": PROMPT, "clip": ("CLIP",)}}

    def encode(self, clip, text):
        clip = checked(clip)
        return (clip.encode(clip.tokenize(text)),)


class CLIPTextEncodeFlux:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "encode"
    CATEGORY = "advanced/conditioning/flux"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"clip": ("CLIP",), "clip_l": PROMPT, "t5xxl": PROMPT, "guidance": GUIDANCE}}

    def encode(self, clip, clip_l, t5xxl, guidance):
        """A model without T5 takes `clip_l` alone."""
        clip = checked(clip)
        return (clip.encode(clip.tokenize({"l": clip_l, "t5xxl": t5xxl}), guidance=guidance),)


class CLIPTextEncodeSDXL:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "encode"
    CATEGORY = "advanced/conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "clip": ("CLIP",),
                "width": pixels(1024, step=None),
                "height": pixels(1024, step=None),
                "crop_w": pixels(0, step=None),
                "crop_h": pixels(0, step=None),
                "target_width": pixels(1024, step=None),
                "target_height": pixels(1024, step=None),
                "text_g": PROMPT,
                "text_l": PROMPT,
            }
        }

    def encode(self, clip, text_g, text_l, **sizes):
        clip = checked(clip)
        tokens = clip.tokenize({"g": text_g, "l": text_l})
        return (clip.encode(_equally_long(clip, tokens), **sizes),)


class CLIPTextEncodeSD3:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "encode"
    CATEGORY = "advanced/conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        padding = ("COMBO", {"multiselect": False, "options": ["none", "empty_prompt"]})
        texts = {"clip_l": PROMPT, "clip_g": PROMPT, "t5xxl": PROMPT}
        return {"required": {"clip": ("CLIP",), **texts, "empty_padding": padding}}

    def encode(self, clip, clip_l, clip_g, t5xxl, empty_padding):
        """`empty_padding` "none": a text model whose prompt is empty is left out."""
        clip = checked(clip)
        texts = {"l": clip_l, "g": clip_g, "t5xxl": t5xxl}
        tokens = clip.tokenize(texts)
        if empty_padding == "none":
            tokens = {name: chunks if texts[name] else [] for name, chunks in tokens.items()}
        return (clip.encode(_equally_long(clip, tokens)),)


def _equally_long(clip, tokens):
    """As many chunks for CLIP-L as for CLIP-G, filled up with empty prompts."""
    if "l" not in tokens or "g" not in tokens:
        return tokens
    longest = max(len(tokens["l"]), len(tokens["g"]))
    empty = clip.tokenize("")
    fill = {name: empty[name] * (longest - len(tokens[name])) for name in ("l", "g")}
    return {**tokens, **{name: [*tokens[name], *fill[name]] for name in fill}}


class CLIPSetLastLayer:
    RETURN_TYPES = ("CLIP",)
    FUNCTION = "set_last_layer"
    CATEGORY = "conditioning"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"clip": ("CLIP",), "stop_at_clip_layer": integer(-1, -24, -1, 1)}}

    def set_last_layer(self, clip, stop_at_clip_layer):
        return (checked(clip).with_last_layer(stop_at_clip_layer),)


class FluxGuidance:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "append"
    CATEGORY = "advanced/conditioning/flux"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning": ("CONDITIONING",), "guidance": GUIDANCE}}

    def append(self, conditioning, guidance):
        return (with_values(conditioning, guidance=guidance),)


class FluxDisableGuidance:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "append"
    CATEGORY = "advanced/conditioning/flux"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"conditioning": ("CONDITIONING",)}}

    def append(self, conditioning):
        return (with_values(conditioning, guidance=None),)


NODES = {
    "CLIPTextEncode": CLIPTextEncode,
    "CLIPTextEncodeFlux": CLIPTextEncodeFlux,
    "CLIPTextEncodeSDXL": CLIPTextEncodeSDXL,
    "CLIPTextEncodeSD3": CLIPTextEncodeSD3,
    "CLIPSetLastLayer": CLIPSetLastLayer,
    "FluxGuidance": FluxGuidance,
    "FluxDisableGuidance": FluxDisableGuidance,
}

DISPLAY_NAMES = {
    "CLIPTextEncode": "CLIP Text Encode (Prompt)",
    "CLIPSetLastLayer": "CLIP Set Last Layer",
}
