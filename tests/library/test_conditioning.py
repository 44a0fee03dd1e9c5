import logging

import pytest
import torch
from slipstream.executor.library import conditioning as c


def entry(tokens=3, width=2, value=1.0, pooled=None, **options):
    if pooled is not None:
        options["pooled_output"] = torch.full((1, 2), pooled)
    return [torch.full((1, tokens, width), value), options]


def test_combine_appends():
    a, b = [entry()], [entry(), entry()]
    assert c.ConditioningCombine().combine(a, b)[0] == a + b


def test_concat_adds_the_tokens_of_the_first(caplog):
    with caplog.at_level(logging.WARNING):
        (result,) = c.ConditioningConcat().concat(
            [entry(3, strength=0.5), entry(2)], [entry(4, value=7.0), entry(9)]
        )
    assert [tensor.shape[1] for tensor, _ in result] == [7, 6]
    assert result[0][0][0, :, 0].tolist() == [1, 1, 1, 7, 7, 7, 7]
    assert result[0][1] == {"strength": 0.5}
    assert "ConditioningConcat: conditioning_from has 2 entries" in caplog.text


@pytest.mark.parametrize(("tokens", "expected"), [(2, [2.5, 2.5, 0.25]), (5, [2.5, 2.5, 2.5])])
def test_average_cuts_or_fills_up(tokens, expected):
    """1 at a quarter, 3 at three quarters; where the second has no tokens, a quarter of the first."""
    to, other = [entry(3)], [entry(tokens, value=3.0)]
    ((tensor, options),) = c.ConditioningAverage().average(to, other, 0.25)[0]
    assert tensor[0, :, 0].tolist() == expected
    assert options == {}


def test_average_mixes_pooled_outputs():
    average = c.ConditioningAverage().average
    pooled = average([entry(pooled=1.0)], [entry(pooled=3.0)], 0.25)[0][0][1]["pooled_output"]
    assert pooled.tolist() == [[2.5, 2.5]]
    assert average([entry()], [entry(pooled=3.0)], 0.25)[0][0][1]["pooled_output"].tolist() == [[3, 3]]
    assert average([entry(pooled=1.0)], [entry()], 0.25)[0][0][1]["pooled_output"].tolist() == [[1, 1]]


def test_zero_out_keeps_the_options():
    given = [entry(pooled=3.0, guidance=2.0)]
    ((tensor, options),) = c.ConditioningZeroOut().zero_out(given)[0]
    assert not tensor.any()
    assert not options["pooled_output"].any()
    assert options["guidance"] == 2.0
    assert given[0][1]["pooled_output"].any()


MASK = torch.ones(5, 6)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            c.ConditioningSetTimestepRange().set_range([entry()], 0.1, 0.7),
            {"start_percent": 0.1, "end_percent": 0.7},
        ),
        (
            c.ConditioningSetArea().set_area([entry()], 64, 128, 16, 24, 0.5),
            {"area": (16, 8, 3, 2), "strength": 0.5, "set_area_to_bounds": False},
        ),
        (
            c.ConditioningSetAreaPercentage().set_area([entry()], 0.5, 0.25, 0.1, 0.2, 2.0),
            {"area": ("percentage", 0.25, 0.5, 0.2, 0.1), "strength": 2.0, "set_area_to_bounds": False},
        ),
        (c.ConditioningSetAreaStrength().set_strength([entry()], 0.3), {"strength": 0.3}),
    ],
)
def test_options_that_are_set(result, expected):
    assert result[0][0][1] == expected


@pytest.mark.parametrize(("choice", "bounds"), [("default", False), ("mask bounds", True)])
def test_mask(choice, bounds):
    options = c.ConditioningSetMask().set_mask([entry()], MASK, 0.4, choice)[0][0][1]
    assert options.pop("mask").shape == (1, 5, 6)
    assert options == {"mask_strength": 0.4, "set_area_to_bounds": bounds}


class Encoder:
    """A VAE whose latent is the picture."""

    def encode(self, pixels):
        return pixels.clone()


def test_inpaint_conditioning():
    pixels = torch.rand(1, 19, 24, 3)
    mask = torch.zeros(19, 24)
    mask[:, :12] = 0.6  # rounds to masked
    positive, negative, latent = c.InpaintModelConditioning().encode(
        [entry(guidance=1.0)], [entry()], Encoder(), pixels, mask
    )
    assert torch.equal(latent["samples"], pixels)
    seen = positive[0][1]["concat_latent_image"]
    # 19 rows hold two cells of 8; of the 3 left over, one goes at the top and two at the bottom.
    assert torch.allclose(seen[:, :, 12:], pixels[:, 1:17, 12:])
    assert torch.equal(seen[:, :, :12], torch.full((1, 16, 12, 3), 0.5))
    assert torch.equal(latent["noise_mask"], mask[None, None, 1:17])
    assert torch.equal(positive[0][1]["concat_mask"], negative[0][1]["concat_mask"])
    assert positive[0][1]["guidance"] == 1.0


def test_inpaint_conditioning_without_noise_mask():
    latent = c.InpaintModelConditioning().encode(
        [entry()], [entry()], Encoder(), torch.rand(1, 16, 16, 3), MASK, noise_mask=False
    )[2]
    assert latent.keys() == {"samples"}
