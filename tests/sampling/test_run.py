"""What every run keeps to, whatever the sampler."""

from dataclasses import replace

import pytest
import torch
from slipstream.executor.sampling.guidance import CFGGuider, DualCFGGuider
from slipstream.executor.sampling.model import ConditionKey, LatentFormat
from slipstream.executor.sampling.noise import RandomNoise, brownian
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow
from slipstream.executor.sampling.run import cut_steps, sample
from slipstream.executor.sampling.samplers import SAMPLERS, Sampler
from slipstream.executor.sampling.schedules import SCHEDULES, schedule

STEPS = 6
SHAPE = (2, 4, 4, 4)


@pytest.fixture
def make_guider(gaussian_model):
    def make(kind="eps", **options):
        sampling = Discrete() if kind == "eps" else DiscreteFlow(shift=3.0)
        model = gaussian_model(sampling=sampling).with_options(**options)
        generator = torch.Generator().manual_seed(1)
        positive, negative = ([[torch.randn(1, *SHAPE[1:], generator=generator), {}]] for _ in range(2))
        return CFGGuider(model, positive, negative, 3.0)

    return make


def run(guider, name, seed=5, callback=None, latent=None, **options):
    latent = torch.zeros(SHAPE) if latent is None else latent
    sigmas = schedule(guider.model.sampling, "simple", STEPS)
    noise = RandomNoise(seed).generate({"samples": latent})
    return sample(guider, Sampler(name, options), sigmas, noise, latent, seed=seed, callback=callback)


@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_seed_gives_the_same_bits(name, kind, make_guider):
    first, again, other = (run(make_guider(kind), name, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("name", [n for n, a in SAMPLERS.items() if a.noise in ("none", "brownian")])
def test_a_gpu_gives_what_the_cpu_gives(name, kind, make_guider):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    guider = make_guider(kind)
    expected = run(guider, name)
    moved = replace(guider, model=replace(guider.model, device=torch.device("cuda")))
    torch.testing.assert_close(run(moved, name), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_call_a_step(name, make_guider):
    seen = []
    guider = make_guider()
    run(guider, name, callback=lambda *call: seen.append(call))
    steps = [step for step, *_ in seen]
    assert all(total == STEPS for *_, total in seen)
    assert all(denoised.shape == x.shape == SHAPE for _, denoised, x, _ in seen)
    if name == "dpm_fast":  # its steps cost three, two and one evaluations
        assert steps == [2, 4, 5]
    elif name == "dpm_adaptive":  # its steps are its own affair; it tells the part of the way that is done
        assert steps == sorted(steps)
        assert steps[-1] == STEPS - 1
    else:
        assert steps == list(range(STEPS))


@pytest.mark.parametrize("name", ["euler", "dpmpp_2m_sde", "uni_pc", "sa_solver"])
def test_a_callback_that_raises_leaves_nothing_behind(name, make_guider):
    class Stop(BaseException):
        pass

    def stop(step, denoised, x, total):
        assert guider.model.open == [True]
        if step == 2:
            raise Stop

    guider = make_guider()
    before = run(guider, name)
    with pytest.raises(Stop):
        run(guider, name, callback=stop)
    assert guider.model.open == []
    assert torch.equal(run(guider, name), before)


def test_callers_tensors_stay_as_they_are(make_guider):
    guider = make_guider("flow")
    latent = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))
    noise = RandomNoise(1).generate({"samples": latent})
    mask = torch.full((2, 1, 4, 4), 0.5)
    sigmas = schedule(guider.model.sampling, "simple", STEPS)
    copies = [t.clone() for t in (latent, noise, mask, sigmas)]
    for name in ("uni_pc", "dpmpp_2m_sde", "er_sde"):
        sample(guider, Sampler(name), sigmas, noise, latent, seed=1, denoise_mask=mask)
    assert all(torch.equal(a, b) for a, b in zip((latent, noise, mask, sigmas), copies, strict=True))


def test_no_sigmas_give_the_latent_back(make_guider):
    latent = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))
    guider = make_guider()
    assert torch.equal(sample(guider, Sampler("euler"), torch.empty(0), latent, latent, seed=0), latent)
    assert guider.model.calls == []


def test_one_step_of_uni_pc_denoises(make_guider):
    """ComfyUI's hands back the noise."""
    guider = make_guider()
    latent = torch.zeros(SHAPE)
    sigmas = torch.tensor([guider.model.sampling.sigma_max, 0.0])
    noise = RandomNoise(2).generate({"samples": latent})
    uni_pc, euler = (
        sample(guider, Sampler(name), sigmas, noise, latent, seed=2) for name in ("uni_pc", "euler")
    )
    assert float((uni_pc - euler).abs().max()) < 0.01


