"""The sampling nodes against what ComfyUI 0.3.64 made with the same inputs and a Gaussian for a model."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from slipstream.executor.library import custom_sampling, model_sampling, samplers, schedulers, sigmas
from slipstream.executor.sampling.model import LatentFormat
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow

DATA = Path(__file__).parents[1] / "data" / "sampling"
CAPTURES = json.loads((DATA / "guided.json").read_text())
SCHEDULES = json.loads((DATA / "sigmas.json").read_text())
TENSORS = load_file(DATA / "guided.safetensors")
NODES = {
    name: node
    for module in (custom_sampling, model_sampling, samplers, schedulers, sigmas)
    for name, node in module.NODES.items()
}


def call(name, **inputs):
    node = NODES[name]
    return getattr(node(), node.FUNCTION)(**inputs)


@pytest.fixture
def make_model(gaussian_model):
    def make(kind):
        sampling, latent = {
            "eps": (Discrete(), LatentFormat(channels=4, scale=0.18215)),
            "flow": (DiscreteFlow(shift=3.0), LatentFormat(channels=4, scale=1.5305, shift=0.0609)),
            "video": (DiscreteFlow(shift=5.0), LatentFormat(channels=4, scale=0.5, dims=3)),
        }[kind]
        return gaussian_model(sampling=sampling, latent=latent, variance=CAPTURES["variance"])

    return make


def conditioning(entries):
    def value(given):
        if isinstance(given, str) and given.startswith("$"):
            return TENSORS[given[1:]]
        return tuple(given) if isinstance(given, list) else given

    return [
        [TENSORS[entry["mean"]], {key: value(v) for key, v in entry.items() if key != "mean"}]
        for entry in entries
    ]


def guider(model, run, roles):
    if run["guider"] == "basic":
        return call("BasicGuider", model=model, conditioning=roles["positive"])
    if run["guider"] == "cfg":
        inputs = {"positive": roles["positive"], "negative": roles["negative"], "cfg": run["cfg"]}
        return call("CFGGuider", model=model, **inputs)
    return call(
        "DualCFGGuider",
        model=model,
        cond1=roles["positive"],
        cond2=roles["middle"],
        negative=roles["negative"],
        cfg_conds=run["cfg"],
        cfg_cond2_negative=run["cfg2"],
        style=run["guider"],
    )


@pytest.mark.parametrize("name", CAPTURES["runs"])
def test_run(name, make_model):
    run = CAPTURES["runs"][name]
    model = make_model(run["kind"])
    for node, inputs in run["model_nodes"]:
        (model,) = call(node, model=model, **inputs)
    node, options = run["sampler"]
    (sampler,) = call(node, **{key: model if v == "$model" else v for key, v in options.items()})
    scheduler, steps, *count = run["sigmas"]
    (levels,) = call("BasicScheduler", model=model, scheduler=scheduler, steps=steps, denoise=1.0)
    start = TENSORS[f"{run['kind']}/init"]
    samples = start if run["latent"] == "init" else torch.zeros_like(start)
    latent = {"samples": samples.repeat(run["batch"], *[1] * (samples.ndim - 1))}
    if run["noise_mask"]:
        latent["noise_mask"] = TENSORS[run["noise_mask"]]
    roles = {role: conditioning(entries) for role, entries in run["roles"].items()}
    output, denoised = call(
        "SamplerCustomAdvanced",
        noise=call("RandomNoise", noise_seed=run["seed"])[0],
        guider=guider(model, run, roles)[0],
        sampler=sampler,
        sigmas=levels[: count[0]] if count else levels,
        latent_image=latent,
    )
    expected = TENSORS[f"out/{name}"]
    assert output["samples"].shape == expected.shape
    assert float((output["samples"] - expected).abs().max() / expected.abs().max()) < 1e-4
    if f"denoised/{name}" in TENSORS:
        torch.testing.assert_close(denoised["samples"], TENSORS[f"denoised/{name}"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SCHEDULES)
def test_sigmas(name, make_model):
    capture = SCHEDULES[name]
    inputs = dict(capture["inputs"])
    if "model" in inputs:
        inputs["model"] = make_model(inputs["model"])
    if "sigmas" in inputs:
        inputs["sigmas"] = torch.tensor(inputs["sigmas"])
    results = call(capture["cls"], **inputs)
    for result, expected in zip(results, capture["outputs"], strict=True):
        expected = torch.tensor(expected, dtype=torch.float32)
        assert torch.allclose(torch.as_tensor(result), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", CAPTURES["model_sampling"])
def test_model_sampling(name, make_model):
    capture = CAPTURES["model_sampling"][name]
    (model,) = call(capture["cls"], model=make_model(capture["kind"]), **capture["inputs"])
    sampling, form = model.sampling, model.sampling.parametrisation
    assert len(sampling.sigmas) == capture["count"]
    places = [i * (capture["count"] - 1) // 6 for i in range(7)]
    levels = torch.tensor(capture["sigmas"])
    close = {"rtol": 1e-5, "atol": 1e-7}
    torch.testing.assert_close(sampling.sigmas[places], levels, **close)
    torch.testing.assert_close(sampling.timestep(levels).float(), torch.tensor(capture["timesteps"]), **close)
    times = torch.tensor(capture["times"])
    torch.testing.assert_close(sampling.sigma(times), torch.tensor(capture["sigma_of_times"]), **close)
    percents = [sampling.percent_to_sigma(percent) for percent in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert percents == pytest.approx(capture["percent"], rel=1e-5)
    sigma, x, output = levels[[2, 5]], TENSORS["ms/x"], TENSORS["ms/out"]
    results = {
        "input": sampling.model_input(x, sigma),
        "denoised": sampling.denoised(x, output, sigma),
        "noised": form.add_noise(x, output, sigma),
        "full": form.add_noise(x, output, sigma, full=True),
        "left": form.leave(x, sigma),
        "process_in": model.latent.encode(x),
    }
    for key, result in results.items():
        torch.testing.assert_close(result, TENSORS[f"ms/{name}/{key}"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CAPTURES["add_noise"])
def test_add_noise(name, make_model):
    kind = name.split("/")[0]
    (noisy,) = call(
        "AddNoise",
        model=make_model(kind),
        noise=call("RandomNoise", noise_seed=5)[0],
        sigmas=torch.tensor(CAPTURES["add_noise"][name]),
        latent_image={"samples": TENSORS[f"{kind}/init"]},
    )
    torch.testing.assert_close(noisy["samples"], TENSORS[f"add/{name}"], rtol=1e-5, atol=1e-5)
