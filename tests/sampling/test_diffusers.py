"""The samplers against diffusers' own schedulers, with the same sigmas, noise and (Gaussian) model, in
float32.

diffusers keeps most of its latents in variance preserving form, `x / sqrt(1 + sigma^2)`; here they are in
variance exploding form throughout.
"""

import diffusers
import numpy as np
import pytest
import torch
from slipstream.executor.sampling.parametrisation import Consistency
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow
from slipstream.executor.sampling.samplers import SAMPLERS

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

STEPS = 12
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
GENERATOR = torch.Generator().manual_seed(0)
MEAN, NOISE = (torch.randn(2, 4, 8, 8, generator=GENERATOR) for _ in range(2))
VARIANCE = 0.25


class Gaussian:
    def __init__(self, flow=False):
        self.sampling = DiscreteFlow(shift=3.0) if flow else Discrete()

    def __call__(self, x, sigma):
        alpha = self.sampling.parametrisation.alpha(torch.as_tensor(sigma))
        return MEAN + alpha * VARIANCE / (alpha**2 * VARIANCE + sigma**2) * (x - alpha * MEAN)


def ours(name, sigmas, predict=None, **options):
    predict, sigmas = predict or Gaussian(), torch.as_tensor(sigmas).float()
    start = NOISE * (sigmas[0] if predict.sampling.flow else (1 + sigmas[0] ** 2).sqrt())
    return SAMPLERS[name].function(predict, start, sigmas, callback=lambda *_: None, **options)


