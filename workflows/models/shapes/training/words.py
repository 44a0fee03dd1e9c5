"""Stage 0: a CLIP tokenizer in which every word of the captions is one token, and the small text encoder."""

from __future__ import annotations

import json
from pathlib import Path

import data
import numpy as np
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

LENGTH = 32  # tokens, start and end included
WIDTH = 128

# CLIP's way of cutting text into words.
_WORDS = Regex(r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""")
_EXTRA = (
    "with one two its without background picture image nothing else scene object objects shape colour color"
)


def corpus() -> list[str]:
    rng = np.random.default_rng(0)
    return [data.caption(data.sample(rng, blurry=0.2), rng) for _ in range(20_000)] + [_EXTRA]


def write_tokenizer(folder: Path) -> None:
    """Train the byte-pair merges on the captions; write vocab.json, merges.txt and their configs."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=20_000,
        min_frequency=1,
        initial_alphabet=letters,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    merges = [tuple(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]
    pieces = letters + [f"{x}</w>" for x in letters] + ["".join(m) for m in merges]
    pieces = [*list(dict.fromkeys(pieces)), "<|startoftext|>", "<|endoftext|>"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False) + "\n")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    special = {
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
    }
    settings = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": LENGTH,
        "do_lower_case": True,
        **special,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n")


def load_tokenizer(folder: Path) -> CLIPTokenizer:
    return CLIPTokenizer.from_pretrained(folder)


def build_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=LENGTH,
            hidden_act="quick_gelu",
            projection_dim=WIDTH,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
