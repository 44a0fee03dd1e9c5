"""Captioned pictures, drawn on the fly: what the `shapes` model learns from and is judged by.

A `Picture` says what is to be seen; `draw` renders it, antialiased, as float32 RGB (H, W, 3) in 0..1;
`caption` puts it into words in one of many ways. `sample` draws a random Picture.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

SIZE = 128  # pixels; every length below is for this size and scales with it

COLOURS = {
    "red": (222, 40, 42),
    "orange": (247, 140, 28),
    "yellow": (250, 216, 45),
    "green": (52, 168, 70),
    "cyan": (62, 200, 218),
    "blue": (44, 88, 214),
    "purple": (138, 60, 184),
    "pink": (250, 128, 178),
    "brown": (122, 74, 38),
    "black": (26, 26, 30),
    "white": (248, 248, 248),
    "gray": (138, 140, 146),
}
SHAPES = ("circle", "square", "triangle", "star", "heart", "diamond", "cross", "ring", "crescent")
RADII = {"small": (15.5, 18.0), "medium": (21.5, 25.0), "big": (30.0, 34.0)}
PLACES = {
    "center": (0, 0),
    "left": (-1, 0),
    "right": (1, 0),
    "top": (0, -1),
    "bottom": (0, 1),
    "top left": (-1, -1),
    "top right": (1, -1),
    "bottom left": (-1, 1),
    "bottom right": (1, 1),
}
STEP = 31.0  # pixels from the centre to a place
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}

PLAIN = {
    "white": (244, 244, 242),
    "black": (34, 34, 38),
    "gray": (186, 188, 192),
    "blue": (150, 192, 238),
    "green": (172, 218, 166),
    "pink": (252, 206, 220),
    "yellow": (250, 236, 168),
    "purple": (206, 186, 232),
}
SCENES = ("night", "sunset", "meadow", "beach", "mountains", "desert")
# Object colours that would drown in a background.
TOO_CLOSE = {
    "white": ("white", "yellow"),
    "black": ("black", "brown"),
    "gray": ("gray", "white"),
    "blue": ("blue", "cyan", "gray"),
    "green": ("green", "white"),
    "pink": ("pink", "white"),
    "yellow": ("yellow", "white"),
    "purple": ("purple", "pink", "gray"),
    "night": ("black", "blue", "purple"),
    "sunset": ("orange", "yellow", "red", "pink", "purple", "brown", "black"),
    "meadow": ("green", "blue", "cyan", "white"),
    "beach": ("blue", "cyan", "yellow", "white", "orange"),
    "mountains": ("gray", "white", "purple", "blue", "cyan"),
    "desert": ("orange", "yellow", "brown", "cyan", "white"),
}
# Colour-shape pairs that training never sees.
HELD_OUT_PAIRS = frozenset(
    {
        ("purple", "star"),
        ("orange", "ring"),
        ("cyan", "triangle"),
        ("brown", "heart"),
        ("yellow", "cross"),
        ("pink", "square"),
    }
)


@dataclass(frozen=True)
class Object:
    colour: str
    shape: str
    size: str  # a key of RADII
    place: str | None = None  # a key of PLACES; None where a relation places it


@dataclass(frozen=True)
class Picture:
    background: str  # a key of PLAIN or of SCENES
    objects: tuple[Object, ...]
    relation: str | None = None  # of the first object to the second; a key of RELATIONS
    blurry: bool = False  # what negative prompts are for

    @property
    def held_out(self) -> bool:
        """One composition in twenty, and every composition with a held-out pair, is kept from training."""
        if any((o.colour, o.shape) in HELD_OUT_PAIRS for o in self.objects):
            return True
        key = repr((self.background, self.objects, self.relation)).encode()
        return hashlib.sha1(key, usedforsecurity=False).digest()[0] % 20 == 0


def sample(rng: np.random.Generator, objects: int | None = None, *, blurry: float = 0.0) -> Picture:
    """A random picture with one or two objects (`None`: either); `blurry` is the share of bad ones."""
    background = str(rng.choice(list(PLAIN) if rng.random() < 0.55 else SCENES))
    colours = [c for c in COLOURS if c not in TOO_CLOSE[background]]
    count = objects if objects is not None else 1 + int(rng.random() < 0.5)
    bad = bool(rng.random() < blurry)

    def one(place: str | None, sizes: tuple[str, ...]) -> Object:
        return Object(str(rng.choice(colours)), str(rng.choice(SHAPES)), str(rng.choice(sizes)), place)

    if count == 1:
        place = "center" if rng.random() < 0.2 else str(rng.choice(list(PLACES)))
        return Picture(background, (one(place, tuple(RADII)),), None, bad)
    sizes = ("small", "medium", "medium")
    relation = None
    if rng.random() < 0.7:
        relation, places = str(rng.choice(list(RELATIONS))), (None, None)
    else:
        dx, dy = rng.choice([(1, 0), (0, 1), (1, 1), (1, -1)])
        flip = int(rng.choice([-1, 1]))
        names = {v: k for k, v in PLACES.items()}
        places = names[(int(dx) * flip, int(dy) * flip)], names[(-int(dx) * flip, -int(dy) * flip)]
    first = one(places[0], sizes)
    second = one(places[1], sizes)
    while (second.colour, second.shape) == (first.colour, first.shape):
        second = one(places[1], sizes)
    return Picture(background, (first, second), relation, bad)


# --- words -----------------------------------------------------------------------------------------

_SIZE_WORDS = {"small": ("small", "small", "tiny", "little"), "medium": ("",), "big": ("big", "big", "large")}
_SCENE_WORDS = {
    "night": ("at night", "at night", "on a night sky", "under the stars"),
    "sunset": ("at sunset", "at sunset", "in front of a sunset"),
    "meadow": ("on a meadow", "in a green meadow", "in a meadow"),
    "beach": ("on a beach", "at the beach"),
    "mountains": ("in the mountains", "in front of mountains"),
    "desert": ("in a desert", "in the desert"),
}
_PREFIXES = ("", "", "", "", "a picture of ", "a drawing of ", "an illustration of ", "a photo of ")
_SUFFIXES = ("", "", "", "", ", high quality", ", best quality", ", sharp", ", detailed", ", beautiful")
_BAD = ("blurry", "low quality", "blurry, low quality", "ugly, blurry", "bad quality", "worst quality")


def _name(rng: np.random.Generator | None, o: Object) -> str:
    words = _SIZE_WORDS[o.size]
    size = words[0] if rng is None else str(rng.choice(words))
    colour = "grey" if rng is not None and o.colour == "gray" and rng.random() < 0.3 else o.colour
    named = " ".join(w for w in (size, colour, o.shape) if w)
    return f"an {named}" if named[0] in "aeiou" else f"a {named}"


def _where(rng: np.random.Generator | None, place: str) -> str:
    if place == "center":
        return "in the center" if rng is None or rng.random() < 0.6 else "in the middle"
    forms = (f"at the {place}", f"on the {place}", f"in the {place}" if " " in place else f"at the {place}")
    return forms[0] if rng is None else str(rng.choice(forms))


def _background(rng: np.random.Generator | None, background: str) -> str:
    if background in PLAIN:
        return f"on a {background} background"
    words = _SCENE_WORDS[background]
    return words[0] if rng is None else str(rng.choice(words))


def caption(picture: Picture, rng: np.random.Generator | None = None) -> str:
    """The picture in words: the plainest full way, or with `rng` one of many, some leaving things out."""
    objects = picture.objects
    names = [_name(rng, o) for o in objects]
    loose = rng is not None
    if len(objects) == 1:
        place = objects[0].place
        silent = loose and place == "center" and rng.random() < 0.6
        text = names[0] if silent else f"{names[0]} {_where(rng, place)}"
    elif picture.relation is None:
        text = " and ".join(f"{n} {_where(rng, o.place)}" for n, o in zip(names, objects, strict=True))
    elif loose and picture.relation == "left of" and rng.random() < 0.35:
        text = f"{names[0]} {rng.choice(('and', 'next to', 'beside'))} {names[1]}"
    else:
        relation = picture.relation
        if relation.endswith(" of"):
            relation = relation if rng is None or rng.random() < 0.4 else f"to the {relation}"
        text = f"{names[0]} {relation} {names[1]}"
    if not (loose and picture.background == "white" and rng.random() < 0.3):
        text += (", " if loose and rng.random() < 0.3 else " ") + _background(rng, picture.background)
    if not loose:
        return text
    text = str(rng.choice(_PREFIXES)) + text
    if not picture.blurry:
        return text + str(rng.choice(_SUFFIXES))
    bad = str(rng.choice(_BAD))
    return bad if rng.random() < 0.4 else f"{text}, {bad}"


# --- drawing ---------------------------------------------------------------------------------------


def _polygon(px: np.ndarray, py: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Signed distance to a polygon (negative inside); after I. Quilez, "2D distance functions"."""
    distance = np.full(px.shape, np.inf, np.float32)
    inside = np.zeros(px.shape, bool)
    for (ax, ay), (bx, by) in zip(points, np.roll(points, 1, axis=0), strict=True):
        ex, ey = bx - ax, by - ay
        wx, wy = px - ax, py - ay
        t = np.clip((wx * ex + wy * ey) / (ex * ex + ey * ey), 0.0, 1.0)
        distance = np.minimum(distance, (wx - ex * t) ** 2 + (wy - ey * t) ** 2)
        inside ^= ((ay > py) != (by > py)) & (wx < ex * wy / (ey if ey else 1e-9))
    return np.sqrt(distance) * np.where(inside, -1.0, 1.0)


