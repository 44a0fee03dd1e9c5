"""From the predictions of single conditions to the guided one: `evaluate` and the guiders (GUIDER)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .conditions import Condition, Entries
from .model import ModelOptions, Predictor, Samplable

Evaluate = Callable[..., tuple[Tensor, ...]]  # role names -> the denoised latent of each


def evaluate(
    predictor: Predictor,
    conditions: Mapping[str, Sequence[Condition]],
    options: ModelOptions,
    x: Tensor,
    sigma: Tensor,
    roles: Sequence[str],
) -> tuple[Tensor, ...]:
    """The denoised latent of each role at `x` and `sigma` (0-d): the mean of its conditions' predictions,
    weighted cell by cell. Where none applies it is 0.

    The one place where the denoiser is called: compatible conditions of all roles go in one batch.
    """
    active = [c for role in roles for c in conditions[role] if c.applies(sigma)]
    predicted = {}
    for batch in _batches(active, together=options.batch_conditions):
        latents = torch.cat([condition.crop(x) for condition in batch])
        inputs = {name: _join([c.inputs[name] for c in batch]) for name in batch[0].inputs}
        levels = sigma.to(x.device).expand(latents.shape[0])
        output = predictor.predict(latents, levels, inputs, tuple(c.key for c in batch))
        predicted.update(zip((c.key for c in batch), output.chunk(len(batch)), strict=True))
    return tuple(_mean([(c, predicted[c.key]) for c in active if c.key.role == role], x) for role in roles)


def _batches(conditions: Sequence[Condition], *, together: bool) -> Iterator[list[Condition]]:
    rest = list(conditions)
    while rest:
        batch = [c for c in rest if _compatible(c, rest[0])] if together else rest[:1]
        rest = [c for c in rest if c not in batch]
        yield batch


def _compatible(a: Condition, b: Condition) -> bool:
    """Whether both can go in one batch."""
    return (
        a.cut_size == b.cut_size
        and a.inputs.keys() == b.inputs.keys()
        and all(_joinable(a.inputs[name], b.inputs[name]) for name in a.inputs)
    )


def _joinable(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype
    return type(a) is type(b) and a == b


def _join(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], Tensor) else values[0]


def _mean(predictions: Sequence[tuple[Condition, Tensor]], x: Tensor) -> Tensor:
    if len(predictions) == 1:
        condition, prediction = predictions[0]
        if condition.area is None and not isinstance(condition.weight, Tensor) and condition.weight > 0:
            return prediction
    total = torch.zeros_like(x)
    weights = torch.full_like(x, torch.finfo(x.dtype).tiny)  # so that no weight at all gives 0
    for condition, prediction in predictions:
        condition.crop(total).add_(prediction * condition.weight)
        condition.crop(weights).add_(condition.weight)
    return total / weights


class Guider(Protocol):
    """GUIDER: which conditions a run has and how their predictions become one."""

    model: Samplable

    @property
    def roles(self) -> Mapping[str, Entries]: ...

    def guide(self, evaluate: Evaluate, x: Tensor, sigma: Tensor, *, split: bool) -> tuple[Tensor, Tensor]:
        """The guided prediction and the one without the prompt. The second counts only where `split` is
        asked for; otherwise evaluations that guidance does not need are spared."""
        ...


def classifier_free(
    options: ModelOptions, cond: Tensor, uncond: Tensor, cfg: float, x: Tensor, sigma: Tensor
) -> Tensor:
    """Classifier-free guidance (Ho & Salimans 2022, arXiv:2207.12598), or what the model has in its place."""
    if options.cfg_function is not None:
        return options.cfg_function(cond, uncond, cfg, x, sigma)
    return uncond + (cond - uncond) * cfg


@dataclass(frozen=True)
class Rescaled:
    """A `CFGFunction`: guidance whose spread is pulled back to that of the prediction with the prompt (Lin
    et al. 2023, arXiv:2305.08891, section 3.4), on the velocity of the variance preserving form.
    `multiplier` 0: not at all.
    """

    multiplier: float

    def __call__(self, cond: Tensor, uncond: Tensor, cfg: float, x: Tensor, sigma: Tensor) -> Tensor:
        root = (sigma**2 + 1) ** 0.5
        unguided = x / root**2
        v_cond, v_uncond = ((unguided - denoised) * root / sigma for denoised in (cond, uncond))
        guided = v_uncond + cfg * (v_cond - v_uncond)
        axes = tuple(range(1, x.ndim))
        rescaled = guided * (v_cond.std(axes, keepdim=True) / guided.std(axes, keepdim=True))
        return unguided - torch.lerp(guided, rescaled, self.multiplier) * sigma / root


@dataclass(frozen=True, eq=False)
class BasicGuider:
    """One conditioning, no guidance."""

    model: Samplable
    positive: Entries

    @property
    def roles(self) -> Mapping[str, Entries]:
        return {"positive": self.positive}

    def guide(self, evaluate, x, sigma, *, split):
        (cond,) = evaluate("positive")
        return cond, cond


@dataclass(frozen=True, eq=False)
class CFGGuider:
    """Classifier-free guidance; at scale 1 the negative conditioning is not evaluated."""

    model: Samplable
    positive: Entries
    negative: Entries
    cfg: float

    @property
    def roles(self) -> Mapping[str, Entries]:
        return {"positive": self.positive, "negative": self.negative}

    def guide(self, evaluate, x, sigma, *, split):
        if math.isclose(self.cfg, 1.0) and not split:
            (cond,) = evaluate("positive")
            return cond, cond
        cond, uncond = evaluate("positive", "negative")
        return classifier_free(self.model.options, cond, uncond, self.cfg, x, sigma), uncond


@dataclass(frozen=True, eq=False)
class DualCFGGuider:
    """Two conditionings and a negative one (Brooks et al. 2023, arXiv:2211.09800, equation 3).

    Regular: cfg_conds leads from the second conditioning to the first, cfg_cond2_negative from the negative
    to the second. Nested: cfg_cond2_negative leads from the negative to the outcome of the two
    conditionings.
    """

    model: Samplable
    cond1: Entries
    cond2: Entries
    negative: Entries
    cfg_conds: float
    cfg_cond2_negative: float
    nested: bool = False

    @property
    def roles(self) -> Mapping[str, Entries]:
        return {"positive": self.cond1, "middle": self.cond2, "negative": self.negative}

    def guide(self, evaluate, x, sigma, *, split):
        options = self.model.options
        if self.nested:
            first, second, negative = evaluate("positive", "middle", "negative")
            prompt = classifier_free(options, first, second, self.cfg_conds, x, sigma)
            return negative + self.cfg_cond2_negative * (prompt - negative), second
        if math.isclose(self.cfg_cond2_negative, 1.0) and not split:
            if math.isclose(self.cfg_conds, 1.0):
                (first,) = evaluate("positive")
                return first, first
            first, second = evaluate("positive", "middle")
            return second + (first - second) * self.cfg_conds, second
        first, second, negative = evaluate("positive", "middle", "negative")
        base = classifier_free(options, second, negative, self.cfg_cond2_negative, x, sigma)
        return base + (first - second) * self.cfg_conds, negative
