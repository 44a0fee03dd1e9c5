"""What is in a prompt, for people: node classes by origin, models, inputs one may want to set, outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .parameters import Parameter
from .prompt import is_link, title
from .schema import SEED_NAMES, InputSpec, Schema, choices_of, inputs

CORE = "comfy-core"  # how files name the pack of ComfyUI's own nodes

# The folder of models that an input's value is in, where neither the choices nor the file tell.
MODEL_INPUTS = {
    "audio_encoder_name": "audio_encoders",
    "ckpt_name": "checkpoints",
    "clip_name": "text_encoders",
    "clip_name1": "text_encoders",
    "clip_name2": "text_encoders",
    "clip_name3": "text_encoders",
    "clip_name4": "text_encoders",
    "control_net_name": "controlnet",
    "gligen_name": "gligen",
    "hypernetwork_name": "hypernetworks",
    "lora_name": "loras",
    "style_model_name": "style_models",
    "unet_name": "diffusion_models",
    "vae_name": "vae",
}
CLASS_MODEL_INPUTS = {
    ("CLIPVisionLoader", "clip_name"): "clip_vision",
    ("ModelPatchLoader", "name"): "model_patches",
    ("UpscaleModelLoader", "model_name"): "upscale_models",
}
WEIGHTS = (".safetensors", ".sft", ".ckpt", ".gguf", ".pt", ".pth", ".bin", ".onnx")

# What people set most, by the input's name; prompts, seeds and files are told by the definition.
PURPOSES = {
    **dict.fromkeys(("width", "height", "length", "batch_size", "megapixels", "scale_by", "fps"), "size"),
    **dict.fromkeys(("steps", "cfg", "guidance", "denoise", "sampler_name", "scheduler"), "sampling"),
}
ORDER = ("prompt", "file", "seed", "size", "sampling", "value")


@dataclass(frozen=True)
class Kind:
    """A node class and its nodes. `origin` is where the host has it from, "" where it lacks it; `pack` is
    the pack of nodes that the file says it belongs to, "" where it does not say."""

    class_type: str
    nodes: tuple[str, ...]
    origin: str
    pack: str


@dataclass(frozen=True)
class Model:
    """A file of weights that an input names. `folder` is the kind of model folder it is looked for in, ""
    where that is unknown; `url` is where the file says that it can be had."""

    node: str
    input: str
    name: str
    folder: str
    found: bool
    url: str


@dataclass(frozen=True)
class Setting:
    """An input that holds a value. `key` is what `--set` takes; `purpose` is one of `ORDER`."""

    key: str
    node: str
    input: str
    purpose: str
    value: Any


@dataclass(frozen=True)
class Survey:
    kinds: list[Kind]
    models: list[Model]
    settings: list[Setting]
    outputs: list[str]


def survey(
    prompt: Mapping[str, Any],
    schema: Schema,
    parameters: Mapping[str, Parameter] | None = None,
    canvas: Mapping[str, Any] | None = None,
) -> Survey:
    """`canvas` is the file's canvas, if it has one: it may tell where models are to be had."""
    sources = {source["name"]: source for source in _sources(canvas or {})}
    names = {(p.node, p.input): name for name, p in (parameters or {}).items()}
    settings = [setting for node in prompt for setting in _settings(node, prompt[node], schema, names)]
    return Survey(
        _kinds(prompt, schema),
        [model for node in prompt for model in _models(node, prompt[node], schema, sources)],
        sorted(settings, key=lambda setting: ORDER.index(setting.purpose)),
        [node for node in prompt if schema.get(prompt[node]["class_type"], {}).get("output_node")],
    )


def _kinds(prompt: Mapping[str, Any], schema: Schema) -> list[Kind]:
    nodes: dict[str, list[str]] = {}
    for node_id, node in prompt.items():
        nodes.setdefault(node["class_type"], []).append(node_id)
    return [
        Kind(name, tuple(ids), _origin(schema[name]) if name in schema else "", pack_of(prompt[ids[0]]))
        for name, ids in sorted(nodes.items())
    ]


def _origin(definition: Mapping[str, Any]) -> str:
    """`core` for ComfyUI's own classes, otherwise the pack's name."""
    module = str(definition.get("python_module") or "nodes")
    return module.split(".")[1] if module.startswith("custom_nodes.") else "core"


def pack_of(node: Mapping[str, Any]) -> str:
    """The pack of nodes that a node's file says it is from, other than ComfyUI itself."""
    said = node.get("_meta") or {}
    pack = said.get("aux_id") or said.get("cnr_id")
    return pack if isinstance(pack, str) and pack != CORE else ""


def _models(
    node_id: str, node: Mapping[str, Any], schema: Schema, sources: Mapping[str, Mapping[str, str]]
) -> Iterator[Model]:
    class_type = node["class_type"]
    definition = schema.get(class_type)
    specs = {spec.name: spec for spec in inputs(definition or {})}
    for name, value in node.get("inputs", {}).items():
        if not isinstance(value, str) or not value:
            continue
        known = choices_of(definition, name) if name in specs and specs[name].type == "COMBO" else None
        folder = getattr(known, "kind", "") or CLASS_MODEL_INPUTS.get((class_type, name), "")
        source = sources.get(value, {})
        if not (folder or source):
            folder = MODEL_INPUTS.get(name, "") if known is not None or definition is None else ""
        if folder or source or value.lower().endswith(WEIGHTS):
            folder = folder or source.get("directory", "")
            found = known is not None and value in known
            yield Model(node_id, name, value, folder, found, source.get("url", ""))


def _sources(canvas: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """The entries `{"name", "url", "directory"}` that a canvas and its nodes carry."""
    definitions = canvas.get("definitions")
    subgraphs = definitions.get("subgraphs") if isinstance(definitions, Mapping) else None
    for level in (canvas, *(subgraphs if isinstance(subgraphs, list) else ())):
        held = [level.get("models")]
        held += [(node.get("properties") or {}).get("models") for node in level.get("nodes") or ()]
        for entries in held:
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
                    yield {key: value for key, value in entry.items() if isinstance(value, str)}


def _settings(
    node_id: str, node: Mapping[str, Any], schema: Schema, names: Mapping[tuple[str, str], str]
) -> Iterator[Setting]:
    specs = {spec.name: spec for spec in inputs(schema.get(node["class_type"], {}))}
    for name, value in node.get("inputs", {}).items():
        purpose = None if is_link(value) else _purpose(node, name, specs.get(name), value)
        if purpose:
            key = names.get((node_id, name), f"{node_id}.{name}")
            yield Setting(key, node_id, name, purpose, value)


def _purpose(node: Mapping[str, Any], name: str, spec: InputSpec | None, value: Any) -> str | None:
    if name in SEED_NAMES:
        return "seed"
    if spec is not None and spec.takes_upload:
        return "file"
    if isinstance(value, str) and (spec.options.get("multiline") if spec else name in ("text", "prompt")):
        return "prompt"
    if name == "value" and node["class_type"].startswith("Primitive") and title(node):
        return "value"
    return PURPOSES.get(name)
