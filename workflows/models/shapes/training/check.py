"""Does a picture show what a caption says? Colour, shape and place, read off the pixels.

No network and no knowledge of how the picture was made: pixels are sorted into the palette's colours, the
connected areas of an object's colour are taken as candidates, and each is compared with every shape.
`validate` holds the checker against true renders and against wrong pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import data
import numpy as np
from scipy import ndimage

_NAMES = list(data.COLOURS)
_TEMPLATE = 40  # pixels along a side of a normalised mask


def _lab(rgb: np.ndarray) -> np.ndarray:
    """sRGB (..., 3) in 0..1 to CIE Lab (D65)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    matrix = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = linear @ matrix.T / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


_PALETTE = _lab(np.array([data.COLOURS[n] for n in _NAMES]) / 255.0)
_WEIGHT = np.array([0.6, 1.0, 1.0])  # objects are shaded: lightness tells less than hue


@lru_cache
def _templates() -> dict[str, np.ndarray]:
    """Every shape, upright and turned a little, as normalised masks (n, side, side)."""
    y, x = (np.mgrid[0:160, 0:160] - 79.5) / 60.0
    out = {}
    for shape in data.SHAPES:
        turned = []
        for a in (-0.1, 0.0, 0.1):
            mask = (
                data.shape_distance(shape, x * np.cos(a) + y * np.sin(a), y * np.cos(a) - x * np.sin(a)) < 0
            )
            turned.append(_normalise(mask))
        out[shape] = np.stack(turned)
    return out


def _normalise(mask: np.ndarray) -> np.ndarray:
    """The mask about its centroid, scaled to a common area, sampled on a fixed grid."""
    ys, xs = np.nonzero(mask)
    cy, cx, scale = ys.mean(), xs.mean(), np.sqrt(len(ys))
    grid = (np.arange(_TEMPLATE) - (_TEMPLATE - 1) / 2) / _TEMPLATE * 2.2 * scale
    at = np.meshgrid(cy + grid, cx + grid, indexing="ij")
    return ndimage.map_coordinates(mask.astype(np.float32), at, order=1) > 0.5


@dataclass(frozen=True)
class Seen:
    """One coloured area: where it is (pixels), how large, and how well each shape fits (IoU)."""

    x: float
    y: float
    area: int
    fit: dict[str, float]

    @property
    def shape(self) -> str:
        return max(self.fit, key=self.fit.get)


def areas(image: np.ndarray, colour: str) -> list[Seen]:
    """The separate areas of a colour in an image (H, W, 3) in 0..1, largest first."""
    scale = image.shape[0] / data.SIZE
    distance = np.sqrt((((_lab(image)[..., None, :] - _PALETTE) * _WEIGHT) ** 2).sum(-1))
    mine = _NAMES.index(colour)
    mask = (distance.argmin(-1) == mine) & (distance[..., mine] < 36)
    mask = ndimage.binary_opening(mask, np.ones((2, 2)))
    labels, count = ndimage.label(mask)
    found = []
    for i in range(1, count + 1):
        part = labels == i
        area = int(part.sum())
        if area < 130 * scale**2:
            continue
        ys, xs = np.nonzero(part)
        normal = _normalise(part)
        fit = {
            s: float(max((normal & t).sum() / (normal | t).sum() for t in ts))
            for s, ts in _templates().items()
        }
        found.append(Seen(float(xs.mean()) / scale, float(ys.mean()) / scale, area, fit))
    return sorted(found, key=lambda s: -s.area)


def _third(value: float) -> int:
    return -1 if value < 52 else 1 if value > 76 else 0


@dataclass(frozen=True)
class Verdict:
    colour: bool
    shape: bool
    place: bool

    @property
    def passed(self) -> bool:
        return self.colour and self.shape and self.place


def judge(image: np.ndarray, picture: data.Picture) -> Verdict:
    """Whether the image shows every object of `picture` in its colour, shape and place."""
    taken: list[Seen] = []
    colour = shape = True
    for o in picture.objects:
        candidates = [s for s in areas(image, o.colour) if s not in taken]
        if not candidates:
            return Verdict(False, False, False)
        # The area that looks most like one of the shapes at all, larger ones first: scenery seldom does.
        right = [s for s in candidates[:3] if s.shape == o.shape and s.fit[o.shape] > 0.7]
        best = right[0] if right else max(candidates[:3], key=lambda s: max(s.fit.values()))
        taken.append(best)
        shape &= bool(right)
    if picture.relation is None:
        spots = [data.PLACES[o.place] for o in picture.objects]
        place = all((_third(s.x), _third(s.y)) == spot for s, spot in zip(taken, spots, strict=True))
    else:
        dx, dy = data.RELATIONS[picture.relation]
        first, second = taken
        place = dx * (first.x - second.x) + dy * (first.y - second.y) > 25
    return Verdict(colour, shape, place)


def validate(count: int = 200) -> dict[str, float]:
    """Shares that pass: true renders, and pictures judged by another picture's description."""
    rng = np.random.default_rng(7)
    out = {}
    for objects in (1, 2):
        shown = [data.sample(rng, objects) for _ in range(count)]
        images = [data.draw(p, rng) for p in shown]
        true = [judge(i, p) for i, p in zip(images, shown, strict=True)]
        wrong = [judge(i, p) for i, p in zip(images, shown[1:] + shown[:1], strict=True)]
        for name, verdicts in (("true", true), ("wrong", wrong)):
            out[f"{objects} {name}"] = sum(v.passed for v in verdicts) / count
            for part in ("colour", "shape", "place"):
                out[f"{objects} {name} {part}"] = sum(getattr(v, part) for v in verdicts) / count
    return out


if __name__ == "__main__":
    for name, share in validate().items():
        print(f"{name:20} {share:.3f}")
