"""Reading weight files safely and lazily.

A file is a mapping from tensor name to `Entry`: its shape and type, known without reading it, and a way
to read it. safetensors are mapped into memory. Pickled checkpoints are read with `weights_only=True`,
which runs no code from the file; what needs more is refused.
"""

from __future__ import annotations

import json
import math
import pickle
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

SAFETENSORS = (".safetensors", ".sft")
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class BadFile(ValueError):
    """A weight file that cannot be read or is refused; the message says which and why."""


@dataclass(frozen=True)
class Entry:
    """One tensor of a file, not read yet."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    read: Callable[[], torch.Tensor]

    def rows(self, start: int, stop: int) -> Entry:
        """Part of the first dimension (a view of the same memory)."""
        return replace(self, shape=(stop - start, *self.shape[1:]), read=lambda: self.read()[start:stop])

    def chunks(self, count: int) -> list[Entry]:
        """Equal parts of the first dimension."""
        size = self.shape[0] // count
        return [self.rows(i * size, (i + 1) * size) for i in range(count)]

    def swapped(self) -> Entry:
        """The two halves of the first dimension changed over."""
        return replace(self, read=lambda: torch.cat(self.read().chunk(2)[::-1]))

    def transposed(self) -> Entry:
        return replace(self, shape=self.shape[::-1], read=lambda: self.read().T.contiguous())

    def reshaped(self, *shape: int) -> Entry:
        return replace(self, shape=shape, read=lambda: self.read().reshape(shape))


Weights = Mapping[str, Entry]


def open_weights(path: Path) -> dict[str, Entry]:
    """The tensors of a safetensors file or pickled checkpoint. Raises `BadFile`."""
    if not path.is_file():
        raise BadFile(f"{path}: no such file")
    if path.suffix.lower() in SAFETENSORS:
        weights = _open_safetensors(path)
    else:
        weights = {name: from_tensor(tensor) for name, tensor in _tensors(load_pickle(path)).items()}
    if not weights:
        raise BadFile(f"{path}: there are no tensors in this file")
    return dequantised(weights)


def open_sharded(index: Path) -> dict[str, Entry]:
    """All shards that a `*.safetensors.index.json` names."""
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise BadFile(f"{index}: not a readable index of shards: {error!r}") from error
    weights: dict[str, Entry] = {}
    for shard in sorted(shards):
        weights |= open_weights(index.parent / Path(shard).name)
    return weights


def from_tensor(tensor: torch.Tensor) -> Entry:
    return Entry(tuple(tensor.shape), tensor.dtype, lambda: tensor)


def under(weights: Weights, prefix: str) -> dict[str, Entry]:
    """The entries below a prefix, which is taken off."""
    return {name[len(prefix) :]: entry for name, entry in weights.items() if name.startswith(prefix)}


def main_dtype(weights: Weights) -> torch.dtype:
    """The floating point type that most numbers have."""
    counts: dict[torch.dtype, int] = {}
    for entry in weights.values():
        if entry.dtype.is_floating_point:
            counts[entry.dtype] = counts.get(entry.dtype, 0) + math.prod(entry.shape)
    return max(counts, key=counts.__getitem__, default=torch.float32)


def dequantised(weights: dict[str, Entry]) -> dict[str, Entry]:
    """Undo per-tensor scaled fp8: `x.weight * x.scale_weight`; other files come back unchanged."""
    if not any(name.endswith(".scale_weight") for name in weights):
        return weights
    plain = {}
    for name, entry in weights.items():
        stem, _, last = name.rpartition(".")
        if last in ("scale_weight", "scale_input") or last == "scaled_fp8":
            continue
        scale = weights.get(f"{stem}.scale_weight") if last == "weight" else None
        plain[name] = _scaled(entry, scale) if scale else entry
    return plain


def _scaled(entry: Entry, scale: Entry) -> Entry:
    return replace(entry, dtype=torch.bfloat16, read=lambda: entry.read().float() * scale.read().float())


def _open_safetensors(path: Path) -> dict[str, Entry]:
    from safetensors import SafetensorError, safe_open

    try:
        file = safe_open(path, framework="pt")
        names = file.keys()
        slices = {name: file.get_slice(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise BadFile(f"{path}: not a readable safetensors file: {_why(path, error)}") from error

    def entry(name: str) -> Entry:
        kind = slices[name].get_dtype()
        if kind not in DTYPES:
            raise BadFile(f"{path}: tensor {name!r} has the unsupported type {kind}")
        return Entry(tuple(slices[name].get_shape()), DTYPES[kind], lambda: file.get_tensor(name))

    return {name: entry(name) for name in names}


def _why(path: Path, error: Exception) -> str:
    """In plain words, where the reason can be told."""
    with path.open("rb") as file:
        head = file.read(64)
    size = path.stat().st_size
    if head.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; the weights themselves were not downloaded"
    if head.lstrip()[:1] == b"<":
        return "it is a web page, not weights; the download failed"
    if head[:2] in (b"PK", b"\x80\x02"):
        return "it is a pickled checkpoint; give it the ending .ckpt or .pt"
    header = int.from_bytes(head[:8], "little")
    if size < 8 or size < 8 + header < 2**32 or "not fully covered" in str(error):
        return f"it is incomplete ({size} bytes); copy or download it again"
    return f"it is damaged ({error})"


def load_pickle(path: Path) -> Any:
    """What `torch.save` wrote, tensors and plain containers only. Raises `BadFile`."""
    archive = zipfile.is_zipfile(path)
    try:
        with path.open("rb") as file:
            if file.read(2) == b"PK" and not archive:
                raise EOFError("it is incomplete; copy or download it again")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol")  # if it matters, reading fails
            return torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except Exception as error:  # damaged bytes make the unpickler fail in any way; all become BadFile
        if isinstance(error, pickle.UnpicklingError) and "weights_only" in str(error):
            reason = "it holds more than tensors and could run code when read; convert it to safetensors"
            raise BadFile(f"{path}: refused: {reason} where you trust it") from error
        reason = (str(error) or repr(error)).splitlines()[0]
        raise BadFile(f"{path}: not a readable checkpoint: {reason}") from error


def _tensors(content: Any) -> dict[str, torch.Tensor]:
    """The state dict in a checkpoint: under "state_dict", or under a single key, or the content itself."""
    if isinstance(content, dict):
        if isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        elif len(content) == 1 and isinstance(only := next(iter(content.values())), dict):
            content = only
    if not isinstance(content, dict):
        return {}
    return {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
