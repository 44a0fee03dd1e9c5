"""Data-parallel training over a few single-threaded CPU processes, and checkpoints that survive a kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def _entry(rank: int, world: int, port: int, work: Callable[..., None], args: tuple) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        work(rank, world, *args)
    finally:
        dist.destroy_process_group()


def run(work: Callable[..., None], processes: int, *args, port: int = 29511) -> None:
    """Call `work(rank, world, *args)` in `processes` processes."""
    torch.multiprocessing.spawn(_entry, (processes, port, work, args), nprocs=processes)


def average_gradients(model: nn.Module) -> None:
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    offset = 0
    for g in grads:
        g.copy_(flat[offset : offset + g.numel()].view_as(g))
        offset += g.numel()


def save(path: Path, state: dict) -> None:
    """Write a checkpoint whole or not at all, also where several processes write the same one."""
    temporary = path.with_suffix(f".{os.getpid()}.partial")
    torch.save(state, temporary)
    temporary.replace(path)
