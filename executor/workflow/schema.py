"""Node definitions as ComfyUI's `/object_info` gives them, read one input at a time.

A schema is `{class name: {"input": {"required": {name: [type, options]}, "optional": ...},
"input_order": {...}, "output": [...], "display_name": ...}}`. Every host provides one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Schema = Mapping[str, Mapping[str, Any]]

VALUE_TYPES = frozenset({"INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"})
DYNAMIC_COMBO = "COMFY_DYNAMICCOMBO_V3"  # a choice that brings inputs of its own
AUTOGROW = "COMFY_AUTOGROW_V3"  # as many inputs as are used
MATCHED = "COMFY_MATCHTYPE_V3"  # of one type with other inputs of the node
# Further types that ComfyUI's canvas draws a widget for, and so keeps a value of.
WIDGET_TYPES = VALUE_TYPES | {
    "AUDIO_RECORD",
    "BOUNDING_BOX",
    "BOUNDING_BOXES",
    "CHART",
    "COLOR",
    "COLORS",
    "COMPOSITOR",
    "CURVE",
    "GALLERIA",
    "IMAGECOMPARE",
    "LIGHT_INFO_PREVIEW",
    "LOAD_3D",
    "MARKDOWN",
    "PAINTER",
    "PREVIEW_3D",
    "RANGE",
    "RESOLUTION_PREVIEW",
    "TEXTAREA",
    "VIDEO_EDIT",
    "WEBCAM",
    DYNAMIC_COMBO,
}
SEED_NAMES = ("seed", "noise_seed")
UPLOADS = ("image_upload", "video_upload", "audio_upload", "file_upload")


@dataclass(frozen=True)
class InputSpec:
    """One declared input. `type` is "COMBO" for a list of choices, which `choices` then holds."""

    name: str
    type: str
    options: Mapping[str, Any]
    required: bool
    choices: tuple[Any, ...] = ()

    @property
    def is_value(self) -> bool:
        """Whether it holds a value of its own (a widget on the canvas); otherwise it only takes links."""
        return self.type in VALUE_TYPES and not self.options.get("forceInput")

    @cached_property
    def has_widget(self) -> bool:
        """Whether the canvas keeps a value of it: more types than those that can be set as text."""
        return (self.options.get("widgetType") or self.type) in WIDGET_TYPES and not self.options.get(
            "forceInput"
        )

    @property
    def takes_upload(self) -> bool:
        """Whether it names a file in the input directory that a user would bring along."""
        return any(map(self.options.get, UPLOADS)) and self.options.get("image_folder", "input") == "input"

    @property
    def has_control(self) -> bool:
        """Whether the canvas keeps "what to do with the value after a run" in a slot beside the value."""
        declared = self.options.get("control_after_generate")
        if declared is None:
            return self.type == "INT" and self.name in SEED_NAMES
        return bool(declared)

    @property
    def default(self) -> Any:
        """The value of an untouched widget."""
        if "default" in self.options:
            return self.options["default"]
        if self.type == "COMBO":
            return self.choices[0] if self.choices else None
        return {"INT": 0, "FLOAT": 0, "STRING": "", "BOOLEAN": False}.get(self.type)


def inputs(definition: Mapping[str, Any]) -> list[InputSpec]:
    """The declared inputs of one class in order: required, then optional."""
    found = []
    for section in ("required", "optional"):
        declared = definition.get("input", {}).get(section) or {}
        order = definition.get("input_order", {}).get(section) or declared
        found += [_spec(name, declared[name], section == "required") for name in order]
    return found


def choices_of(definition: Mapping[str, Any], name: str) -> Sequence[Any]:
    """The list that a host gave as the choices of one input of a class, itself and not a copy."""
    declared = next(part[name] for part in definition["input"].values() if name in part)
    return declared[0] if isinstance(declared[0], (list, tuple)) else declared[1].get("options") or ()


def _spec(name: str, declared: Any, required: bool) -> InputSpec:
    kind, options = declared[0], (declared[1] if len(declared) > 1 else {}) or {}
    if isinstance(kind, (list, tuple)):
        return InputSpec(name, "COMBO", options, required, tuple(kind))
    return InputSpec(name, str(kind), options, required, tuple(options.get("options") or ()))
