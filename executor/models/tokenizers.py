"""Text to token ids: vocabularies from a folder, or CLIP's from the package open_clip_torch."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import folders
from .files import BadFile

# CLIP's vocabulary: 256 bytes, each also at a word's end, the merges that are used, two special tokens.
CLIP_BPE = "bpe_simple_vocab_16e6.txt.gz"
CLIP_MERGES = 49152 - 256 - 2
CLIP_START, CLIP_END = "<|startoftext|>", "<|endoftext|>"
CLIP_WORDS = (
    rf"{CLIP_START.replace('|', chr(92) + '|')}|{CLIP_END.replace('|', chr(92) + '|')}"
    r"|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
FILES = ("tokenizer.json", "vocab.json", "spiece.model")
NO_LIMIT = 10**6  # tokenizer configs without a limit state a huge one


@dataclass(frozen=True)
class Vocabulary:
    """`ids(text)` gives token ids without the special ones, which are `start` (None in T5), `end`, `pad`."""

    ids: Callable[[str], list[int]]
    start: int | None
    end: int
    pad: int
    max_length: int | None = None


@cache
def from_folder(folder: Path) -> Vocabulary:
    """A tokenizer as transformers saves it: tokenizer.json, or what transformers makes one of."""
    settings = _json(folder / "tokenizer_config.json")
    limit = settings.get("model_max_length") or NO_LIMIT
    if (folder / "tokenizer.json").is_file():
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the package raises nothing more specific
            raise BadFile(f"{folder / 'tokenizer.json'}: not a readable tokenizer: {error}") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return _vocabulary(tokenizer, _pad_token(folder, settings), limit)
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise BadFile(f"{folder}: not a readable tokenizer: {error}") from error

    def ids(text: str) -> list[int]:
        return loaded(text, add_special_tokens=False)["input_ids"]

    special = loaded("")["input_ids"]
    start = special[0] if len(special) > 1 else None
    return Vocabulary(ids, start, special[-1], loaded.pad_token_id, limit if limit < NO_LIMIT else None)


def _vocabulary(tokenizer, pad: str | None, limit: int) -> Vocabulary:
    special = tokenizer.encode("").ids
    if not special:
        raise BadFile("this tokenizer adds no end token, by which the text models know where a prompt ends")
    pad_id = tokenizer.token_to_id(pad) if pad else None
    return Vocabulary(
        ids=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        start=special[0] if len(special) > 1 else None,
        end=special[-1],
        pad=special[-1] if pad_id is None else pad_id,
        max_length=limit if limit < NO_LIMIT else None,
    )


def _pad_token(folder: Path, settings: dict) -> str | None:
    pad = settings.get("pad_token") or _json(folder / "special_tokens_map.json").get("pad_token")
    return pad["content"] if isinstance(pad, dict) else pad


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def clip(beside: Path | None = None) -> Vocabulary:
    """CLIP's vocabulary, for files that hold only weights."""
    if (folder := _find("clip", beside)) is not None:
        return from_folder(folder)
    package = importlib.util.find_spec("open_clip")
    if package is not None and package.submodule_search_locations:
        bpe = Path(package.submodule_search_locations[0]) / CLIP_BPE
        if bpe.is_file():
            return from_bpe(bpe)
    raise folders.ModelNotFound(
        "The prompt needs CLIP's vocabulary, which model files of this kind do not hold. "
        f"Install open_clip_torch, or put the tokenizer's files (tokenizer.json, or vocab.json and "
        f"merges.txt) into one of: {_places('clip', beside)}"
    )


def t5(beside: Path | None = None) -> Vocabulary:
    """T5's vocabulary, for files that hold only weights."""
    if (folder := _find("t5", beside)) is not None:
        return from_folder(folder)
    raise folders.ModelNotFound(
        "The prompt needs T5's vocabulary, which model files of this kind do not hold. "
        f"Put the tokenizer's files (tokenizer.json or spiece.model) into one of: {_places('t5', beside)}"
    )


def _find(kind: str, beside: Path | None) -> Path | None:
    for folder in _candidates(kind, beside):
        if any((folder / name).is_file() for name in FILES):
            return folder
    return None


def _candidates(kind: str, beside: Path | None) -> list[Path]:
    own = [] if beside is None else [beside.parent / "tokenizer"]
    return own + [root / "tokenizers" / kind for root in folders.current().roots]


def _places(kind: str, beside: Path | None) -> str:
    return ", ".join(map(str, _candidates(kind, beside)))


@cache
def from_bpe(file: Path) -> Vocabulary:
    """The vocabulary in the form in which OpenAI published it: one merge a line, after a heading."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    with gzip.open(file, "rt", encoding="utf-8") as lines:
        pairs = [tuple(line.split()) for line in lines.read().splitlines()[1 : CLIP_MERGES + 1]]
    letters = _byte_letters()
    tokens = [
        *letters,
        *(f"{letter}</w>" for letter in letters),
        *("".join(pair) for pair in pairs),
        CLIP_START,
        CLIP_END,
    ]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=pairs, end_of_word_suffix="</w>", unk_token=CLIP_END)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.add_special_tokens([CLIP_START, CLIP_END])
    end = vocabulary[CLIP_END]
    return Vocabulary(
        ids=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        start=vocabulary[CLIP_START],
        end=end,
        pad=end,
        max_length=77,
    )


def _byte_letters() -> list[str]:
    """A printable character for every byte, in the order of CLIP's ids: those that are printable stand
    for themselves, the others for the characters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
