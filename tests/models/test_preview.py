"""Previews: a latent's channels mixed into colours."""

import torch
from slipstream.executor.models import pipeline_folder
from slipstream.executor.models.folders import BUNDLED
from slipstream.executor.sampling.preview import to_rgb


def test_the_bundled_model_says_how_its_latents_look():
    model, _, vae = pipeline_folder.load(BUNDLED / "shapes")
    picture = torch.zeros(1, 128, 128, 3)
    picture[:, :, :64, 0] = 1.0  # red, and right of it green
    picture[:, :, 64:, 1] = 1.0
    latent = model.latent.encode(vae.encode(picture))
    shown = to_rgb(latent, model.latent).float()
    assert shown.shape == (16, 16, 3)
    left, right = shown[4:12, 2:6].mean((0, 1)), shown[4:12, 10:14].mean((0, 1))
    assert left.argmax() == 0
    assert right.argmax() == 1
