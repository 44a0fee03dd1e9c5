"""What a workflow is made of, as `slipstream inspect` shows it."""

from slipstream.executor.workflow.parameters import Parameter
from slipstream.executor.workflow.survey import survey


class Names(list):
    kind = "checkpoints"


SCHEMA = {
    "Load": {"input": {"required": {"ckpt_name": [Names(["here.safetensors"]), {}]}}},
    "Picture": {"input": {"required": {"image": [["a.png"], {"image_upload": True}]}}},
    "Encode": {"input": {"required": {"text": ["STRING", {"multiline": True}], "name": ["STRING", {}]}}},
    "Sample": {
        "input": {"required": {"model": ["MODEL"], "seed": ["INT"], "steps": ["INT"], "k": ["INT"]}},
        "python_module": "custom_nodes.slipstream",
    },
    "Save": {"input": {"required": {"prefix": ["STRING", {}]}}, "output_node": True},
}


def node(kind, _meta=None, **inputs):
    return {"class_type": kind, "inputs": inputs} | ({"_meta": _meta} if _meta else {})


def test_node_classes_by_origin():
    prompt = {
        "1": node("Load", ckpt_name="x"),
        "2": node("Sample"),
        "3": node("Sample"),
        "4": node("Elsewhere", {"cnr_id": "some-pack"}),
        "5": node("FromGit", {"cnr_id": "comfy-core", "aux_id": "me/pack"}),
        "6": node("Newer", {"cnr_id": "comfy-core"}),
    }
    kinds = {kind.class_type: (kind.nodes, kind.origin, kind.pack) for kind in survey(prompt, SCHEMA).kinds}
    assert kinds == {
        "Load": (("1",), "core", ""),
        "Sample": (("2", "3"), "slipstream", ""),
        "Elsewhere": (("4",), "", "some-pack"),
        "FromGit": (("5",), "", "me/pack"),
        "Newer": (("6",), "", ""),
    }


def test_models_by_choice_by_the_files_word_and_by_name():
    prompt = {
        "1": node("Load", ckpt_name="here.safetensors"),
        "2": node("Load", ckpt_name="gone.safetensors"),
        "3": node("Elsewhere", vae_name="ae.safetensors", weight="big.gguf", note="plain"),
        "4": node("Elsewhere", thing="special.safetensors"),
        "5": node("CLIPVisionLoader", clip_name="sight.safetensors"),
        "6": node("Encode", text="a picture.pt of it", name="x.ckpt"),
    }
    said = {"name": "special.safetensors", "url": "u", "directory": "d"}
    inner = {"nodes": [{"properties": {"models": [said]}}]}
    canvas = {
        "nodes": [],
        "models": [{"name": "gone.safetensors", "url": "v"}],
        "definitions": {"subgraphs": [inner]},
    }
    found = survey(prompt, SCHEMA, canvas=canvas).models
    assert [(m.node, m.input, m.name, m.folder, m.found, m.url) for m in found] == [
        ("1", "ckpt_name", "here.safetensors", "checkpoints", True, ""),
        ("2", "ckpt_name", "gone.safetensors", "checkpoints", False, "v"),
        ("3", "vae_name", "ae.safetensors", "vae", False, ""),
        ("3", "weight", "big.gguf", "", False, ""),
        ("4", "thing", "special.safetensors", "d", False, "u"),
        ("5", "clip_name", "sight.safetensors", "clip_vision", False, ""),
        ("6", "name", "x.ckpt", "", False, ""),
    ]


def test_what_one_may_want_to_set_prompts_first():
    prompt = {
        "1": node("Sample", model=["9", 0], seed=7, steps=20, k=3),
        "2": node("Encode", text="a star", name="n"),
        "3": node("Encode", text=["2", 0]),
        "4": node("Picture", image="a.png"),
        "5": node("PrimitiveInt", {"title": "Width"}, value=512),
        "6": node("Elsewhere", text="unknown class", noise_seed=1),
    }
    found = survey(prompt, SCHEMA, {"what": Parameter("what", "2", "text")}).settings
    assert [(s.key, s.purpose, s.value) for s in found] == [
        ("what", "prompt", "a star"),
        ("6.text", "prompt", "unknown class"),
        ("4.image", "file", "a.png"),
        ("1.seed", "seed", 7),
        ("6.noise_seed", "seed", 1),
        ("1.steps", "sampling", 20),
        ("5.value", "value", 512),
    ]


def test_outputs():
    assert survey({"1": node("Save", prefix="x"), "2": node("Elsewhere")}, SCHEMA).outputs == ["1"]
