"""Text models in files: recognising them, their tensor names as transformers', their configs from shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .files import Entry, Weights
from .renaming import Target, below, count, renamed

HEAD = 64  # the width of a head, in every published CLIP text model

# open_clip's names
_RESBLOCK: dict[str, Target] = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
    "attn.out_proj": "self_attn.out_proj",
    **{
        f"attn.in_proj_{end}": tuple(f"self_attn.{x}_proj.{end}" for x in "qkv") for end in ("weight", "bias")
    },
}
_OPEN_CLIP: dict[str, Target] = {
    "positional_embedding": "embeddings.position_embedding.weight",
    "token_embedding": "embeddings.token_embedding",
    "ln_final": "final_layer_norm",
    **below("transformer.resblocks.*.", "encoder.layers.*.", _RESBLOCK),
}


def tower_in(weights: Weights) -> str | None:
    """Which text model a file holds: "l", "g" or "h" (CLIP by size), "t5xxl" (T5 of any size), or None."""
    if "encoder.block.0.layer.0.SelfAttention.q.weight" in weights:
        return "t5xxl"
    plain = clip_to_transformers(weights)
    if "embeddings.token_embedding.weight" not in plain:
        return None
    layers = count(plain, "encoder.layers.*.")
    return "g" if layers > 30 else "h" if layers > 22 else "l"


def clip_to_transformers(weights: Weights) -> dict[str, Entry]:
    """CLIP's text tensors without the part `text_model.`; others, vision towers' too, are left out."""
    if "transformer.resblocks.0.ln_1.weight" in weights:
        named = renamed(weights, _OPEN_CLIP)
    else:
        named = {name.removeprefix("text_model."): entry for name, entry in weights.items()}
    kept = ("embeddings.token_embedding.", "embeddings.position_embedding.", "encoder.", "final_layer_norm.")
    plain = {name: entry for name, entry in named.items() if name.startswith(kept)}
    if "text_projection.weight" in named:
        plain["text_projection.weight"] = named["text_projection.weight"]
    elif "text_projection" in named:
        plain["text_projection.weight"] = named["text_projection"].transposed()
    return plain


def clip_config(weights: Weights, tower: str) -> dict[str, Any]:
    """Config of transformers' CLIPTextModel; the activation and the special ids are those of the tower."""
    vocabulary, width = weights["embeddings.token_embedding.weight"].shape
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": weights["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": count(weights, "encoder.layers.*."),
        "num_attention_heads": max(1, width // HEAD),
        "max_position_embeddings": weights["embeddings.position_embedding.weight"].shape[0],
        "hidden_act": "quick_gelu" if tower == "l" else "gelu",
        "bos_token_id": vocabulary - 2,
        "eos_token_id": vocabulary - 1,
    }


def t5_to_transformers(weights: Weights) -> dict[str, Entry]:
    """The encoder; the token embedding, which files have under one or two names, under both."""
    plain = {name: entry for name, entry in weights.items() if name.startswith("encoder.")}
    shared = weights.get("shared.weight") or plain["encoder.embed_tokens.weight"]
    return plain | {"shared.weight": shared, "encoder.embed_tokens.weight": shared}


def t5_config(weights: Weights) -> dict[str, Any]:
    """Config of transformers' T5EncoderModel; the activation is that of version 1.1."""
    vocabulary, width = weights["shared.weight"].shape
    buckets, heads = weights["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"].shape
    gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in weights
    inner = weights[f"encoder.block.0.layer.1.DenseReluDense.wi{'_0' if gated else ''}.weight"]
    return {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": weights["encoder.block.0.layer.0.SelfAttention.q.weight"].shape[0] // heads,
        "d_ff": inner.shape[0],
        "num_layers": count(weights, "encoder.block.*."),
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
    }


def build_clip(config: Mapping[str, Any]) -> torch.nn.Module:
    from transformers.models.clip.configuration_clip import CLIPTextConfig
    from transformers.models.clip.modeling_clip import CLIPTextModel

    return CLIPTextModel(CLIPTextConfig(**config))


def build_t5(config: Mapping[str, Any]) -> torch.nn.Module:
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5EncoderModel

    return T5EncoderModel(T5Config(**config))
