"""Autoencoders in files: recognising them, their tensor names as diffusers', their configs from shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch

from .files import Entry, Weights, under
from .renaming import count

_LEVEL = re.compile(r"^(encoder\.down|decoder\.up)\.(\d+)\.(?:block\.(\d+)|(?:down|up)sample)\.")
_MIDDLE = {"mid.block_1": "mid_block.resnets.0", "mid.block_2": "mid_block.resnets.1"}
_ATTENTION = {
    "norm": "group_norm",
    "q": "to_q",
    "k": "to_k",
    "v": "to_v",
    "proj_out": "to_out.0",
    # as diffusers itself once called them
    "query": "to_q",
    "key": "to_k",
    "value": "to_v",
    "proj_attn": "to_out.0",
}
_ATTENTION_PREFIX = re.compile(r"\bmid(?:\.attn_1|_block\.attentions\.0)\.(\w+)")
TINY = ("taesd_encoder.", "taesd_decoder.")


def is_kl(weights: Weights) -> bool:
    """A Stable Diffusion or Flux autoencoder, in the original layout or diffusers'."""
    entry = weights.get("decoder.conv_in.weight")
    if entry is None or len(entry.shape) != 4:
        return False
    marks = ("decoder.mid.block_1.norm1.weight", "decoder.mid_block.resnets.0.norm1.weight")
    return any(mark in weights for mark in marks)


def is_tiny(weights: Weights) -> bool:
    """A TAESD of both halves (https://github.com/madebyollin/taesd), named as in ComfyUI's VAE files."""
    return "taesd_decoder.1.weight" in weights and "taesd_encoder.0.weight" in weights


def kl_to_diffusers(weights: Weights) -> dict[str, Entry]:
    levels = count(weights, "decoder.up.*.")
    result = {}
    for name, entry in weights.items():
        if name.startswith(("encoder.", "decoder.", "quant_conv.", "post_quant_conv.")):
            new = _kl_name(name, levels)
            if "attentions.0.to_" in new and len(entry.shape) == 4:  # 1x1 convolutions that are linear layers
                entry = entry.reshaped(*entry.shape[:2])
            result[new] = entry
    return result


def _kl_name(name: str, levels: int) -> str:
    name = _ATTENTION_PREFIX.sub(lambda m: f"mid_block.attentions.0.{_ATTENTION.get(m[1], m[1])}", name)
    for old, new in _MIDDLE.items():
        name = name.replace(f".{old}.", f".{new}.")
    if match := _LEVEL.match(name):
        half, level, block = match[1], int(match[2]), match[3]
        if half == "decoder.up":
            level = levels - 1 - level  # the original counts from the finest
        side = half.partition(".")[2]
        inner = f"resnets.{block}" if block else f"{side}samplers.0"
        name = f"{half}_blocks.{level}.{inner}.{name[match.end() :]}"
    return name.replace(".nin_shortcut.", ".conv_shortcut.").replace(".norm_out.", ".conv_norm_out.")


def kl_config(weights: Weights) -> dict[str, Any]:
    """Config of diffusers' AutoencoderKL, from the shapes of tensors in its layout."""
    levels = count(weights, "encoder.down_blocks.*.")
    channels = [weights[f"encoder.down_blocks.{i}.resnets.0.conv1.weight"].shape[0] for i in range(levels)]
    return {
        "in_channels": weights["encoder.conv_in.weight"].shape[1],
        "out_channels": weights["decoder.conv_out.weight"].shape[0],
        "latent_channels": weights["decoder.conv_in.weight"].shape[1],
        "block_out_channels": channels,
        "layers_per_block": count(weights, "encoder.down_blocks.0.resnets.*."),
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "norm_num_groups": math.gcd(32, *channels),
        "use_quant_conv": "quant_conv.weight" in weights,
        "use_post_quant_conv": "post_quant_conv.weight" in weights,
        "mid_block_add_attention": "decoder.mid_block.attentions.0.to_q.weight" in weights,
    }


def tiny_to_diffusers(weights: Weights) -> dict[str, Entry]:
    """The original's decoder begins with a clamp, which counts as its layer 0."""
    encoder = {f"encoder.layers.{name}": entry for name, entry in under(weights, TINY[0]).items()}
    decoder = {}
    for name, entry in under(weights, TINY[1]).items():
        layer, _, rest = name.partition(".")
        decoder[f"decoder.layers.{int(layer) - 1}.{rest}"] = entry
    return encoder | decoder


def tiny_config(weights: Weights) -> dict[str, Any]:
    width, latent_channels = weights["decoder.layers.0.weight"].shape[:2]
    return {
        "encoder_block_out_channels": [width] * 4,
        "decoder_block_out_channels": [width] * 4,
        "latent_channels": latent_channels,
    }


def build_kl(config: Mapping[str, Any]) -> torch.nn.Module:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    return AutoencoderKL.from_config(config)


def build_tiny(config: Mapping[str, Any]) -> torch.nn.Module:
    from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny

    return AutoencoderTiny.from_config(config)
