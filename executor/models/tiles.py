"""Run a function over overlapping tiles of a picture and blend what it gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch


def tiled(
    x: torch.Tensor,
    function: Callable[[torch.Tensor], torch.Tensor],
    *,
    tile: Sequence[int],
    overlap: int,
    scale: float,
    channels: int,
    done: Callable[[], None],
) -> torch.Tensor:
    """`function` on each tile of `x` [B, C, *sizes], blended to [B, channels, *(sizes * scale)] on the CPU.

    `tile` and `overlap` are in cells of `x`; `function` multiplies every side by `scale`. Results fade
    linearly over the overlap. `done` is called after each tile.
    """
    sizes = x.shape[2:]
    output = torch.empty(len(x), channels, *(round(size * scale) for size in sizes))
    starts = [_starts(size, side, overlap) for size, side in zip(sizes, tile, strict=True)]
    for item in range(len(x)):
        total = torch.zeros_like(output[item : item + 1])
        weight = torch.zeros_like(total[:, :1])
        for corner in itertools.product(*starts):
            part = x[item : item + 1]
            for axis, (start, side) in enumerate(zip(corner, tile, strict=True)):
                part = part.narrow(axis + 2, start, min(side, sizes[axis] - start))
            result = function(part).cpu()
            mask = _fade(result.shape[2:], 0 if part.shape == x[:1].shape else round(overlap * scale))
            begins = [round(start * scale) for start in corner]
            ends = [begin + size for begin, size in zip(begins, result.shape[2:], strict=True)]
            place = (..., *map(slice, begins, ends))
            total[place] += result * mask
            weight[place] += mask
            done()
        output[item : item + 1] = total / weight
    return output


def count(sizes: Sequence[int], tile: Sequence[int], overlap: int) -> int:
    """How many tiles one item takes."""
    total = 1
    for size, side in zip(sizes, tile, strict=True):
        total *= len(_starts(size, side, overlap))
    return total


def _starts(size: int, side: int, overlap: int) -> list[int]:
    return list(range(0, size - overlap, side - overlap)) if size > side else [0]


def _fade(sizes: Sequence[int], width: int) -> torch.Tensor:
    """1 inside, falling linearly to 1 / width at the borders; sides not longer than `width` stay 1."""
    mask = torch.ones(1, 1, *sizes)
    for axis, size in enumerate(sizes):
        if 0 < width < size:
            rising = torch.arange(1, size + 1).clamp(max=width) / width
            shape = [1] * mask.ndim
            shape[axis + 2] = size
            mask = mask * (rising * rising.flip(0)).view(shape)
    return mask
