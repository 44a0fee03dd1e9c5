"""What a sampler needs of a model, and nothing more: the seam between `sampling` and `models`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

from .prediction import ModelSampling


@dataclass(frozen=True)
class LatentFormat:
    """How a family's latents relate to pixels and to the numbers its denoiser is trained on.

    `denoiser latent = (latent - shift) * scale`, channel by channel where scale and shift are tuples.
    """

    channels: int
    scale: float | tuple[float, ...] = 1.0
    shift: float | tuple[float, ...] = 0.0
    spatial_ratio: int = 8
    temporal_ratio: int = 1
    dims: int = 2  # 2: B C H W, 3: B C T H W
    rgb_factors: tuple[tuple[float, float, float], ...] | None = None  # channel -> RGB (-1..1), for previews
    rgb_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def _vector(self, value, like: torch.Tensor) -> torch.Tensor | float:
        if isinstance(value, tuple):
            return torch.tensor(value, device=like.device, dtype=like.dtype).view(
                1, -1, *[1] * (like.ndim - 2)
            )
        return value

    def encode(self, latent: torch.Tensor) -> torch.Tensor:
        """From LATENT space to the denoiser's."""
        return (latent - self._vector(self.shift, latent)) * self._vector(self.scale, latent)

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """From the denoiser's space to LATENT space."""
        return latent / self._vector(self.scale, latent) + self._vector(self.shift, latent)


class CFGFunction(Protocol):
    """How the predictions with and without the prompt become one: denoised latents like `x`, at `sigma`
    (0-d)."""

    def __call__(
        self, cond: torch.Tensor, uncond: torch.Tensor, cfg: float, x: torch.Tensor, sigma: torch.Tensor
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class ModelOptions:
    """What a run reads of a MODEL besides its sampling."""

    cfg_function: CFGFunction | None = None  # None: uncond + cfg (cond - uncond)
    batch_conditions: bool = True  # evaluate compatible conditions in one batch, else one after the other
    noise_kept_part: bool = (
        True  # what a noise mask keeps is noised to each step's sigma; else it goes in clean
    )


class ConditionKey(NamedTuple):
    """Names one condition for the length of a session: its part in the guidance and its place there.

    What a cache keeps per condition it keeps under this key.
    """

    role: str  # "positive", "negative" or "middle"
    index: int


class Predictor(Protocol):
    """A model ready to be evaluated, for one sampling run. Obtained from `Samplable.session`."""

    def prepare(
        self,
        entry: tuple[torch.Tensor, Mapping[str, Any]],
        *,
        noise: torch.Tensor,
        latent_image: torch.Tensor,
        denoise_mask: torch.Tensor | None,
    ) -> Mapping[str, Any]:
        """One CONDITIONING entry as what this family's denoiser takes.

        Tensors are batch first; the caller repeats them to the latent's batch and joins those of several
        conditions. A tensor as high and wide (and long) as the latent goes with it: it is cut to the
        condition's area. Values that are not tensors are passed on as they are. The entry's dictionary also
        has `prompt_type`, the condition's role. `latent_image` is in the denoiser's space.
        """
        ...

    def predict(
        self,
        x: torch.Tensor,
        sigma: torch.Tensor,
        inputs: Mapping[str, Any],
        conditions: tuple[ConditionKey, ...],
    ) -> torch.Tensor:
        """The denoised latent for `x` (denoiser space) at `sigma` (shape [B]).

        The batch is `len(conditions)` chunks of equal size, one for each condition, in that order.
        """
        ...


class Samplable(Protocol):
    """MODEL as the samplers see it."""

    sampling: ModelSampling
    latent: LatentFormat
    options: ModelOptions
    device: torch.device
    dtype: torch.dtype  # of the latents during sampling

    def session(self) -> AbstractContextManager[Predictor]:
        """Loads weights, attaches patches, gives a `Predictor`, detaches in `finally`."""
        ...

    def with_sampling(self, sampling: ModelSampling, latent: LatentFormat | None = None) -> Samplable:
        """The same model with another sampling (and, where given, another latent format)."""
        ...

    def with_options(self, **changes: Any) -> Samplable:
        """The same model with these fields of its `ModelOptions` changed."""
        ...
