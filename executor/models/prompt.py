"""ComfyUI's prompt syntax, and how tokens are put into the chunks that a text model takes.

`(words:1.3)` weighs words, `(words)` stands for 1.1 times what is around, parentheses nest (an inner
weight replaces the outer), `\\(` and `\\)` are literal. `embedding:name` stands for the vectors in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import torch

EMPHASIS = 1.1  # of parentheses without a weight
LONG_WORD = 8  # tokens; words as long as this may be cut at the end of a chunk
EMBEDDING = "embedding:"
_BEFORE_EMBEDDING = re.compile(f"[ \n](?={EMBEDDING})")
# Stand in for literal parentheses while the others are read; Unicode guarantees that text has no such.
_ESCAPES = {"\\(": "\ufdd0", "\\)": "\ufdd1"}

# A token id or one vector of an embedding, and its weight.
Token: TypeAlias = "tuple[int | torch.Tensor, float]"


def weighted_pieces(text: str) -> list[tuple[str, float]]:
    """The text without its markup, in pieces of equal weight."""
    for escape, stand_in in _ESCAPES.items():
        text = text.replace(escape, stand_in)
    pieces = []
    for piece, weight in _weigh(text, 1.0):
        for escape, stand_in in _ESCAPES.items():
            piece = piece.replace(stand_in, escape[1])
        pieces.append((piece, weight))
    return pieces


def _weigh(text: str, weight: float) -> Iterator[tuple[str, float]]:
    for group in _groups(text):
        if len(group) < 2 or group[0] != "(" or group[-1] != ")":
            yield group, weight
            continue
        inner, own = group[1:-1], weight * EMPHASIS
        before, colon, after = inner.rpartition(":")
        if colon and before:
            with suppress(ValueError):  # a colon of the text itself
                inner, own = before, float(after)
        yield from _weigh(inner, own)


def _groups(text: str) -> Iterator[str]:
    """Cut before each parenthesis that opens at depth 0 and after the one that closes it.

    A closing one too many makes the depth negative, from which the text does not recover, and one that
    stays open reaches to the end: both as in ComfyUI, so that prompts written for it mean the same.
    """
    start = depth = 0
    for position, character in enumerate(text):
        if character == "(":
            if depth == 0:
                if position > start:
                    yield text[start:position]
                start = position
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                yield text[start : position + 1]
                start = position + 1
    if start < len(text):
        yield text[start:]


def words(piece: str) -> list[str]:
    """A piece cut before every `embedding:` that follows a space or line break, which goes."""
    return [word for word in _BEFORE_EMBEDDING.split(piece) if word]


@dataclass(frozen=True)
class ChunkRules:
    """Special token ids and lengths of one text model; `start` or `end` None where it has none."""

    start: int | None
    end: int | None
    pad: int
    max_length: int | None  # None: a single chunk of any length
    fill: bool  # pad every chunk to max_length
    min_length: int = 0

    @property
    def room(self) -> int | None:
        """Tokens that a chunk takes beside the special ones."""
        if self.max_length is None:
            return None
        return self.max_length - (self.start is not None) - (self.end is not None)

    def empty(self, length: int) -> list[int]:
        """The ids of an empty prompt."""
        ids = [token for token in (self.start, self.end) if token is not None]
        return ids + [self.pad] * (length - len(ids))


def chunked(words: Iterable[list[Token]], rules: ChunkRules) -> list[list[Token]]:
    """Tokens of whole words in chunks, with the special tokens (weight 1) in place.

    A word that does not fit goes to the next chunk, a long one is cut.
    """
    room = rules.room
    chunks: list[list[Token]] = [[]]
    for word in words:
        while word and room is not None and len(chunks[-1]) + len(word) > room:
            if len(word) >= min(LONG_WORD, room + 1):
                fitting = room - len(chunks[-1])
                chunks[-1] += word[:fitting]
                word = word[fitting:]
            chunks.append([])
        chunks[-1] += word
    return [_closed(chunk, rules) for chunk in chunks]


def _closed(chunk: list[Token], rules: ChunkRules) -> list[Token]:
    start = [] if rules.start is None else [(rules.start, 1.0)]
    end = [] if rules.end is None else [(rules.end, 1.0)]
    closed = [*start, *chunk, *end]
    length = max(rules.min_length, (rules.max_length or 0) if rules.fill else 0)
    return closed + [(rules.pad, 1.0)] * (length - len(closed))
