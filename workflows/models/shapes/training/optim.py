"""Muon for weight matrices and AdamW for the rest, averaged weights, and the learning-rate plan."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def _orthogonal(update: torch.Tensor, iterations: int = 5) -> torch.Tensor:
    """Nearest semi-orthogonal matrix by Newton-Schulz iteration (K. Jordan et al., "Muon", 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = update / (update.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum; kernels of convolutions count as matrices (out, in * k * k).

    Every process orthogonalises its share of the matrices; one all-reduce hands the updates round.
    """

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        rank, world = dist.get_rank(), dist.get_world_size()
        for group in self.param_groups:
            parameters = group["params"]
            updates = torch.zeros(sum(p.numel() for p in parameters))
            for i, (p, out) in enumerate(
                zip(parameters, updates.split([p.numel() for p in parameters]), strict=True)
            ):
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                if i % world == rank:
                    matrix = p.grad.lerp(buffer, group["momentum"]).reshape(p.shape[0], -1)
                    scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                    out.copy_(_orthogonal(matrix).reshape(-1) * scale)
            dist.all_reduce(updates)
            for p, update in zip(parameters, updates.split([p.numel() for p in parameters]), strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.view(p.shape), alpha=-group["lr"])


class Optimizers:
    """Matrices to Muon, everything else (and `adam_names`) to AdamW, under one trapezoidal plan."""

    def __init__(
        self,
        model: nn.Module,
        muon_lr: float,
        adam_lr: float,
        adam_names: tuple[str, ...] = (),
        decay: float = 0.0,
    ):
        matrices, rest = [], []
        for name, p in model.named_parameters():
            if p.requires_grad:
                (rest if p.ndim < 2 or any(n in name for n in adam_names) else matrices).append(p)
        self.all = [
            Muon(matrices, lr=muon_lr, weight_decay=decay),
            torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, 0.97), weight_decay=0.0),
        ]
        self._peak = [muon_lr, adam_lr]

    def step(self, factor: float) -> None:
        for optimizer, peak in zip(self.all, self._peak, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list:
        return [o.state_dict() for o in self.all]

    def load_state_dict(self, states: list) -> None:
        for optimizer, state in zip(self.all, states, strict=True):
            optimizer.load_state_dict(state)


def plan(step: int, total: int, warmup: int, cooldown: float = 0.55) -> float:
    """Trapezoid: linear warm-up, flat, linear to (almost) zero over the last `cooldown` of the run."""
    return min((step + 1) / warmup, 1.0, max((total - step) / (cooldown * total), 0.01))


class Average:
    """Exponential moving average of a module's parameters."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.values = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, p in model.named_parameters():
            self.values[name].lerp_(p, 1 - decay)