def test_sa_solver_stops_where_it_was_told(make_guider):
    """A run with leftover noise ends at the last sigma, not (as in ComfyUI) at the one before it."""
    guider = make_guider()
    sigmas = schedule(guider.model.sampling, "simple", 20)[:13]
    latent = torch.zeros(SHAPE)
    noise = RandomNoise(2).generate({"samples": latent})
    left = sample(guider, Sampler("sa_solver", {"eta": 0.0}), sigmas, noise, latent, seed=2)
    euler = sample(guider, Sampler("heun"), sigmas, noise, latent, seed=2)
    assert float((left - euler).std() / euler.std()) < 0.05


def test_compatible_conditions_share_a_batch(make_guider):
    guider = make_guider()
    run(guider, "euler")
    assert guider.model.calls == [(ConditionKey("positive", 0), ConditionKey("negative", 0))] * STEPS


def test_conditions_one_by_one(make_guider):
    together, apart = make_guider(), make_guider(batch_conditions=False)
    assert torch.equal(run(together, "euler"), run(apart, "euler"))
    assert apart.model.calls == [(ConditionKey("positive", 0),), (ConditionKey("negative", 0),)] * STEPS


def test_no_evaluation_that_guidance_does_not_need(make_guider, gaussian_model):
    guider = make_guider()
    at_one = CFGGuider(guider.model, guider.positive, guider.negative, 1.0)
    run(at_one, "euler")
    assert guider.model.calls == [(ConditionKey("positive", 0),)] * STEPS
    guider.model.calls.clear()
    run(at_one, "euler_cfg_pp")  # needs the prediction without a prompt all the same
    assert {len(call) for call in guider.model.calls} == {2}
    guider.model.calls.clear()
    dual = DualCFGGuider(guider.model, guider.positive, guider.positive, guider.negative, 2.0, 1.0)
    run(dual, "euler")
    assert {tuple(key.role for key in call) for call in guider.model.calls} == {("positive", "middle")}


@pytest.mark.parametrize("noised", [False, True])
def test_kept_part_goes_in_clean_where_the_family_wants_it(noised, make_guider):
    guider = make_guider("flow", noise_kept_part=noised)
    latent = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))
    noise = RandomNoise(1).generate({"samples": latent})
    sigmas = torch.tensor([1.0, 0.5, 0.0])
    keep_all = torch.zeros(1, 1, 4, 4)
    result = sample(guider, Sampler("euler"), sigmas, noise, latent, seed=1, denoise_mask=keep_all)
    fed = [x.chunk(2)[0] for x in guider.model.latents]
    expected = [noise, (latent + noise) / 2] if noised else [latent, latent]
    for x, wanted in zip(fed, expected, strict=True):
        torch.testing.assert_close(x, wanted)
    torch.testing.assert_close(result, latent)


@pytest.mark.parametrize(
    ("start", "end", "full", "expected"),
    [
        (0, 10000, True, [4.0, 3.0, 2.0, 1.0, 0.0]),
        (1, 3, False, [3.0, 2.0, 1.0]),
        (1, 3, True, [3.0, 2.0, 0.0]),
        (4, 10000, True, []),
        (3, 2, True, []),
    ],
)
def test_cut_steps(start, end, full, expected):
    sigmas = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0])
    assert cut_steps(sigmas, start, end, force_full_denoise=full).tolist() == expected
    assert sigmas.tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]


def test_brownian_noise_does_not_depend_on_the_steps():
    x, sigmas = torch.zeros(1, 1, 2, 2), torch.tensor([10.0, 1.0, 0.0])
    noise = brownian(x, sigmas, 3)
    high, middle, low = (torch.tensor(s) for s in (9.0, 4.0, 2.0))
    whole = noise(high, low) * (high - low).sqrt()
    parts = noise(high, middle) * (high - middle).sqrt() + noise(middle, low) * (middle - low).sqrt()
    torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-4)


def test_seeds_up_to_the_last(make_guider):
    latent = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))
    for name in ("euler", "ddim", "dpmpp_2m_sde", "euler_ancestral"):
        run(make_guider(), name, seed=2**64 - 1, latent=latent)


def test_unknown_names():
    with pytest.raises(ValueError, match="unknown sampler 'eular'; known are euler, "):
        Sampler("eular")
    with pytest.raises(ValueError, match="unknown scheduler 'carras'; known are simple, "):
        schedule(Discrete(), "carras", 4)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("steps", [1, 2, 50])
def test_schedules_descend_to_zero(name, kind, steps):
    sigmas = schedule(Discrete() if kind == "eps" else DiscreteFlow(shift=3.0), name, steps)
    assert torch.isfinite(sigmas).all()
    assert sigmas[-1] == 0
    assert (sigmas.diff() < 0).all()


def test_latent_formats_undo_themselves():
    form = LatentFormat(channels=2, scale=(0.5, 2.0), shift=(1.0, -1.0))
    latent = torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    encoded = form.encode(latent)
    torch.testing.assert_close(encoded[:, 0], (latent[:, 0] - 1) * 0.5)
    torch.testing.assert_close(form.decode(encoded), latent)
