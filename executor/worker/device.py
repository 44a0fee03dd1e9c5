"""What a worker process knows of its device and its memory. Where no node class has loaded torch, nothing
runs on a device, and it is not loaded for this."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def choose(device: str, dtype: str) -> None:
    """Have models run there. Raises ValueError where that cannot be."""
    if (device, dtype) != ("auto", "auto"):
        from ..models import memory

        memory.use(memory.Settings(device=device, dtype=dtype))


def describe() -> tuple[str, str, int]:
    """The device as torch calls it, its name, and its memory in bytes (0 where there is no telling)."""
    if "torch" not in sys.modules:
        return "cpu", "cpu", 0
    import torch

    from ..models import memory

    device = memory.device()
    if device.type != "cuda":
        return str(device), str(device), 0
    return (
        str(device),
        torch.cuda.get_device_name(device),
        torch.cuda.get_device_properties(device).total_memory,
    )


def free_and_total() -> tuple[int, int]:
    """Bytes of the device's memory; 0 where there is no telling."""
    if not describe()[2]:
        return 0, 0
    import torch

    from ..models import memory

    return torch.cuda.mem_get_info(memory.device())


def resident() -> int:
    """Bytes of memory that this process holds, where the system tells it as Linux does; 0 elsewhere."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return 0
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def unload() -> None:
    """Move all models off the device."""
    if "torch" in sys.modules:
        from ..models import memory

        memory.unload()
