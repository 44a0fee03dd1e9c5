"""One sampling run inside a node: checks with the node's words, progress with previews, LATENTs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image
from torch import Tensor

from .. import context
from ..sampling.conditions import BadCondition
from ..sampling.guidance import Guider
from ..sampling.latents import fit_latent, fit_mask
from ..sampling.model import LatentFormat
from ..sampling.preview import to_rgb
from ..sampling.run import sample
from ..sampling.samplers import Sampler
from .inputs import integer, real

CFG = real(8.0, 0.0, 100.0, 0.1, round=0.01)
SEED = integer(0, 0, 2**64 - 1, control_after_generate=True)


@contextmanager
def blaming(node: str, name: str) -> Iterator[None]:
    """A ValueError about input `name` tells which node and input it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{node}: {name} {error}") from error


def fitted(node: str, latent: dict[str, Any], form: LatentFormat) -> dict[str, Any]:
    """A LATENT in the shape that the model works on."""
    with blaming(node, "latent_image"):
        return {**latent, "samples": fit_latent(latent["samples"], form)}


def run(
    node: str,
    guider: Guider,
    sampler: Sampler,
    sigmas: Tensor,
    make_noise: Callable[[dict[str, Any]], Tensor],
    latent: dict[str, Any],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sampled LATENT, and the clean one that the model saw in the last step (the same where there was
    none)."""
    form = guider.model.latent
    latent = fitted(node, latent, form)
    mask = latent.get("noise_mask")
    if mask is not None:
        with blaming(node, "latent_image's noise_mask"):
            mask = fit_mask(mask, latent["samples"].shape)
    last: list[Tensor] = []

    def progress(step: int, denoised: Tensor, x: Tensor, total: int) -> None:
        last[:] = [denoised]
        context.progress(step + 1, total, _preview(denoised, form))

    try:
        samples = sample(
            guider,
            sampler,
            sigmas,
            make_noise(latent),
            latent["samples"],
            seed=seed,
            denoise_mask=mask,
            callback=progress,
        )
    except BadCondition as error:
        raise BadCondition(f"{node}: {error}") from error
    output = {**latent, "samples": samples}
    clean = {**latent, "samples": form.decode(last[0].float()).cpu()} if last else output
    return output, clean


def _preview(denoised: Tensor, form: LatentFormat) -> Callable[[], Image.Image] | None:
    if form.rgb_factors is None:
        return None
    return lambda: Image.fromarray(to_rgb(denoised, form).numpy())
