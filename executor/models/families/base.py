"""What a model family states; one small module each implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ...sampling.model import LatentFormat
from ...sampling.prediction import ModelSampling
from ..files import Entry, Weights

# The tensors that a denoiser takes beside the latent; a family gives its own names.
Inputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Surroundings:
    """What an input may depend on beside the conditioning, all in the denoiser's latent space."""

    noise: torch.Tensor
    latent_image: torch.Tensor
    denoise_mask: torch.Tensor | None
    spatial_ratio: int


class Family(ABC):
    """One family of denoisers. Instances have no state."""

    name: ClassVar[str]
    title: ClassVar[str]
    # Class name in diffusers' config.json.
    module_class: ClassVar[str]
    # Half precision types it is safe in, best first.
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float16, torch.bfloat16)
    # Where a checkpoint of the family keeps its other parts.
    vae_prefix: ClassVar[str] = "first_stage_model."
    # Text model -> prefixes.
    text_prefixes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # Text models that it works without.
    text_optional: ClassVar[frozenset[str]] = frozenset()
    # How it uses its text models: a key of models.text.USES.
    text: ClassVar[str]

    @abstractmethod
    def owns(self, weights: Weights) -> bool:
        """Whether tensors named in the original or in diffusers' layout are such a denoiser."""

    @abstractmethod
    def rename(self, weights: Weights) -> dict[str, Entry]:
        """From the original layout to diffusers'. Names in diffusers' layout stay as they are."""

    @abstractmethod
    def configure(self, weights: Weights) -> dict[str, Any]:
        """diffusers' config, from the shapes of tensors in diffusers' layout."""

    @abstractmethod
    def build(self, config: Mapping[str, Any]) -> torch.nn.Module: ...

    @abstractmethod
    def latent(self, config: Mapping[str, Any]) -> LatentFormat: ...

    @abstractmethod
    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        """The family's own sigmas; `weights` in the layout of the file."""

    @abstractmethod
    def prepare(
        self,
        module: torch.nn.Module,
        cond: torch.Tensor,
        options: Mapping[str, Any],
        around: Surroundings,
    ) -> dict[str, torch.Tensor]:
        """The denoiser's inputs for one CONDITIONING entry, batch first."""

    @abstractmethod
    def call(
        self, module: torch.nn.Module, x: torch.Tensor, timestep: torch.Tensor, inputs: Inputs
    ) -> torch.Tensor:
        """The raw prediction for `x` (the model's own dtype), with its shape."""


def pooled(options: Mapping[str, Any], width: int) -> torch.Tensor:
    """The pooled text encoding [B, width]; zeros where the conditioning has none."""
    found = options.get("pooled_output")
    return torch.zeros(1, width) if found is None else found[:, :width]


def pad_to_multiple(x: torch.Tensor, multiple: int) -> torch.Tensor:
    """Repeat rows and columns cyclically (the first ones again) up to a multiple of the patch size."""
    down, right = -x.shape[-2] % multiple, -x.shape[-1] % multiple
    return torch.nn.functional.pad(x, (0, right, 0, down), mode="circular") if down or right else x
