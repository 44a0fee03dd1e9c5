"""CONDITIONING made ready for a run: areas and masks in latent cells, times in sigmas, the denoiser's
inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .model import ConditionKey, Predictor
from .prediction import ModelSampling

Entries = Sequence[tuple[Tensor, Mapping[str, Any]]]  # CONDITIONING
Area = tuple[tuple[int, int], ...]  # (size, offset) for each axis of the latent after channels


class BadCondition(ValueError):
    """A conditioning that does not fit the latent."""


FEATHER = 8  # latent cells over which an area without a mask fades in


@dataclass(frozen=True, eq=False)
class Condition:
    """One condition of a run."""

    key: ConditionKey
    inputs: Mapping[str, Any]  # what the denoiser takes, tensors cut to the area
    weight: Tensor | float  # how much its prediction counts; a tensor where that differs from cell to cell
    area: Area | None = None  # None: the whole latent
    sigma_start: float = math.inf  # applies while sigma_end <= sigma <= sigma_start
    sigma_end: float = 0.0

    def applies(self, sigma: Tensor) -> bool:
        """Whether it counts at `sigma` (0-d; the comparison is in its precision)."""
        return bool(sigma <= self.sigma_start) and bool(sigma >= self.sigma_end)

    @property
    def cut_size(self) -> tuple[int, ...] | None:
        return None if self.area is None else tuple(size for size, _ in self.area)

    def crop(self, tensor: Tensor) -> Tensor:
        return crop(tensor, self.area)


def crop(tensor: Tensor, area: Area | None) -> Tensor:
    """A view of the area of a latent-like tensor."""
    for axis, (size, offset) in enumerate(area or (), start=2):
        tensor = tensor.narrow(axis, offset, size)
    return tensor


def prepare(
    roles: Mapping[str, Entries],
    predictor: Predictor,
    sampling: ModelSampling,
    *,
    noise: Tensor,
    latent_image: Tensor,
    denoise_mask: Tensor | None,
) -> dict[str, list[Condition]]:
    """The conditions of each role ("positive", "negative", "middle"), for a latent like `noise`.

    A condition with an area gets a counterpart with the same area in each other role, so that guidance
    compares predictions made on the same cut of the latent.
    """
    prepared: dict[str, list[_Draft]] = {role: [] for role in roles}
    for role, entries in roles.items():
        for tensor, options in entries:
            draft = _draft(role, options, noise)
            inputs = predictor.prepare(
                (tensor, {"prompt_type": "positive" if role == "positive" else "negative", **options}),
                noise=noise,
                latent_image=latent_image,
                denoise_mask=denoise_mask,
            )
            prepared[role].append(replace(draft, inputs=inputs))
    for role, others in ((r, o) for r in roles for o in roles if o != r):
        for draft in prepared[role]:
            counterpart = _counterpart(draft, prepared[others])
            if counterpart is not None:
                prepared[others].append(counterpart)
    return {
        role: [_finish(d, ConditionKey(role, i), noise, sampling) for i, d in enumerate(drafts)]
        for role, drafts in prepared.items()
    }


@dataclass(frozen=True, eq=False)
class _Draft:
    options: Mapping[str, Any]
    area: Area | None
    mask: Tensor | None  # [N, *latent axes]
    inputs: Mapping[str, Any]


def _draft(role: str, options: Mapping[str, Any], noise: Tensor) -> _Draft:
    dims = noise.shape[2:]
    area = _area(role, options["area"], dims) if options.get("area") is not None else None
    mask = None
    if options.get("mask") is not None:
        mask = _mask(role, options["mask"], noise)
        if options.get("set_area_to_bounds"):
            area = _bounds(mask)
    return _Draft(options, area, mask, inputs={})


def _area(role: str, area: Sequence[Any], dims: Sequence[int]) -> Area:
    """From ComfyUI's (*sizes, *offsets), in cells or after "percentage" as parts, for the last axes."""
    relative = area[0] == "percentage"
    values = list(area[1:] if relative else area)
    count = len(values) // 2
    sizes, offsets = values[:count][-len(dims) :], values[count:][-len(dims) :]
    if relative:
        whole = dims[-len(sizes) :]
        sizes = [max(1, round(part * full)) for part, full in zip(sizes, whole, strict=True)]
        offsets = [round(part * full) for part, full in zip(offsets, whole, strict=True)]
    missing = len(dims) - len(sizes)
    sizes, offsets = [*dims[:missing], *sizes], [0] * missing + list(offsets)
    resolved = []
    for full, size, offset in zip(dims, sizes, offsets, strict=True):
        if not 0 <= offset < full:
            raise BadCondition(f"{role}: an area starts at cell {offset}, outside the latent of {full} cells")
        resolved.append((min(size, full - offset), offset))
    return tuple(resolved)


