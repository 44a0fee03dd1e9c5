"""The command line on a host of trivial nodes: no weights, no torch."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from slipstream.executor import cli, context
from slipstream.executor.hosts import bundled
from slipstream.executor.models import folders


class Load:
    CATEGORY, FUNCTION, RETURN_TYPES = "loaders", "run", ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"ckpt_name": (folders.Names("checkpoints", ["shapes", "other"]),)}}

    def run(self, ckpt_name):
        return (ckpt_name,)


class Sample:
    """Counts steps; `cfg` above 50 makes it fail."""

    CATEGORY, FUNCTION, RETURN_TYPES = "sampling", "run", ("LATENT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {
                "model": ("MODEL",),
                "seed": ("INT", {"default": 0, "min": 0, "max": 2**64 - 1, "control_after_generate": True}),
                "steps": ("INT", {"default": 3, "min": 1, "max": 10000}),
                "cfg": ("FLOAT", {"default": 4.0, "min": 0.0, "max": 100.0}),
                "text": ("STRING", {"default": "", "multiline": True, "dynamicPrompts": True}),
            },
            "optional": {"pause": ("FLOAT", {"default": 0.0})},
        }

    def run(self, model, seed, steps, cfg, text, pause=0.0):
        if cfg > 50:
            raise ValueError("cfg is too much")
        for step in range(steps):
            time.sleep(pause)
            context.progress(step + 1, steps)
        return ({"seed": seed, "text": text},)


class Save:
    CATEGORY, FUNCTION, RETURN_TYPES, OUTPUT_NODE = "image", "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"latent": ("LATENT",), "prefix": ("STRING", {"default": "out"})},
            "hidden": {"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"},
        }

    def run(self, latent, prefix, prompt=None, extra_pnginfo=None):
        folder = folders.output_dir()
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{prefix}_{len(list(folder.iterdir())) + 1:05}_.png"
        info = PngInfo()
        info.add_text("prompt", json.dumps(prompt))
        for key, value in (extra_pnginfo or {}).items():
            info.add_text(key, json.dumps(value))
        Image.new("RGB", (8, 8)).save(folder / name, pnginfo=info)
        shown = {"filename": name, "subfolder": "", "type": "output"}
        return {"ui": {"images": [shown], "text": [f"{latent['text']} {latent['seed']}"]}}


class Host:
    nodes = {"Load": Load, "Sample": Sample, "Save": Save}

    def missing(self, name, pack=""):
        return f"{name} is {pack or 'elsewhere'}"

    def object_info(self):
        info = {}
        for name, node in self.nodes.items():
            declared = {
                section: {key: list(spec) for key, spec in specs.items()}
                for section, specs in node.INPUT_TYPES().items()
            }
            info[name] = {
                "input": declared,
                "input_order": {section: list(specs) for section, specs in declared.items()},
                "output": list(node.RETURN_TYPES),
                "output_name": list(node.RETURN_TYPES),
                "output_node": getattr(node, "OUTPUT_NODE", False),
                "category": node.CATEGORY,
                "display_name": {"Load": "Load Checkpoint"}.get(name, name),
            }
        return info


CANVAS = {
    "nodes": [
        {
            "id": 1,
            "type": "Load",
            "widgets_values": ["shapes"],
            "outputs": [{"name": "MODEL", "type": "MODEL"}],
        },
        {
            "id": 3,
            "type": "Sample",
            "title": "My sampler",
            "inputs": [{"name": "model", "type": "MODEL", "link": 1}],
            "outputs": [{"name": "LATENT", "type": "LATENT"}],
            "widgets_values": [5, "randomize", 3, 4.0, "a star", 0.0],
        },
        {
            "id": 9,
            "type": "Save",
            "inputs": [{"name": "latent", "type": "LATENT", "link": 2}],
            "widgets_values": ["out"],
        },
    ],
    "links": [[1, 1, 0, 3, 0, "MODEL"], [2, 3, 0, 9, 0, "LATENT"]],
    "extra": {"slipstream": {"parameters": {"prompt": {"node": 3, "input": "text", "description": "what"}}}},
}


@pytest.fixture
def canvas():
    return json.loads(json.dumps(CANVAS))


@pytest.fixture
def workflow(tmp_path, monkeypatch, canvas) -> Path:
    """A canvas file in an otherwise empty current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flow.json"
    path.write_text(json.dumps(canvas))
    return path


@pytest.fixture
def slipstream(tmp_path, monkeypatch):
    """Call the command line; the answer has exit_code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "host", Host)
    before = folders.current()
    yield lambda *arguments: CliRunner().invoke(cli.cli, list(map(str, arguments)))
    folders.use(before)
