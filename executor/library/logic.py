"""Values typed into the workflow, and nodes that pass on or choose among whatever they are given."""

from __future__ import annotations

import json
import sys

from .inputs import ANY, text


class _Primitive:
    FUNCTION = "execute"
    CATEGORY = "utils/primitive"

    def execute(self, value):
        return (value,)


class PrimitiveString(_Primitive):
    RETURN_TYPES = ("STRING",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": text(multiline=False)}}


class PrimitiveStringMultiline(_Primitive):
    RETURN_TYPES = ("STRING",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": text()}}


class PrimitiveInt(_Primitive):
    RETURN_TYPES = ("INT",)

    @classmethod
    def INPUT_TYPES(cls):
        limits = {"min": -sys.maxsize, "max": sys.maxsize}
        return {"required": {"value": ("INT", {**limits, "control_after_generate": True})}}


class PrimitiveFloat(_Primitive):
    RETURN_TYPES = ("FLOAT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("FLOAT", {"min": -sys.maxsize, "max": sys.maxsize})}}


class PrimitiveBoolean(_Primitive):
    RETURN_TYPES = ("BOOLEAN",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("BOOLEAN", {})}}


class _AnyName(dict):
    """Optional inputs of whatever name: the engine asks whether a name is in here."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str):
        return (ANY,)


class Reroute:
    """The canvas resolves its own; converters leave some in API files, whose input has any name."""

    RETURN_TYPES = (ANY,)
    FUNCTION = "pass_on"
    CATEGORY = "utils"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}, "optional": _AnyName()}

    def pass_on(self, **inputs):
        if len(inputs) != 1:
            given = ", ".join(inputs) or "none"
            raise ValueError(f"Reroute: it passes on exactly one input; given: {given}")
        return tuple(inputs.values())


class ComfySwitchNode:
    RETURN_TYPES = (ANY,)
    RETURN_NAMES = ("output",)
    FUNCTION = "switch"
    CATEGORY = "logic"
    EXPERIMENTAL = True

    @classmethod
    def INPUT_TYPES(cls):
        branch = (ANY, {"lazy": True})
        return {"required": {"switch": ("BOOLEAN", {}), "on_false": branch, "on_true": branch}}

    def check_lazy_status(self, switch, on_false=None, on_true=None):
        """Only the branch taken is evaluated."""
        name, value = ("on_true", on_true) if switch else ("on_false", on_false)
        return [name] if value is None else []

    def switch(self, switch, on_false=None, on_true=None):
        return (on_true if switch else on_false,)


class PreviewAny:
    RETURN_TYPES = ()
    FUNCTION = "show"
    CATEGORY = "utils"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"source": (ANY, {})}}

    def show(self, source=None):
        """Text as it is, numbers in Python's notation, the rest as JSON where it can be."""
        if source is None or isinstance(source, str | int | float):
            shown = str(source)
        else:
            try:
                shown = json.dumps(source)
            except (TypeError, ValueError):  # tensors, models, circular structures
                shown = str(source)
        return {"ui": {"text": (shown,)}}


NODES = {
    "PrimitiveString": PrimitiveString,
    "PrimitiveStringMultiline": PrimitiveStringMultiline,
    "PrimitiveInt": PrimitiveInt,
    "PrimitiveFloat": PrimitiveFloat,
    "PrimitiveBoolean": PrimitiveBoolean,
    "Reroute": Reroute,
    "ComfySwitchNode": ComfySwitchNode,
    "PreviewAny": PreviewAny,
}

DISPLAY_NAMES = {
    "PrimitiveString": "String",
    "PrimitiveStringMultiline": "String (Multiline)",
    "PrimitiveInt": "Int",
    "PrimitiveFloat": "Float",
    "PrimitiveBoolean": "Boolean",
    "ComfySwitchNode": "Switch",
    "PreviewAny": "Preview Any",
}
