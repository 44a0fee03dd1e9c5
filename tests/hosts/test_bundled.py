import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from slipstream.executor.hosts import bundled

DATA = Path(__file__).parents[1] / "data" / "nodes" / "object_info.json.gz"
COMFYUI = json.loads(gzip.decompress(DATA.read_bytes()))
HOST = bundled.host()
SHARED = sorted(HOST.nodes.keys() & COMFYUI.keys())

# Choices that come from the directories of the machine.
FILE_LISTS = {
    ("CLIPLoader", "clip_name"),
    ("CLIPVisionLoader", "clip_name"),
    ("CheckpointLoader", "ckpt_name"),
    ("CheckpointLoader", "config_name"),
    ("CheckpointLoaderSimple", "ckpt_name"),
    ("ControlNetLoader", "control_net_name"),
    ("DiffusersLoader", "model_path"),
    ("DualCLIPLoader", "clip_name1"),
    ("DualCLIPLoader", "clip_name2"),
    ("LoadImage", "image"),
    ("LoadImageMask", "image"),
    ("LoadLatent", "latent"),
    ("LoraLoader", "lora_name"),
    ("LoraLoaderModelOnly", "lora_name"),
    ("QuadrupleCLIPLoader", "clip_name1"),
    ("QuadrupleCLIPLoader", "clip_name2"),
    ("QuadrupleCLIPLoader", "clip_name3"),
    ("QuadrupleCLIPLoader", "clip_name4"),
    ("StyleModelLoader", "style_model_name"),
    ("TripleCLIPLoader", "clip_name1"),
    ("TripleCLIPLoader", "clip_name2"),
    ("TripleCLIPLoader", "clip_name3"),
    ("UNETLoader", "unet_name"),
    ("UpscaleModelLoader", "model_name"),
    ("VAELoader", "vae_name"),
    ("unCLIPCheckpointLoader", "ckpt_name"),
}
# (class, what) -> why it differs on purpose.
DIFFERENT = {
    ("GetImageSize", "hidden"): "the node's id is only for the text ComfyUI shows on the node; without it "
    "equal nodes share one result",
    ("ImageScaleToMaxDimension", "upscale_method"): "ComfyUI lists bilinear twice",
}


def declared(definition, name):
    """Section -> input -> (type, options), combos of both schema generations alike."""
    sections = {}
    for section in ("required", "optional"):
        inputs = json.loads(json.dumps(definition["input"])).get(section, {})
        sections[section] = {key: normal(name, key, entry) for key, entry in inputs.items()}
    return sections


def normal(name, key, entry):
    kind, options = entry[0], dict(entry[1]) if len(entry) > 1 else {}
    options.pop("tooltip", None)
    if isinstance(kind, list):
        kind, options = "COMBO", {**options, "options": kind}
    if kind == "COMBO":
        options.pop("multiselect", None)  # False is what a missing one means
        if (name, key) in FILE_LISTS:
            options.pop("options")
    return kind, options


@pytest.mark.parametrize("name", SHARED)
def test_inputs_are_comfyuis(name):
    ours, theirs = (declared(source, name) for source in (HOST.describe(name), COMFYUI[name]))
    for section in ours:
        for key in [key for key in theirs[section] if (name, key) in DIFFERENT]:
            assert ours[section].pop(key) != theirs[section].pop(key)
    assert ours == theirs


@pytest.mark.parametrize("name", SHARED)
def test_order_outputs_and_flags_are_comfyuis(name):
    ours, theirs = json.loads(json.dumps(HOST.describe(name))), COMFYUI[name]
    for section in ("required", "optional"):
        assert ours["input_order"].get(section, []) == theirs["input_order"].get(section, []), section
    hidden = [set(definition["input"].get("hidden", {}).items()) for definition in (ours, theirs)]
    assert (hidden[0] == hidden[1]) is not ((name, "hidden") in DIFFERENT)
    for key in ("name", "output", "output_is_list", "output_name", "category", "output_node"):
        assert ours[key] == theirs[key], key
    assert theirs["display_name"] in (None, ours["display_name"])
    for flag in ("deprecated", "experimental", "api_node"):
        assert ours.get(flag, False) == theirs.get(flag, False), flag


def test_every_exception_is_still_one():
    assert {name for name, _ in DIFFERENT} <= set(SHARED)


def test_definitions_have_exactly_comfyuis_keys():
    old_style = {*COMFYUI["LoadImage"], "description"}
    assert HOST.describe("LoadImage").keys() == old_style
    assert HOST.describe("LoadImageOutput").keys() == old_style | {"experimental"}


def test_own_nodes_are_told_from_comfyuis():
    info = HOST.object_info()
    assert info.keys() == HOST.nodes.keys()
    assert info["SaveImage"]["python_module"] == "nodes"


def test_definitions_are_json():
    assert json.loads(json.dumps(HOST.object_info())).keys() == HOST.nodes.keys()


def test_every_class_can_be_called():
    for name, node in HOST.nodes.items():
        assert callable(getattr(node, node.FUNCTION)), name


def printed(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()


def test_importing_loads_no_model_library():
    code = "import sys; from slipstream.executor.hosts import bundled; bundled.host(); print(*sys.modules)"
    assert not {"diffusers", "transformers", "spandrel"} & set(printed(code))


def test_base_needs_no_torch():
    assert "torch" not in printed("import sys; import slipstream.executor.hosts.base; print(*sys.modules)")