def drawn(seed):
    """Noise as a diffusers scheduler draws it from a generator of that seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *_: torch.randn(MEAN.shape, generator=generator)


def theirs(scheduler, sigmas, **options):
    """Run a scheduler that was told its timesteps; `sigmas` are the levels that its steps start at."""
    x, model = NOISE.clone(), Gaussian()
    exploding = scheduler.init_noise_sigma > 1
    if exploding:
        x = x * (1 + sigmas[0] ** 2) ** 0.5
    for timestep, sigma in zip(scheduler.timesteps, sigmas, strict=False):
        sigma = torch.as_tensor(float(sigma))
        noisy = x if exploding else x * (1 + sigma**2).sqrt()
        output = (noisy - model(noisy, sigma)) / sigma
        scheduler.scale_model_input(x, timestep)
        x = scheduler.step(output, timestep, x, **options).prev_sample
    return x


def agree(a, b):
    assert float((a - b).abs().max() / b.abs().max()) < 1e-4


def with_steps(kind, **config):
    scheduler = kind(**BETAS, **config)
    scheduler.set_timesteps(STEPS)
    return scheduler


def test_flow_euler():
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=1.0)
    sigmas = np.linspace(1.0, 0.1, STEPS)
    scheduler.set_timesteps(sigmas=sigmas.tolist())
    x, model = NOISE.clone(), Gaussian(flow=True)
    for timestep, sigma in zip(scheduler.timesteps, scheduler.sigmas[:-1], strict=True):
        x = scheduler.step((x - model(x, sigma)) / sigma, timestep, x).prev_sample
    agree(ours("euler", scheduler.sigmas, model), x)


def test_flow_heun():
    scheduler = diffusers.FlowMatchHeunDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(STEPS)
    x, model = NOISE.clone(), Gaussian(flow=True)
    for timestep in scheduler.timesteps:
        sigma = timestep / 1000
        x = scheduler.step((x - model(x, sigma)) / sigma, timestep, x).prev_sample
    levels = [*(scheduler.timesteps[::2] / 1000).tolist(), 0.0]
    agree(ours("heun", levels, model), x)


@pytest.mark.parametrize("karras", [False, True])
def test_euler(karras):
    scheduler = with_steps(diffusers.EulerDiscreteScheduler, use_karras_sigmas=karras)
    agree(ours("euler", scheduler.sigmas), theirs(scheduler, scheduler.sigmas))


def test_euler_ancestral():
    scheduler = with_steps(diffusers.EulerAncestralDiscreteScheduler)
    expected = theirs(scheduler, scheduler.sigmas, generator=torch.Generator().manual_seed(8))
    agree(ours("euler_ancestral", scheduler.sigmas, noise=drawn(8)), expected)


def test_heun():
    scheduler = with_steps(diffusers.HeunDiscreteScheduler)
    sigmas = torch.unique(scheduler.sigmas).flip(0)
    agree(ours("heun", sigmas), theirs(scheduler, scheduler.sigmas))


def test_dpm_2():
    scheduler = with_steps(diffusers.KDPM2DiscreteScheduler)
    evaluated = [
        s for pair in zip(scheduler.sigmas[::2], scheduler.sigmas_interpol[1::2], strict=False) for s in pair
    ]
    levels = [*scheduler.sigmas[::2][:STEPS].tolist(), 0.0]
    agree(ours("dpm_2", levels), theirs(scheduler, evaluated))


def test_lms():
    """Save for the step to 0, where ours takes the clean latent."""
    scheduler = with_steps(diffusers.LMSDiscreteScheduler)
    scheduler.timesteps = scheduler.timesteps[:-1]
    agree(ours("lms", scheduler.sigmas[:-1]), theirs(scheduler, scheduler.sigmas))


def test_ddim():
    scheduler = with_steps(diffusers.DDIMScheduler, set_alpha_to_one=True, clip_sample=False)
    alphas = scheduler.alphas_cumprod[scheduler.timesteps]
    sigmas = ((1 - alphas) / alphas).sqrt()
    agree(ours("ddim", [*sigmas.tolist(), 0.0]), theirs(scheduler, sigmas, eta=0.0))


def test_ddpm():
    scheduler = with_steps(diffusers.DDPMScheduler, clip_sample=False)
    alphas = scheduler.alphas_cumprod[scheduler.timesteps]
    sigmas = ((1 - alphas) / alphas).sqrt()
    expected = theirs(scheduler, sigmas, generator=torch.Generator().manual_seed(8))
    agree(ours("ddpm", [*sigmas.tolist(), 0.0], noise=drawn(8)), expected)


def test_lcm():
    scheduler = diffusers.LCMScheduler(**BETAS, clip_sample=False)
    scheduler.set_timesteps(4)
    alphas = scheduler.alphas_cumprod[scheduler.timesteps]
    sigmas = ((1 - alphas) / alphas).sqrt()
    expected = theirs(scheduler, sigmas, generator=torch.Generator().manual_seed(8))
    model = Gaussian()
    timesteps = dict(zip(sigmas.tolist(), scheduler.timesteps.tolist(), strict=True))

    class Bounded:
        """The boundary condition of the scheduler, which sees the variance preserving latent."""

        sampling = model.sampling

        def __call__(self, x, sigma):
            skip, out = scheduler.get_scalings_for_boundary_condition_discrete(timesteps[float(sigma)])
            return out * model(x, sigma) + skip * x / (1 + sigma**2).sqrt()

    agree(ours("lcm", [*sigmas.tolist(), 0.0], Bounded(), noise=drawn(8)), expected)


@pytest.mark.parametrize("timestep", [19, 499, 999])
def test_boundary_condition_of_consistency_models(timestep):
    skip, out = diffusers.LCMScheduler(**BETAS).get_scalings_for_boundary_condition_discrete(timestep)
    x, output, sigma = MEAN, NOISE, torch.tensor(2.0)
    expected = out * (x - sigma * output) + skip * x
    torch.testing.assert_close(Consistency().denoised(x, output, sigma, torch.tensor(timestep)), expected)


@pytest.mark.parametrize("final", ["zero", "sigma_min"])
def test_dpmpp_2m(final):
    scheduler = with_steps(
        diffusers.DPMSolverMultistepScheduler, final_sigmas_type=final, euler_at_final=True
    )
    if final == "sigma_min":
        scheduler.config.euler_at_final = scheduler.config.lower_order_final = False
    agree(ours("dpmpp_2m", scheduler.sigmas), preserving(scheduler))


def preserving(scheduler, **options):
    """The result of a scheduler with variance preserving latents, in variance exploding form."""
    return theirs(scheduler, scheduler.sigmas, **options) * (1 + float(scheduler.sigmas[-1]) ** 2) ** 0.5


@pytest.mark.parametrize("solver", ["midpoint", "heun"])
def test_dpmpp_2m_sde(solver):
    scheduler = with_steps(
        diffusers.DPMSolverMultistepScheduler, algorithm_type="sde-dpmsolver++", solver_type=solver
    )
    expected = preserving(scheduler, generator=torch.Generator().manual_seed(8))
    agree(ours("dpmpp_2m_sde", scheduler.sigmas, noise=drawn(8), solver_type=solver), expected)


def test_dpmpp_3m():
    """Without noise; the solver of third order, whose second step is that of second order with the Heun
    rule."""
    scheduler = with_steps(
        diffusers.DPMSolverMultistepScheduler,
        solver_order=3,
        solver_type="heun",
        final_sigmas_type="sigma_min",
        lower_order_final=False,
    )
    agree(ours("dpmpp_3m_sde", scheduler.sigmas, noise=None, eta=0.0), preserving(scheduler))


@pytest.mark.parametrize("solver", ["bh1", "bh2"])
def test_uni_pc(solver):
    scheduler = with_steps(
        diffusers.UniPCMultistepScheduler, solver_order=3, solver_type=solver, final_sigmas_type="sigma_min"
    )
    agree(ours("uni_pc", scheduler.sigmas, variant=solver), preserving(scheduler))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_sa_solver(order):
    """As an ODE (tau 0)."""
    scheduler = with_steps(
        diffusers.SASolverScheduler,
        predictor_order=order,
        corrector_order=order,
        tau_func=lambda t: 0,
        lower_order_final=False,
    )
    options = {"predictor_order": order, "corrector_order": order, "simple_order_2": True}
    agree(ours("sa_solver", scheduler.sigmas, noise=None, eta=0.0, **options), preserving(scheduler))
