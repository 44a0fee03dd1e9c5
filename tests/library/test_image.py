"""What the calls recorded from ComfyUI do not cover."""

import pytest
import torch
from slipstream.executor.library import compositing, image, image_effects, mask


@pytest.mark.parametrize(
    ("shape", "size"), [((100, 100), (1024, 1024)), ((100, 240), (1568, 672)), ((190, 100), (752, 1392))]
)
def test_kontext_size_of_the_nearest_aspect(shape, size):
    (result,) = image.FluxKontextImageScale().scale(torch.zeros(1, *shape, 3))
    assert (result.shape[2], result.shape[1]) == size


def test_zero_side_follows_the_aspect_ratio():
    given = torch.zeros(1, 30, 60, 3)
    scale = image.ImageScale().upscale
    assert scale(given, "area", 0, 10, "disabled")[0].shape == (1, 10, 20, 3)
    assert scale(given, "area", 20, 0, "disabled")[0].shape == (1, 10, 20, 3)
    assert scale(given, "area", 0, 0, "disabled")[0] is given


def test_blending_another_size_and_missing_alpha():
    below, above = torch.ones(1, 8, 8, 4), torch.zeros(1, 4, 4, 3)
    (result,) = image_effects.ImageBlend().blend(below, above, 0.5, "normal")
    assert result.shape == (1, 8, 8, 4)
    assert torch.equal(result[..., :3], torch.full((1, 8, 8, 3), 0.5))
    assert torch.equal(result[..., 3], torch.ones(1, 8, 8))


def test_pasting_opaque_on_transparent():
    destination, source = torch.zeros(1, 4, 4, 4), torch.full((1, 2, 2, 3), 0.5)
    (result,) = compositing.ImageCompositeMasked().composite(destination, source, 2, 2, False)
    assert result[0, 3, 3].tolist() == [0.5, 0.5, 0.5, 1]
    assert result[0, 1, 1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("channel", ["red", "alpha"])
def test_missing_channel_is_named(channel):
    given = torch.zeros(1, 2, 2, 3)
    if channel == "red":
        assert mask.ImageToMask().image_to_mask(given, channel)[0].shape == (1, 2, 2)
    else:
        with pytest.raises(ValueError, match="the image has 3 channels and no alpha one"):
            mask.ImageToMask().image_to_mask(given, channel)


def test_kernel_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="ImageBlur: a radius of 5 needs an image of more than 5 pixels"):
        image_effects.ImageBlur().blur(torch.zeros(1, 5, 9, 3), 5, 1.0)


def test_quantising_keeps_alpha():
    given = torch.rand(1, 8, 8, 4)
    (result,) = image_effects.ImageQuantize().quantize(given, 2, "none")
    assert torch.equal(result[..., 3], given[..., 3])
    assert len(result[..., :3].reshape(-1, 3).unique(dim=0)) == 2


def test_splitting_an_image_without_alpha():
    result, transparent = compositing.SplitImageWithAlpha().split(torch.ones(2, 3, 4, 3))
    assert result.shape == (2, 3, 4, 3)
    assert torch.equal(transparent, torch.zeros(2, 3, 4))
