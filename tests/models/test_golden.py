"""A checkpoint in ComfyUI's own layout and the latents that ComfyUI's KSampler makes with it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from slipstream.executor.library.loaders import UNETLoader
from slipstream.executor.models import folders
from slipstream.executor.sampling.guidance import CFGGuider
from slipstream.executor.sampling.noise import initial_noise
from slipstream.executor.sampling.run import sample
from slipstream.executor.sampling.samplers import Sampler
from slipstream.executor.sampling.schedules import SCHEDULES

DATA = Path(__file__).parents[1] / "data" / "models"
RUNS = json.loads((DATA / "golden.json").read_text())["tiny_sd3"]["runs"]
GOLDEN = load_file(DATA / "golden.safetensors")


@pytest.fixture
def model(tmp_path):
    (tmp_path / "diffusion_models").mkdir()
    (tmp_path / "diffusion_models" / "tiny_sd3.safetensors").symlink_to(DATA / "tiny_sd3.safetensors")
    folders.use(folders.Folders(models=[tmp_path]))
    return UNETLoader().load_unet("tiny_sd3.safetensors", "default")[0]


def prompt(role):
    return [[GOLDEN[f"tiny_sd3/{role}"], {"pooled_output": GOLDEN[f"tiny_sd3/{role}_pooled"]}]]


@pytest.mark.parametrize("name", RUNS)
def test_same_latents_as_comfyui(name, model):
    run = RUNS[name]
    empty = torch.zeros(1, 16, 16, 16)
    result = sample(
        CFGGuider(model, prompt("positive"), prompt("negative"), run["cfg"]),
        Sampler(run["sampler"]),
        SCHEDULES[run["scheduler"]](model.sampling, run["steps"]),
        initial_noise(empty, run["seed"]),
        empty,
        seed=run["seed"],
    )
    expected = GOLDEN[f"tiny_sd3/{name}"]
    assert (result - expected).abs().max() < 1e-3
