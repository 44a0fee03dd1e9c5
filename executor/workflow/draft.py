"""A prompt about to be run: values set by name or by node, seeds advanced, the canvas kept in step.

The canvas travels into the saved pictures, so a value changed in the prompt is changed on the canvas too;
where the canvas has no place for it the canvas is left out, since a wrong one would be worse than none.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from . import values
from .errors import SettingError
from .files import WorkflowFile
from .prompt import describe, is_link, title
from .schema import SEED_NAMES, InputSpec, Schema, inputs


class Draft:
    """Made from a file for one run; `prompt` and `extra_data` are what the engine takes."""

    def __init__(
        self,
        file: WorkflowFile,
        schema: Schema,
        rng: random.Random | None = None,
        upload: Callable[[str], str] = str,
    ):
        """`upload` takes the text set for an input that names a file and returns what the input is to hold.
        Raises WorkflowError where the file's canvas cannot be converted."""
        conversion = file.to_prompt(schema, rng)
        self.prompt = copy.deepcopy(conversion.prompt)
        self.parameters = file.parameters
        self._canvas = copy.deepcopy(file.canvas)
        self._places = conversion.places
        self._schema = schema
        self._upload = upload

    @property
    def extra_data(self) -> dict[str, Any]:
        return {"extra_pnginfo": {"workflow": self._canvas}} if self._canvas is not None else {}

    def assign(self, key: str, text: str) -> None:
        """Set a declared parameter, an input that only one node has, or `NODE.INPUT` where NODE is an id, or
        a title or class that only one node has. The text is read as the type that the input declares.
        Raises SettingError."""
        node, name = self._target(key)
        spec = self._spec(node, name)
        if spec is not None and spec.takes_upload:
            text = self._upload(text)
        self._write(node, name, values.parse(spec, text))

    def reseed(self, seed: int | None, offset: int) -> dict[str, int]:
        """Set the seeds to `seed + offset`, or add `offset` to what they are; the parameter `seed` if there
        is one, otherwise every seed input. Returns the seeds by `node.input`."""
        targets = self._seeds()
        if not targets and seed is not None:
            raise SettingError(
                "no seed to set: the workflow has neither a parameter nor an input of that name"
            )
        for node, name in targets if seed is not None or offset else ():
            start = self.prompt[node]["inputs"][name] if seed is None else seed
            self._write(node, name, start + offset)
        return {f"{node}.{name}": self.prompt[node]["inputs"][name] for node, name in targets}

    def _seeds(self) -> list[tuple[str, str]]:
        if "seed" in self.parameters:
            return [self._target("seed")]
        return [
            (node_id, name)
            for node_id, node in self.prompt.items()
            for name, value in node.get("inputs", {}).items()
            if name in SEED_NAMES and isinstance(value, int)
        ]

    def _target(self, key: str) -> tuple[str, str]:
        """The (node id, input) that a key names, checked to be there and to hold a value."""
        if key in self.parameters:
            node, name = self.parameters[key].node, self.parameters[key].input
            if node not in self.prompt:
                raise SettingError(f'parameter "{key}" points at node {node}, which is not in this workflow')
        else:
            node, name = self._split(key)
        held = self.prompt[node].get("inputs", {})
        if name not in held and self._spec(node, name) is None:
            known = [*held, *(spec.name for spec in self._specs(node))]
            suggestion = values.near(name, known)
            raise SettingError(f'{describe(self.prompt, node)} has no input "{name}"{suggestion}')
        if is_link(held.get(name)):
            taker, giver = describe(self.prompt, node), describe(self.prompt, held[name][0])
            raise SettingError(f"input {name} of {taker} comes from {giver}: set that node's input instead")
        return node, name

    def _split(self, key: str) -> tuple[str, str]:
        """Titles and input names may hold dots, so every dot is tried."""
        dots = [index for index, character in enumerate(key) if character == "."]
        if not dots:
            return self._only_node_with(key), key
        for dot in dots:
            name, matching = key[:dot], self._nodes(key[:dot])
            if len(matching) == 1:
                return matching[0], key[dot + 1 :]
            if matching:
                ids = ", ".join(matching)
                raise SettingError(f'"{name}" names {len(matching)} nodes: use an id, one of {ids}')
        name = key[: dots[-1]]
        known = [
            known
            for node_id, node in self.prompt.items()
            for known in (node_id, title(node), node["class_type"])
        ]
        raise SettingError(f'no node has the id, title or class "{name}"{values.near(name, known)}')

    def _only_node_with(self, name: str) -> str:
        """The node that has an input of that name with a value of its own, where just one has."""
        settable = {
            node_id: [key for key, value in node.get("inputs", {}).items() if not is_link(value)]
            for node_id, node in self.prompt.items()
        }
        matching = [node_id for node_id, held in settable.items() if name in held]
        if len(matching) == 1:
            return matching[0]
        if matching:
            named = ", ".join(f"{node_id}.{name} ({self._label(node_id)})" for node_id in matching)
            raise SettingError(f'"{name}" is an input of {len(matching)} nodes; say which: {named}')
        known = [*self.parameters, *(key for held in settable.values() for key in held)]
        raise SettingError(f'no parameter and no input is named "{name}"{values.near(name, known)}')

    def _label(self, node_id: str) -> str:
        return title(self.prompt[node_id]) or self.prompt[node_id]["class_type"]

    def _nodes(self, name: str) -> list[str]:
        if name in self.prompt:
            return [name]
        return [key for key, node in self.prompt.items() if name in (title(node), node["class_type"])]

    def _specs(self, node: str) -> list[InputSpec]:
        return inputs(self._schema.get(self.prompt[node]["class_type"], {}))

    def _spec(self, node: str, name: str) -> InputSpec | None:
        return next((spec for spec in self._specs(node) if spec.name == name), None)

    def _write(self, node: str, name: str, value: Any) -> None:
        place = self._places.get((node, name))
        if place is None:
            self._canvas = None
        if self._canvas is not None:
            held = next(entry for entry in self._canvas["nodes"] if str(entry["id"]) == place.node)
            held["widgets_values"][place.key] = value
        # One PrimitiveNode on the canvas may feed several inputs: they change together, as they do there.
        together = [target for target, other in self._places.items() if other == place] or [(node, name)]
        for node_id, input_name in together:
            self.prompt[node_id].setdefault("inputs", {})[input_name] = value