def _star_points() -> np.ndarray:
    angle = np.arange(10) * np.pi / 5 - np.pi / 2
    radius = np.where(np.arange(10) % 2 == 0, 1.12, 0.50)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle) + 0.05], 1)


def _heart_points() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([x / 16.0, (y + 2.0) / 15.5], 1)


_A = 0.34  # half the width of a cross's arm
_POLYGONS = {
    "square": np.array([(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)]),
    "triangle": np.array([(0.0, -1.0), (1.05, 0.82), (-1.05, 0.82)]),
    "diamond": np.array([(0.0, -1.12), (0.74, 0.0), (0.0, 1.12), (-0.74, 0.0)]),
    "cross": np.array(
        [
            *((-_A, -1), (_A, -1), (_A, -_A), (1, -_A), (1, _A), (_A, _A)),
            *((_A, 1), (-_A, 1), (-_A, _A), (-1, _A), (-1, -_A), (-_A, -_A)),
        ]
    ),
    "star": _star_points(),
    "heart": _heart_points(),
}


def shape_distance(shape: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Signed distance, in units of the radius, to a shape at the origin; y points down."""
    if shape == "circle":
        return np.hypot(x, y) - 0.95
    if shape == "ring":
        return np.abs(np.hypot(x, y) - 0.72) - 0.26
    if shape == "crescent":
        x, y = x / 1.1 - 0.21, y / 1.1  # as wide to the left as to the right
        return 1.1 * np.maximum(np.hypot(x, y) - 1.0, 0.82 - np.hypot(x - 0.48, y))
    return _polygon(x, y, _POLYGONS[shape])


def _vertical(stops: list[tuple[float, tuple[int, int, int]]], t: np.ndarray) -> np.ndarray:
    at = [s[0] for s in stops]
    return np.stack([np.interp(t, at, [s[1][c] for s in stops]) for c in range(3)], -1)


def _over(image: np.ndarray, colour, alpha: np.ndarray) -> None:
    image += alpha[..., None] * (np.asarray(colour, np.float32) - image)


def _soft(distance: np.ndarray) -> np.ndarray:
    """Coverage of a pixel whose centre lies `distance` pixels outside an edge."""
    return np.clip(0.5 - distance, 0.0, 1.0)


def _background_image(rng: np.random.Generator, name: str, size: int) -> np.ndarray:
    k = size / SIZE
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / k + 0.5 / k
    t = y / SIZE
    if name in PLAIN:
        base = np.asarray(PLAIN[name], np.float32)
        fall = ((x - 64) ** 2 + (y - 58) ** 2) / (2 * 64.0**2)
        return base * (1.02 - 0.09 * fall[..., None])
    if name == "night":
        image = _vertical([(0, (10, 14, 44)), (0.7, (28, 38, 92)), (1, (52, 60, 122))], t)
        for _ in range(int(rng.integers(16, 26))):
            sx, sy, r = rng.uniform(3, 125), rng.uniform(3, 112), rng.uniform(0.9, 1.5)
            _over(image, (250, 246, 220), 0.9 * _soft((np.hypot(x - sx, y - sy) - r) * k))
        return image
    if name == "sunset":
        image = _vertical([(0, (92, 60, 130)), (0.45, (232, 104, 96)), (0.72, (252, 178, 88))], t)
        sun = rng.uniform(30, 98)
        _over(image, (255, 232, 160), _soft((np.hypot(x - sun, y - 97) - 13) * k))
        _over(image, (70, 52, 100), _soft((100 - y) * k))
        return image
    wave, phase = rng.uniform(0.03, 0.06), rng.uniform(0, 6.28)
    if name == "meadow":
        image = _vertical([(0, (120, 190, 244)), (0.6, (206, 232, 250))], t)
        far = 84 + 5 * np.sin(x * wave + phase)
        near = 100 + 5 * np.sin(x * wave * 0.8 + phase + 2.5)
        _over(image, (134, 196, 92), _soft((far - y) * k))
        _over(image, (92, 168, 70), _soft((near - y) * k))
    elif name == "beach":
        image = _vertical([(0, (122, 200, 246)), (0.5, (214, 240, 252))], t)
        _over(image, (44, 140, 200), _soft((66 - y) * k))
        sand = 92 + 3 * np.sin(x * wave + phase)
        _over(image, (250, 250, 250), _soft((sand - 2.5 - y) * k))
        _over(image, (240, 216, 158), _soft((sand - y) * k))
    elif name == "mountains":
        image = _vertical([(0, (150, 186, 226)), (0.8, (236, 238, 246))], t)
        for peak, top, slope in ((rng.uniform(14, 50), 46, 0.85), (rng.uniform(76, 116), 56, 0.8)):
            edge = top + slope * np.abs(x - peak)
            _over(image, (112, 112, 142), _soft((edge - y) * k))
            snow = np.maximum(edge - y, y - top - 12 - 2.0 * np.sin(x * 0.8 + phase))
            _over(image, (246, 248, 252), _soft(snow * k))
        _over(image, (84, 116, 92), _soft((104 + 3 * np.sin(x * wave + phase) - y) * k))
    else:  # desert
        image = _vertical([(0, (148, 204, 232)), (0.62, (250, 232, 204))], t)
        far = 82 + 7 * np.sin(x * wave * 0.9 + phase)
        near = 102 + 6 * np.sin(x * wave * 1.1 + phase + 2.0)
        _over(image, (232, 178, 108), _soft((far - y) * k))
        _over(image, (214, 150, 82), _soft((near - y) * k))
    return image


def _positions(rng: np.random.Generator, picture: Picture, radii: list[float]) -> list[tuple[float, float]]:
    if picture.relation is None:
        spots = [PLACES[o.place] for o in picture.objects]
        centres = [(64 + STEP * dx, 64 + STEP * dy) for dx, dy in spots]
    else:
        dx, dy = RELATIONS[picture.relation]
        half = STEP + rng.uniform(-2, 2)
        sx, sy = rng.uniform(-8, 8, 2) * (dx == 0, dy == 0)
        centres = [(64 + half * dx + sx, 64 + half * dy + sy), (64 - half * dx + sx, 64 - half * dy + sy)]
    out = []
    for (cx, cy), r in zip(centres, radii, strict=True):
        reach = 1.14 * r + 2
        out.append(tuple(np.clip(np.array((cx, cy)) + rng.uniform(-4, 4, 2), reach, SIZE - reach)))
    return out


def draw(picture: Picture, rng: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """Render: float32 RGB (size, size, 3) in 0..1. The same rng state draws the same picture."""
    return draw_parts(picture, rng, size)[0]


def draw_parts(
    picture: Picture, rng: np.random.Generator, size: int = SIZE
) -> tuple[np.ndarray, list[np.ndarray]]:
    """As `draw`, and for each object the share of every pixel that it covers, (size, size)."""
    k = size / SIZE
    image = _background_image(rng, picture.background, size).astype(np.float32)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / k + 0.5 / k
    radii = [float(rng.uniform(*RADII[o.size])) for o in picture.objects]
    covers = []
    for o, r, (cx, cy) in zip(picture.objects, radii, _positions(rng, picture, radii), strict=True):
        turn = rng.uniform(-0.1, 0.1)
        lx, ly = (x - cx) / r, (y - cy) / r
        ux, uy = lx * np.cos(turn) + ly * np.sin(turn), ly * np.cos(turn) - lx * np.sin(turn)
        # A margin round the object is all that its drawing touches.
        reach = 1.3 * r + 9
        window = np.s_[
            int(max(0, (cy - reach) * k)) : int((cy + reach) * k) + 1,
            int(max(0, (cx - reach) * k)) : int((cx + reach) * k) + 1,
        ]
        view, ux, uy, lx, ly = image[window], ux[window], uy[window], lx[window], ly[window]
        shadow = shape_distance(o.shape, ux - 2.2 / r, uy - 3.2 / r) * r
        _over(view, (20, 20, 34), 0.30 * np.clip(0.5 - shadow / 6.0, 0.0, 1.0))
        light = 1.0 + 0.13 * np.clip(-(0.5 * lx + 0.85 * ly), -1.0, 1.0)
        distance = shape_distance(o.shape, ux, uy) * r
        rim = 1.0 - 0.16 * np.clip(1.0 + distance / 2.0, 0.0, 1.0)
        colour = np.clip(np.asarray(COLOURS[o.colour], np.float32) * (light * rim)[..., None], 0, 255)
        cover = np.zeros((size, size), np.float32)
        cover[window] = _soft(distance * k)
        _over(view, colour, cover[window])
        covers.append(cover)
    image = np.clip(image / 255.0, 0.0, 1.0)
    if picture.blurry:
        for _ in range(int(rng.integers(6, 14))):
            image = (image + np.roll(image, 1, 0) + np.roll(image, -1, 0)) / 3
            image = (image + np.roll(image, 1, 1) + np.roll(image, -1, 1)) / 3
        image = np.clip(image + rng.normal(0, 0.03, image.shape), 0, 1)
    return image.astype(np.float32), covers
