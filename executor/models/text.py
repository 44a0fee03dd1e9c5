"""CLIP: one or more text models that turn prompts into CONDITIONING, as an immutable handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from . import embeddings, memory
from .prompt import EMBEDDING, ChunkRules, Token, chunked, weighted_pieces, words
from .tokenizers import Vocabulary
from .towers import Tower

log = logging.getLogger(__name__)

Chunks = Sequence[Sequence[Token]]
# A text model's sequence [1, L, W] and pooled vector [1, W].
Part = tuple[torch.Tensor, torch.Tensor | None]


@dataclass(frozen=True)
class Use:
    """How a family uses one of its text models.

    `layer` as in Tower.encode; `normed`: with the final norm; `projected`: the pooled vector after the
    text projection; `min_length`: pad shorter prompts to this many tokens; `pad`: in place of the
    vocabulary's own padding.
    """

    layer: int | None = None
    normed: bool = True
    projected: bool = False
    min_length: int = 0
    pad: int | None = None


# Family's text -> text model -> use. The rules are those of the families' reference code, which differ.
USES: dict[str, dict[str, Use]] = {
    "single": {
        "l": Use(),
        "h": Use(layer=-2, projected=True, pad=0),
        "g": Use(layer=-2, normed=False, projected=True, pad=0),
    },
    "sdxl": {
        "l": Use(layer=-2, normed=False),
        "g": Use(layer=-2, normed=False, projected=True, pad=0),
    },
    "sd3": {
        "l": Use(layer=-2, normed=False),
        "g": Use(layer=-2, normed=False, projected=True, pad=0),
        "t5xxl": Use(min_length=77),
    },
    "flux": {"l": Use(), "t5xxl": Use(min_length=256)},
}
EMBEDDING_KEYS = {"l": "clip_l", "g": "clip_g", "h": "clip_h", "t5xxl": "t5xxl"}


@dataclass(frozen=True, eq=False)
class TextModel:
    """One text model. Its vocabulary is looked for when the first prompt needs it."""

    name: str
    tower: Tower
    find_vocabulary: Callable[[], Vocabulary]
    use: Use
    device: torch.device = field(default_factory=memory.device)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return self.find_vocabulary()

    @cached_property
    def rules(self) -> ChunkRules:
        known, limit = self.vocabulary, self.tower.positions
        return ChunkRules(
            start=known.start,
            end=known.end,
            pad=known.pad if self.use.pad is None else self.use.pad,
            max_length=limit and min(limit, known.max_length or limit),
            fill=limit is not None,
            min_length=self.use.min_length,
        )

    def tokenize(self, text: str) -> list[list[Token]]:
        found: list[list[Token]] = []
        for piece, weight in weighted_pieces(text):
            for word in words(piece):
                if word.startswith(EMBEDDING):
                    vectors, word = self._embedding(word[len(EMBEDDING) :])
                    found.append([(vector, weight) for vector in vectors])
                if word:
                    found.append([(token, weight) for token in self.vocabulary.ids(word)])
        return chunked(found, self.rules)

    def _embedding(self, text: str) -> tuple[Sequence[torch.Tensor], str]:
        """The vectors of the embedding that `text` begins with, and the text after it.

        A comma right after the name may belong to it or to the text.
        """
        name, *rest = text.split() or [""]
        key, width = EMBEDDING_KEYS[self.name], self.tower.width
        for candidate in dict.fromkeys([name, name.strip(",")]):
            vectors = embeddings.load(candidate, key, width) if candidate else None
            if vectors is not None:
                comma = name[len(candidate) :]
                return list(vectors), " ".join([comma, *rest] if comma else rest)
        log.warning("embedding:%s does not exist or does not fit; it is ignored", name)
        return [], " ".join(rest)

    def encode(self, chunks: Chunks, layer: int | None) -> Part:
        """The chunks' sequences one after the other [1, L, W], and the first one's pooled vector [1, W].

        Weighted tokens move away from (or towards) what an empty prompt has in their place.
        """
        tokens = [[token for token, _ in chunk] for chunk in chunks]
        weights = [[weight for _, weight in chunk] for chunk in chunks]
        weighted = any(weight != 1.0 for row in weights for weight in row)
        if weighted or not tokens:
            tokens.append(self.rules.empty(max(map(len, tokens), default=0)))
        tower = memory.to_device(self.tower, self.device)
        encoded = tower.encode(tokens, self.use.layer if layer is None else layer, self.use.normed)
        sequence = encoded.sequence.float().cpu()
        if weighted:
            neutral = sequence[-1:]
            factor = torch.tensor(weights)[..., None]
            sequence = torch.where(factor == 1.0, sequence[:-1], neutral + (sequence[:-1] - neutral) * factor)
        pooled = encoded.projected if self.use.projected else encoded.pooled
        pooled = None if pooled is None else pooled[:1].float().cpu()
        return sequence.reshape(1, -1, sequence.shape[-1]), pooled


def _single(parts: Mapping[str, Part]) -> Part:
    return next(iter(parts.values()))


def _side_by_side(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    length = min(first.shape[1], second.shape[1])
    return torch.cat([first[:, :length], second[:, :length]], dim=-1)


def _sdxl(parts: Mapping[str, Part]) -> Part:
    return _side_by_side(parts["l"][0], parts["g"][0]), parts["g"][1]


# Widths of Stable Diffusion 3's text models, for the place of one that is missing.
L_WIDTH, G_WIDTH, T5_WIDTH = 768, 1280, 4096


def _sd3(parts: Mapping[str, Part]) -> Part:
    """Both CLIPs side by side, widened with zeros to T5's width, then T5's sequence."""
    small, small_pooled = parts.get("l", (None, None))
    large, large_pooled = parts.get("g", (None, None))
    t5, _ = parts.get("t5xxl", (None, None))
    pooled = torch.cat(
        [
            torch.zeros(1, L_WIDTH) if small_pooled is None else small_pooled,
            torch.zeros(1, G_WIDTH) if large_pooled is None else large_pooled,
        ],
        dim=-1,
    )
    width = T5_WIDTH if t5 is None else t5.shape[-1]
    if small is not None and large is not None:
        clip = _side_by_side(small, large)
    else:
        clip = small if large is None else torch.nn.functional.pad(large, (L_WIDTH, 0))
    if clip is not None:
        clip = torch.nn.functional.pad(clip, (0, width - clip.shape[-1]))
    sequences = [sequence for sequence in (clip, t5) if sequence is not None]
    return torch.cat(sequences, dim=1) if sequences else torch.zeros(1, 77, width), pooled


def _flux(parts: Mapping[str, Part]) -> Part:
    return parts["t5xxl"][0], parts["l"][1]


COMBINE: dict[str, Callable[[Mapping[str, Part]], Part]] = {
    "single": _single,
    "sdxl": _sdxl,
    "sd3": _sd3,
    "flux": _flux,
}


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """`text` is a key of USES and COMBINE; `last_layer` replaces the layer that the family uses."""

    text: str
    models: tuple[TextModel, ...]
    last_layer: int | None = None

    def with_last_layer(self, layer: int) -> TextEncoder:
        return replace(self, last_layer=layer)

    def tokenize(self, text: str | Mapping[str, str]) -> dict[str, list[list[Token]]]:
        """Text model's name -> chunks of (token, weight); `text` for all, or one for each name."""
        names = [model.name for model in self.models]
        if isinstance(text, str):
            text = dict.fromkeys(names, text)
        if missing := [name for name in names if name not in text]:
            raise ValueError(
                f"this text encoder has a model {missing[0]!r}; there are prompts for {list(text)}"
            )
        return {model.name: model.tokenize(text[model.name]) for model in self.models}

    def encode(self, tokens: Mapping[str, Chunks], **extra: Any) -> list[list[Any]]:
        """CONDITIONING with one entry; `extra` goes into its options.

        A CLIP model without any chunk is left out, as SD3 may be told to do with empty prompts.
        """
        parts = {
            model.name: model.encode(tokens[model.name], self.last_layer)
            for model in self.models
            if tokens[model.name] or not model.rules.fill
        }
        sequence, pooled = COMBINE[self.text](parts)
        return [[sequence, {"pooled_output": pooled, **extra}]]