def _mask(role: str, mask: Tensor, noise: Tensor) -> Tensor:
    """A MASK on the latent's grid: [N, H, W], or [1, frames, H, W] for video."""
    dims = noise.shape[2:]
    mask = mask.to(device=noise.device, dtype=noise.dtype)
    if mask.ndim == len(dims):
        mask = mask.unsqueeze(0)
    if mask.shape[-2:] != dims[-2:]:
        channels = mask if mask.ndim == 4 else mask.unsqueeze(1)
        channels = functional.interpolate(channels, size=dims[-2:], mode="bilinear")
        mask = channels if mask.ndim == 4 else channels.squeeze(1)
    if mask.shape[1:-2] not in (dims[:-2], (1,) * (len(dims) - 2)):
        raise BadCondition(
            f"{role}: a mask of shape {tuple(mask.shape)} does not fit a latent of {tuple(dims)}"
        )
    return mask.expand(-1, *dims)


def _bounds(mask: Tensor) -> Area:
    """The box around what a mask [N, H, W] covers, at least 8 cells a side where there is room."""
    rows, columns = torch.where(mask.abs().amax(dim=0) > 0)[-2:]
    box = []
    for cells, full in zip((rows, columns), mask.shape[-2:], strict=True):
        low, high = (int(cells.min()), int(cells.max())) if len(cells) else (0, 0)
        box.append((min(max(8, high - low + 1), full - low), low))
    return tuple((size, 0) for size in mask.shape[1:-2]) + tuple(box)


def _counterpart(draft: _Draft, others: Sequence[_Draft]) -> _Draft | None:
    """`draft` with the inputs of the condition in `others` with the smallest area that holds its own; None
    where it has no area or that area is the same."""
    if draft.area is None:
        return None
    holding = [other for other in others if other.area is None or _holds(other.area, draft.area)]
    with_area = [other for other in holding if other.area is not None]
    if with_area:
        smallest = min(with_area, key=lambda other: math.prod(size for size, _ in other.area))
        return None if smallest.area == draft.area else replace(draft, inputs=smallest.inputs)
    return replace(draft, inputs=holding[0].inputs) if holding else None


def _holds(outer: Area, inner: Area) -> bool:
    return all(
        o_offset <= i_offset and i_offset + i_size <= o_offset + o_size
        for (o_size, o_offset), (i_size, i_offset) in zip(outer, inner, strict=True)
    )


def _finish(draft: _Draft, key: ConditionKey, noise: Tensor, sampling: ModelSampling) -> Condition:
    options = draft.options
    inputs = {name: _for_area(value, draft.area, noise) for name, value in draft.inputs.items()}
    start, end = options.get("start_percent"), options.get("end_percent")
    return Condition(
        key=key,
        inputs=inputs,
        weight=_weight(draft, noise),
        area=draft.area,
        sigma_start=math.inf if start is None else sampling.percent_to_sigma(start),
        sigma_end=0.0 if end is None else sampling.percent_to_sigma(end),
    )


def _for_area(value: Any, area: Area | None, noise: Tensor) -> Any:
    """An input for the whole batch, cut to the area where it lies on the latent's grid."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim == noise.ndim and value.shape[2:] == noise.shape[2:]:
        value = crop(value, area)
    return repeat_to_batch(value, noise.shape[0])


def repeat_to_batch(tensor: Tensor, batch: int) -> Tensor:
    """The first `batch` items of the tensor repeated over and over."""
    if tensor.shape[0] < batch:
        tensor = tensor.repeat(math.ceil(batch / tensor.shape[0]), *[1] * (tensor.ndim - 1))
    return tensor[:batch]


def _weight(draft: _Draft, noise: Tensor) -> Tensor | float:
    """The strength, times the mask, or faded towards the edges of an area that lie inside the latent."""
    strength = draft.options.get("strength", 1.0)
    if draft.mask is not None:
        mask = repeat_to_batch(draft.mask, noise.shape[0]).unsqueeze(1)
        return crop(mask, draft.area) * draft.options.get("mask_strength", 1.0) * strength
    if draft.area is None:
        return strength
    weight = torch.full_like(crop(noise[:1, :1], draft.area), strength)
    for axis, (size, offset) in enumerate(draft.area, start=2):
        width = min(FEATHER, size // 4)
        ramp = torch.arange(1, width + 1, device=weight.device, dtype=weight.dtype) / max(width, 1)
        ramp = ramp.view(-1, *[1] * (weight.ndim - 1 - axis))
        if offset > 0:
            weight.narrow(axis, 0, width).mul_(ramp)
        if offset + size < noise.shape[axis]:
            weight.narrow(axis, size - width, width).mul_(ramp.flip(0))
    return weight
