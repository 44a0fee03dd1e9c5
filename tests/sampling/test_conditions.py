"""Areas, masks and times where the captures from ComfyUI do not reach: odd shapes and errors."""

import math

import pytest
import torch
from slipstream.executor.sampling.conditions import BadCondition, prepare, repeat_to_batch
from slipstream.executor.sampling.latents import fit_latent, fit_mask
from slipstream.executor.sampling.model import ConditionKey, LatentFormat
from slipstream.executor.sampling.prediction import Discrete
from slipstream.executor.sampling.preview import to_rgb

IMAGE, VIDEO = (1, 4, 8, 12), (1, 4, 3, 8, 12)


class Predictor:
    """Takes the entry's tensor, and says what it was given."""

    def __init__(self):
        self.given = []

    def prepare(self, entry, **around):
        self.given.append((entry[1], around))
        return {"grid": entry[0], "text": torch.zeros(1, 5, 7), "frames": 3}


def prepared(shape=IMAGE, positive=(), negative=({},), predictor=None):
    noise = torch.zeros(shape)
    roles = {
        role: [(torch.arange(math.prod(shape)).view(shape).float(), options) for options in entries]
        for role, entries in (("positive", positive), ("negative", negative))
    }
    return prepare(
        roles, predictor or Predictor(), Discrete(), noise=noise, latent_image=noise, denoise_mask=None
    )


def test_inputs_on_the_latents_grid_are_cut_and_all_are_repeated():
    (condition,) = prepared((2, 4, 8, 12), [{"area": (4, 6, 2, 3)}])["positive"]
    assert condition.inputs["grid"].shape == (2, 4, 4, 6)
    assert condition.inputs["grid"][0, 0, 0, 0] == 2 * 12 + 3
    assert condition.inputs["text"].shape == (2, 5, 7)
    assert condition.inputs["frames"] == 3


def test_the_predictor_is_told_the_role():
    predictor = Predictor()
    prepared(positive=[{"guidance": 3.5}], predictor=predictor)
    assert [options for options, _ in predictor.given] == [
        {"prompt_type": "positive", "guidance": 3.5},
        {"prompt_type": "negative"},
    ]


def test_area_gets_a_counterpart_in_the_other_role():
    conditions = prepared(positive=[{}, {"area": (4, 4, 0, 0), "strength": 0.5}])
    assert [c.key for c in conditions["negative"]] == [
        ConditionKey("negative", 0),
        ConditionKey("negative", 1),
    ]
    assert conditions["negative"][1].area == ((4, 0), (4, 0))


def test_area_reaching_beyond_the_latent_is_cut():
    (condition,) = prepared(positive=[{"area": (99, 99, 2, 3)}])["positive"]
    assert condition.area == ((6, 2), (9, 3))


def test_area_fades_in_where_it_ends_inside():
    (condition,) = prepared(positive=[{"area": (8, 8, 0, 4), "strength": 2.0}])["positive"]
    weight = condition.weight[0, 0]
    assert weight[:, 0].tolist() == [1.0] * 8  # a ramp of two cells to the left
    assert weight[:, 1:].unique().tolist() == [2.0]


@pytest.mark.parametrize("area", [(4, 4, 8, 0), (4, 4, 0, 12), ("percentage", 0.5, 0.5, 1.0, 0.0)])
def test_area_outside_the_latent(area):
    with pytest.raises(BadCondition, match=r"positive: an area starts at cell .* outside the latent"):
        prepared(positive=[{"area": area}])


def test_an_area_of_two_axes_spans_all_frames():
    (condition,) = prepared(VIDEO, [{"area": ("percentage", 0.5, 0.25, 0.5, 0.5)}])["positive"]
    assert condition.area == ((3, 0), (4, 4), (3, 6))


def test_a_mask_of_the_wrong_number_of_frames():
    with pytest.raises(
        BadCondition, match=r"positive: a mask of shape \(1, 2, 8, 12\) does not fit a latent"
    ):
        prepared(VIDEO, [{"mask": torch.ones(2, 8, 12)}])


def test_mask_with_bounds_covers_at_least_eight_cells():
    mask = torch.zeros(1, 8, 12)
    mask[0, 3, 6] = 1
    (condition,) = prepared(positive=[{"mask": mask, "set_area_to_bounds": True}])["positive"]
    assert condition.area == ((5, 3), (6, 6))  # as far as the latent goes


def test_times_are_percents_of_the_schedule():
    (condition,) = prepared(positive=[{"start_percent": 0.0, "end_percent": 0.5}])["positive"]
    sampling = Discrete()
    assert condition.applies(torch.tensor(sampling.sigma_max))
    assert not condition.applies(torch.tensor(sampling.sigma_min))
    assert condition.sigma_end == sampling.percent_to_sigma(0.5)


def test_repeat_to_batch():
    rows = torch.arange(3).view(3, 1)
    assert repeat_to_batch(rows, 2).flatten().tolist() == [0, 1]
    assert repeat_to_batch(rows, 7).flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_empty_latents_take_the_models_channels():
    assert fit_latent(torch.zeros(2, 4, 8, 8), LatentFormat(channels=16)).shape == (2, 16, 8, 8)
    assert fit_latent(torch.zeros(2, 16, 8, 8), LatentFormat(channels=4)).shape == (2, 4, 8, 8)
    assert fit_latent(torch.zeros(2, 4, 8, 8), LatentFormat(channels=16, dims=3)).shape == (2, 16, 1, 8, 8)


def test_latents_of_another_family():
    with pytest.raises(ValueError, match=r"has 4 channels, but the model works on 16 .*EmptySD3LatentImage"):
        fit_latent(torch.ones(1, 4, 8, 8), LatentFormat(channels=16))
    with pytest.raises(ValueError, match=r"has 5 axes .* but the model works on B C H W .*EmptyLatentImage"):
        fit_latent(torch.zeros(1, 4, 1, 8, 8), LatentFormat(channels=4))
    with pytest.raises(ValueError, match=r"has 3 axes .* works on B C T H W"):
        fit_latent(torch.zeros(4, 8, 8), LatentFormat(channels=16, dims=3))


@pytest.mark.parametrize(
    ("mask", "shape", "expected"),
    [
        ((16, 24), (1, 4, 8, 12), (1, 1, 8, 12)),
        ((1, 16, 24), (3, 4, 8, 12), (3, 1, 8, 12)),
        ((2, 1, 16, 24), (3, 4, 8, 12), (3, 1, 8, 12)),
        ((5, 16, 24), (1, 4, 3, 8, 12), (1, 1, 3, 8, 12)),
        ((1, 4, 3, 8, 12), (2, 4, 3, 8, 12), (2, 4, 3, 8, 12)),
    ],
)
def test_masks_are_made_to_fit(mask, shape, expected):
    assert fit_mask(torch.rand(mask), shape).shape == expected


@pytest.mark.parametrize("shape", [(8,), (1, 1, 1, 8, 8)])
def test_masks_that_cannot_fit(shape):
    with pytest.raises(ValueError, match="a mask is"):
        fit_mask(torch.ones(shape), (1, 4, 8, 8))


def test_preview():
    form = LatentFormat(channels=2, rgb_factors=((1.0, 0.0, 0.0), (0.0, 0.5, 0.0)), rgb_bias=(0.0, 0.0, 1.0))
    latent = torch.tensor([-1.0, 2.0]).view(1, 2, 1, 1)
    assert to_rgb(latent, form).tolist() == [[[0, 255, 255]]]
    assert to_rgb(latent.unsqueeze(2), form).tolist() == [[[0, 255, 255]]]
    assert to_rgb(latent, LatentFormat(channels=2)) is None
