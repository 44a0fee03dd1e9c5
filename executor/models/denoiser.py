"""MODEL: a denoiser with its family, its sampling and what is attached to it, as an immutable handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..sampling.model import ConditionKey, LatentFormat, ModelOptions
from ..sampling.prediction import ModelSampling
from . import memory
from .families.base import Family, Surroundings
from .files import BadFile, Weights, main_dtype
from .modules import assemble

FP8 = {"fp8_e4m3fn": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}

# Enters with a run and leaves with it; what it does to the module it undoes.
Attachment = Callable[["Session"], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class Denoiser:
    """Handles share the module; each change gives a new handle. `compute` is the type the module runs in."""

    module: torch.nn.Module
    family: Family
    sampling: ModelSampling
    latent: LatentFormat
    device: torch.device
    compute: torch.dtype
    options: ModelOptions = field(default_factory=ModelOptions)
    attachments: tuple[Attachment, ...] = ()
    dtype: torch.dtype = torch.float32

    def with_sampling(self, sampling: ModelSampling, latent: LatentFormat | None = None) -> Denoiser:
        return replace(self, sampling=sampling, latent=latent or self.latent)

    def with_options(self, **changes: Any) -> Denoiser:
        return replace(self, options=replace(self.options, **changes))

    def with_attachment(self, attachment: Attachment) -> Denoiser:
        """Attachments enter in the order in which they were added and leave in reverse."""
        return replace(self, attachments=(*self.attachments, attachment))

    @contextmanager
    def session(self) -> Iterator[Session]:
        with ExitStack() as stack:
            session = Session(self, memory.to_device(self.module, self.device))
            for attachment in self.attachments:
                stack.enter_context(attachment(session))
            yield session


class Session:
    """A denoiser during one sampling run. `conditions` names the parts of the batch being predicted."""

    def __init__(self, denoiser: Denoiser, module: torch.nn.Module) -> None:
        self.denoiser = denoiser
        self.module = module
        self.conditions: tuple[ConditionKey, ...] = ()

    def prepare(
        self,
        entry: tuple[torch.Tensor, Mapping[str, Any]],
        *,
        noise: torch.Tensor,
        latent_image: torch.Tensor,
        denoise_mask: torch.Tensor | None,
    ) -> dict[str, torch.Tensor]:
        cond, options = entry
        ratio = self.denoiser.latent.spatial_ratio
        around = Surroundings(noise, latent_image, denoise_mask, ratio)
        inputs = self.denoiser.family.prepare(self.module, cond, options, around)
        return {name: value.to(self.denoiser.device) for name, value in inputs.items()}

    def predict(
        self,
        x: torch.Tensor,
        sigma: torch.Tensor,
        inputs: Mapping[str, Any],
        conditions: tuple[ConditionKey, ...] = (),
    ) -> torch.Tensor:
        self.conditions = conditions
        sampling = self.denoiser.sampling
        scaled = sampling.model_input(x, sigma).to(self.denoiser.compute)
        timestep = sampling.timestep(sigma).float()
        output = self.denoiser.family.call(self.module, scaled, timestep, inputs)
        return sampling.denoised(x, output.float(), sigma)


def load(
    weights: Weights,
    family: Family,
    name: str,
    *,
    config: Mapping[str, Any] | None = None,
    weight_dtype: str = "default",
) -> Denoiser:
    """The denoiser whose tensors (of one family, without prefix) are `weights`; `name` is for errors.

    `config` is diffusers', if it is known. `weight_dtype`: "default", or a key of FP8 to hold the layers'
    weights in that type and cast each one as it is used.
    """
    inner = family.rename(weights)
    if config is None:
        try:
            config = family.configure(inner)
        except BadFile as error:
            raise BadFile(f"{name}: {error}") from error
    compute = memory.compute_dtype(main_dtype(inner), family.dtypes)
    module = assemble(lambda: family.build(config), inner, compute, name)
    if weight_dtype != "default":
        module.enable_layerwise_casting(storage_dtype=FP8[weight_dtype], compute_dtype=compute)
    return Denoiser(
        module=module,
        family=family,
        sampling=family.sampling(module.config, weights),
        latent=family.latent(module.config),
        device=memory.device(),
        compute=compute,
    )
