"""Every sampler, schedule and way to start, against latents that ComfyUI 0.3.64 made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from slipstream.executor.sampling.guidance import CFGGuider
from slipstream.executor.sampling.noise import NoNoise, RandomNoise, initial_noise
from slipstream.executor.sampling.run import cut_steps, sample
from slipstream.executor.sampling.samplers import SAMPLERS, Sampler
from slipstream.executor.sampling.schedules import SCHEDULES, schedule

DATA = Path(__file__).parents[1] / "data"
SETTINGS = json.loads((DATA / "sampling" / "golden.json").read_text())
TOLERANCE = 1e-4


def relative(result, expected):
    return float((result - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", SETTINGS["runs"])
def test_run(name, golden, golden_model):
    settings, kind = golden["runs"][name], name.split("/")[0]
    model, positive, negative = golden_model(kind)
    tensors = golden["tensors"]
    if name.endswith("advanced/second"):
        latent = tensors[f"{kind}/advanced/first"]
    elif settings["latent"] == "zeros":
        latent = torch.zeros_like(tensors[f"{kind}/init_latent"])
    else:
        latent = tensors[f"{kind}/init_latent"]
    sampler = Sampler(settings["sampler"])
    sigmas = schedule(
        model.sampling,
        settings["scheduler"],
        settings["steps"],
        denoise=settings["denoise"],
        discard_penultimate=sampler.algorithm.discard_penultimate,
    )
    noise = RandomNoise(settings["seed"])
    if "advanced" in settings:
        advanced = settings["advanced"]
        sigmas = cut_steps(
            sigmas,
            advanced["start_step"],
            advanced["last_step"],
            force_full_denoise=advanced["force_full_denoise"],
        )
        if advanced["disable_noise"]:
            noise = NoNoise()
    guider = CFGGuider(model, positive, negative, settings["cfg"])
    result = sample(
        guider, sampler, sigmas, noise.generate({"samples": latent}), latent, seed=settings["seed"]
    )
    assert relative(result, tensors[name]) < TOLERANCE


@pytest.mark.parametrize("name", SETTINGS["sigmas"])
def test_sigmas(name, golden, golden_model):
    kind, scheduler, steps = name.split("/")
    sigmas = schedule(golden_model(kind)[0].sampling, scheduler, int(steps))
    expected = torch.tensor(golden["sigmas"][name])
    assert sigmas.dtype == torch.float32
    assert sigmas.shape == expected.shape
    assert torch.allclose(sigmas, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_noise_of_chosen_batch_indices(kind, golden):
    expected = golden["tensors"][f"{kind}/noise_seed2024_batch_index_0_2_5"]
    assert torch.equal(initial_noise(expected, 2024, [0, 2, 5]), expected)


def test_every_listed_name_is_here():
    node = SETTINGS["runs"]
    for kind in ("eps", "flow"):
        assert [f"{kind}/sampler/{name}" in node for name in SAMPLERS].count(False) == 0
        assert [f"{kind}/scheduler/{name}" in node for name in SCHEDULES].count(False) == 0
