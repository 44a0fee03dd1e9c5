"""On which device and in which number format models run, and which of them are on the device now.

On a CPU nothing is ever copied. On an accelerator a module moves there when it is used and moves back,
least recently used first, when another one needs the room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

import torch

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
HALF = (torch.float16, torch.bfloat16)
# Kept free for activations, as a share of the device's memory.
HEADROOM = 0.2


@dataclass(frozen=True)
class Settings:
    """`device`: "auto" or what torch.device takes. `dtype`: "auto" or a key of DTYPES."""

    device: str = "auto"
    dtype: str = "auto"


_settings = Settings()
# id -> module on the accelerator, least recently used first.
_resident: OrderedDict[int, ref[torch.nn.Module]] = OrderedDict()


def use(settings: Settings) -> None:
    """Configure this process. Raises ValueError for a device or type that this machine does not have."""
    global _settings
    if settings.dtype != "auto" and settings.dtype not in DTYPES:
        raise ValueError(f"dtype {settings.dtype!r} is not known; it must be auto, {', '.join(DTYPES)}")
    if settings.device != "auto":
        try:
            torch.empty(0, device=settings.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(f"device {settings.device!r} cannot be used: {error}") from error
    _settings = settings


def device() -> torch.device:
    """Where models run."""
    if _settings.device != "auto":
        return torch.device(_settings.device)
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def compute_dtype(
    stored: torch.dtype, preferred: Sequence[torch.dtype] = HALF, target: torch.device | None = None
) -> torch.dtype:
    """The type to hold and run weights in.

    On a CPU float32, where half precision is slow or missing. Elsewhere the type that the file has, if it
    is a half precision type that the model family is safe in (`preferred`), else the first of those.
    `target`: where the model runs, if not on `device()`.
    """
    if _settings.dtype != "auto":
        return DTYPES[_settings.dtype]
    if (target or device()).type == "cpu":
        return torch.float32
    return stored if stored in preferred else preferred[0]


def to_device(module: torch.nn.Module, target: torch.device) -> torch.nn.Module:
    """Have `module` on `target`, moving others away if there is no room."""
    if target.type == "cpu":
        return module
    key = id(module)
    if key in _resident and _resident[key]() is module:
        _resident.move_to_end(key)
        return module
    _make_room(nbytes(module), target)
    module.to(target)
    _resident[key] = ref(module)
    return module


def unload(module: torch.nn.Module | None = None) -> None:
    """Move one module, or all of them, off the accelerator."""
    for key in [id(module)] if module is not None else list(_resident):
        held = _resident.pop(key, None)
        if held is not None and (resident := held()) is not None:
            resident.to("cpu")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def loaded() -> list[tuple[str, int]]:
    """Class name and bytes of each module on the accelerator, least recently used first."""
    modules = [module for held in _resident.values() if (module := held()) is not None]
    return [(type(module).__name__, nbytes(module)) for module in modules]


def nbytes(module: torch.nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def free_bytes(target: torch.device) -> int | None:
    """Memory free on an accelerator; None where it cannot be told."""
    if target.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(target)
    return free + torch.cuda.memory_reserved(target) - torch.cuda.memory_allocated(target)


def _make_room(needed: int, target: torch.device) -> None:
    """Unload until `needed` bytes and the headroom are free, or nothing is left to unload."""
    for key in [key for key, held in _resident.items() if held() is None]:
        del _resident[key]
    if target.type != "cuda":
        return
    wanted = needed + int(HEADROOM * torch.cuda.get_device_properties(target).total_memory)
    while _resident and (free := free_bytes(target)) is not None and free < wanted:
        _, held = _resident.popitem(last=False)
        if (module := held()) is not None:
            module.to("cpu")
