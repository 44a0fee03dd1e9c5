"""Each deterministic sampler converges with its order to the exact solution for a Gaussian.

The probability flow ODE of N(mean, v) has a closed form: `x - alpha mean` grows like the standard deviation
of the noisy latent, sqrt(alpha^2 v + sigma^2).
"""

import math

import pytest
import torch
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow
from slipstream.executor.sampling.samplers import SAMPLERS, dpm

VARIANCE, MEAN = 0.3, 0.7


class Exact:
    """Predicts the posterior mean; CFG++ samplers are told the same without a prompt."""

    def __init__(self, kind):
        self.sampling = Discrete() if kind == "eps" else DiscreteFlow(shift=1.0)
        self.evaluations = 0

    def spread(self, sigma):
        alpha = self.sampling.parametrisation.alpha(sigma)
        return alpha, (alpha**2 * VARIANCE + sigma**2).sqrt()

    def __call__(self, x, sigma):
        self.evaluations += 1
        alpha, spread = self.spread(sigma)
        return MEAN + alpha * VARIANCE / spread**2 * (x - alpha * MEAN)

    def split(self, x, sigma):
        return self(x, sigma), self(x, sigma)

    def solution(self, x, sigma, sigma_end):
        (alpha, spread), (alpha_end, spread_end) = self.spread(sigma), self.spread(sigma_end)
        return alpha_end * MEAN + (x - alpha * MEAN) * spread_end / spread


def silent(step, denoised, x):
    pass


def grid(kind, steps, *, even):
    """Levels from nearly all noise to a little. Unless `even`, the first and last steps are tiny, so that
    the lower orders that multistep methods start and end with do not show."""
    place = torch.arange(steps + 1, dtype=torch.float64) / steps
    high, low = (8.0, 0.4) if kind == "eps" else (0.95, 0.3)
    if even:
        return high + (low - high) * place
    return high * (low / high) ** (place**3 * (10 - 15 * place + 6 * place**2))


def error(name, kind, steps, options, *, even):
    predict = Exact(kind)
    sigmas = grid(kind, steps, even=even)
    x = torch.tensor([[2.5]], dtype=torch.float64)
    options = {"noise": no_noise, **options} if SAMPLERS[name].noise != "none" else options
    result = SAMPLERS[name].function(predict, x, sigmas, callback=silent, **options)
    return abs(float(result - predict.solution(x, sigmas[0], sigmas[-1])))


def no_noise(sigma, sigma_next):
    return torch.zeros(1, 1, dtype=torch.float64)


# name, order, options that make it deterministic, whether its weights are those of an even grid
CLAIMS = [
    ("euler", 1, {}, False),
    ("euler_cfg_pp", 1, {}, False),
    ("euler_ancestral", 1, {"eta": 0.0}, False),
    ("gradient_estimation", 1, {}, False),
    ("heun", 2, {}, False),
    ("heunpp2", 1, {}, False),  # its weights are not those of a second order method
    ("dpm_2", 2, {}, False),
    ("dpm_2_ancestral", 2, {"eta": 0.0}, False),
    ("dpmpp_2s_ancestral", 2, {"eta": 0.0}, False),
    ("dpmpp_2m", 2, {}, False),
    ("dpmpp_2m_cfg_pp", 2, {}, False),
    ("dpmpp_sde", 2, {"eta": 0.0}, False),
    ("dpmpp_2m_sde", 2, {"eta": 0.0}, False),
    ("dpmpp_2m_sde_heun", 2, {"eta": 0.0}, False),
    ("dpmpp_3m_sde", 2, {"eta": 0.0}, False),  # its second difference lacks the factor 2 of the third order
    ("lms", 2, {"order": 2}, False),
    ("lms", 3, {"order": 3}, False),
    ("lms", 4, {}, False),
    ("ipndm", 2, {}, True),  # its first steps, which an even grid does not make tiny, are of low order
    ("ipndm_v", 2, {}, False),
    ("deis", 3, {}, False),
    ("deis", 2, {"max_order": 2}, False),
    ("res_multistep", 2, {}, False),
    ("res_multistep_cfg_pp", 2, {}, False),
    ("seeds_2", 2, {"eta": 0.0}, False),
    ("seeds_3", 3, {"eta": 0.0}, False),
    ("er_sde", 1, {"eta": 0.0, "s_noise": 0.0, "max_stage": 1}, False),
    ("sa_solver", 2, {"eta": 0.0, "predictor_order": 2, "corrector_order": 0}, False),
    ("sa_solver", 4, {"eta": 0.0}, False),  # of its corrector
    ("uni_pc", 4, {}, False),  # of its corrector
    ("uni_pc_bh2", 4, {}, False),
]


@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize(("name", "order", "options", "even"), CLAIMS)
def test_order(name, order, options, even, kind):
    coarse, fine = (error(name, kind, steps, options, even=even) for steps in (160, 320))
    assert math.log2(coarse / fine) > order - 0.3


@pytest.mark.parametrize("kind", ["eps", "flow"])
@pytest.mark.parametrize("stage", [2, 3])
def test_later_stages_of_er_sde(stage, kind):
    """Second order until the 200 points of its integrals limit it."""
    options = {"eta": 0.0, "s_noise": 0.0, "max_stage": stage}
    coarse, fine = (error("er_sde", kind, steps, options, even=False) for steps in (20, 40))
    assert math.log2(coarse / fine) > 1.7


@pytest.mark.parametrize("kind", ["eps", "flow"])
def test_dpm_fast(kind):
    """Third order where the evaluations leave no step of first order."""
    coarse, fine = (error("dpm_fast", kind, steps, {}, even=False) for steps in (20, 80))
    assert math.log2(coarse / fine) / 2 > 2.7


@pytest.mark.parametrize("order", [2, 3])
def test_dpm_adaptive_spends_what_its_tolerance_asks(order):
    def run(tolerance):
        predict, sigmas = Exact("eps"), grid("eps", 10, even=False)
        x = torch.tensor([[2.5]], dtype=torch.float64)
        options = {"order": order, "rtol": tolerance, "atol": tolerance}
        result = dpm.dpm_adaptive(predict, x, sigmas, callback=silent, noise=no_noise, **options)
        return abs(float(result - predict.solution(x, sigmas[0], sigmas[-1]))), predict.evaluations

    (rough, cheap), (exact, dear) = run(0.05), run(0.0005)
    assert exact < 0.001
    assert exact < rough
    assert dear > cheap


def test_dpm_adaptive_stops_at_a_model_that_fails():
    def broken(x, sigma):
        return x * float("nan")

    with pytest.raises(RuntimeError, match="found no step from sigma 8"):
        dpm.dpm_adaptive(
            broken, torch.ones(1, 1), grid("eps", 4, even=False), callback=silent, noise=no_noise
        )


def test_dpmpp_2s_with_cfg_pp_does_not_converge():
    """It takes the prediction without a prompt from the middle of the step, as ComfyUI does, even where
    both agree."""
    coarse, fine = (error("dpmpp_2s_ancestral_cfg_pp", "eps", n, {"eta": 0.0}, even=False) for n in (80, 160))
    assert fine > 0.9 * coarse
