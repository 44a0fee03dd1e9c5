"""KSampler, KSampler (Advanced) and SamplerCustom as nodes: results, progress, cancelling, errors."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from slipstream.executor.context import Interrupted, NodeContext, entered
from slipstream.executor.hosts import bundled
from slipstream.executor.library.custom_sampling import NODES as CUSTOM
from slipstream.executor.library.model_sampling import ModelSamplingContinuousEDM, ModelSamplingDiscrete
from slipstream.executor.library.samplers import KSamplerSelect
from slipstream.executor.library.sampling import KSampler, KSamplerAdvanced
from slipstream.executor.library.schedulers import ExponentialScheduler, GITSScheduler, KarrasScheduler
from slipstream.executor.library.sigmas import ManualSigmas, SetFirstSigma
from slipstream.executor.sampling.latents import EMPTY_LATENT_NODES
from slipstream.executor.sampling.model import LatentFormat
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow

DATA = Path(__file__).parents[1] / "data" / "sampling"
GOLDEN = json.loads((DATA / "golden.json").read_text())
TENSORS = load_file(DATA / "golden.safetensors")


@pytest.fixture
def made(gaussian_model):
    """kind -> the inputs of a KSampler that the captures share."""

    def make(kind="eps"):
        case = GOLDEN["cases"][kind]
        channels = case["latent_shape"][1]
        model = gaussian_model(
            sampling=Discrete() if kind == "eps" else DiscreteFlow(shift=3.0),
            latent=LatentFormat(channels, case["latent_scale_factor"], case["latent_shift_factor"]),
            variance=GOLDEN["v"],
        )
        positive, negative = ([[TENSORS[f"{kind}/mean_{name}"], {}]] for name in ("cond", "uncond"))
        latent = {"samples": torch.zeros(1, channels, 8, 8)}
        return {"model": model, "positive": positive, "negative": negative, "latent_image": latent}

    return make


def ksampler(inputs, **changes):
    settings = {"seed": 1, "steps": 4, "cfg": 5.0, "sampler_name": "euler", "scheduler": "simple"}
    return KSampler().sample(**{**settings, **inputs, **changes})[0]


def close(latent, name):
    expected = TENSORS[name]
    assert latent["samples"].dtype == torch.float32
    assert latent["samples"].device.type == "cpu"
    assert float((latent["samples"] - expected).abs().max() / expected.abs().max()) < 1e-4


@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("sampler", ["euler", "dpm_2", "uni_pc", "dpmpp_2m_sde"])
def test_ksampler(kind, sampler, made):
    run = GOLDEN["runs"][f"{kind}/sampler/{sampler}"]
    settings = {key: run[key] for key in ("seed", "steps", "cfg", "scheduler", "denoise")}
    close(ksampler(made(kind), sampler_name=sampler, **settings), f"{kind}/sampler/{sampler}")


@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("denoise", ["0.3", "0.6", "0.85"])
def test_ksampler_from_a_latent(kind, denoise, made):
    run = GOLDEN["runs"][f"{kind}/denoise/{denoise}"]
    settings = {key: run[key] for key in ("seed", "steps", "cfg", "scheduler", "denoise")}
    latent = {"samples": TENSORS[f"{kind}/init_latent"]}
    result = ksampler(made(kind), sampler_name=run["sampler"], latent_image=latent, **settings)
    close(result, f"{kind}/denoise/{denoise}")


def test_ksampler_without_denoising_gives_the_latent_back(made):
    latent = {"samples": TENSORS["eps/init_latent"], "batch_index": [3]}
    result = ksampler(made(), latent_image=latent, denoise=0.0)
    assert torch.equal(result["samples"], latent["samples"])
    assert result["batch_index"] == [3]


def advanced(inputs, **changes):
    settings = {
        "add_noise": "enable",
        "noise_seed": 42,
        "steps": 12,
        "cfg": 5.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "start_at_step": 0,
        "end_at_step": 10000,
        "return_with_leftover_noise": "disable",
    }
    return KSamplerAdvanced().sample(**{**settings, **inputs, **changes})[0]


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_ksampler_advanced_in_two_parts(kind, made):
    inputs = made(kind)
    first = advanced(inputs, end_at_step=7, return_with_leftover_noise="enable")
    close(first, f"{kind}/advanced/first")
    second = advanced(inputs, add_noise="disable", start_at_step=7, latent_image=first)
    close(second, f"{kind}/advanced/second")


def test_sampler_custom_is_ksampler_in_parts(made):
    inputs = made()
    (sampler,) = KSamplerSelect().get_sampler("heun")
    sigmas = torch.tensor([14.6146, 5.0, 1.0, 0.0])
    node = CUSTOM["SamplerCustom"]()
    output, denoised = node.sample(
        add_noise=True, noise_seed=7, cfg=4.0, sampler=sampler, sigmas=sigmas, **inputs
    )
    again, _ = node.sample(add_noise=True, noise_seed=7, cfg=4.0, sampler=sampler, sigmas=sigmas, **inputs)
    assert torch.equal(output["samples"], again["samples"])
    torch.testing.assert_close(output["samples"], denoised["samples"])  # the last step goes to 0
    quiet, _ = node.sample(add_noise=False, noise_seed=7, cfg=4.0, sampler=sampler, sigmas=sigmas, **inputs)
    assert not torch.equal(quiet["samples"], output["samples"])


def test_progress_and_preview(made):
    seen = []
    inputs = made()
    form = LatentFormat(channels=4, scale=0.18215, rgb_factors=((0.3, 0.2, 0.1),) * 4)
    inputs["model"] = inputs["model"].with_sampling(inputs["model"].sampling, form)
    context = NodeContext("p", "n", lambda *call: seen.append(call), lambda: False)
    with entered(context):
        ksampler(inputs)
    assert [(value, total) for value, total, _ in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    picture = seen[0][2]()
    assert isinstance(picture, Image.Image)
    assert picture.size == (8, 8)


def test_cancelling_stops_at_the_step_and_leaves_nothing(made):
    inputs, seen = made(), []
    context = NodeContext("p", "n", lambda *call: seen.append(call), lambda: len(seen) == 2)
    with entered(context), pytest.raises(Interrupted):
        ksampler(inputs)
    assert len(seen) == 2
    assert len(inputs["model"].calls) == 2
    assert inputs["model"].open == []


def test_latent_of_another_family(made):
    inputs = made("flow")
    inputs["latent_image"] = {"samples": torch.ones(1, 4, 8, 8)}
    expected = r"KSampler: latent_image has 4 channels, but the model works on 16 .*EmptySD3LatentImage"
    with pytest.raises(ValueError, match=expected):
        ksampler(inputs)


def test_nodes_that_errors_name_are_here():
    assert set(EMPTY_LATENT_NODES.values()) <= bundled.host().nodes.keys()


def test_mask_that_cannot_fit(made):
    inputs = made()
    inputs["latent_image"]["noise_mask"] = torch.ones(1, 3, 8, 8, 1)
    with pytest.raises(ValueError, match="KSampler: latent_image's noise_mask has shape"):
        ksampler(inputs)


def test_conditioning_that_does_not_fit(made):
    inputs = made()
    inputs["positive"] = [[inputs["positive"][0][0], {"area": (4, 4, 20, 0)}]]
    with pytest.raises(ValueError, match="KSampler: positive: an area starts at cell 20"):
        ksampler(inputs)


def test_an_empty_latent_takes_the_models_channels(made):
    inputs = made("flow")
    inputs["latent_image"] = {"samples": torch.zeros(1, 4, 8, 8)}
    assert ksampler(inputs)["samples"].shape == (1, 16, 8, 8)


def test_manual_sigmas():
    (sigmas,) = ManualSigmas().get_sigmas("14.6, 3 1e-1;.05\n0.")
    assert torch.equal(sigmas, torch.tensor([14.6, 3.0, 0.1, 0.05, 0.0]))
    (empty,) = SetFirstSigma().set_first_sigma(torch.empty(0), 3.0)
    assert len(empty) == 0


def test_parameters_that_no_schedule_has():
    with pytest.raises(ValueError, match="KarrasScheduler: rho is 0"):
        KarrasScheduler().get_sigmas(4, 14.0, 0.03, 0.0)
    with pytest.raises(ValueError, match="ExponentialScheduler: sigma_min is 0"):
        ExponentialScheduler().get_sigmas(4, 14.0, 0.0)
    with pytest.raises(ValueError, match=r"GITSScheduler: coeff: .*0.83 has no schedule.*0.8, 0.85"):
        GITSScheduler().get_sigmas(0.83, 10, 1.0)
    with pytest.raises(ValueError, match=r"ModelSamplingContinuousEDM: sigma_min is 9.0 and sigma_max 2.0"):
        ModelSamplingContinuousEDM().patch(None, "edm", 2.0, 9.0)


def test_model_sampling_discrete_keeps_the_models_betas(gaussian_model):
    model = gaussian_model(sampling=Discrete(beta_end=0.02, beta_schedule="linear"))
    (changed,) = ModelSamplingDiscrete().patch(model, "v_prediction", False)
    assert torch.equal(changed.sampling.sigmas, model.sampling.sigmas)
    assert model.sampling.parametrisation != changed.sampling.parametrisation
