"""Stable Diffusion's UNet: tensor names of the original code (latent-diffusion) as diffusers' names.

The original numbers its input and output blocks in one sequence; diffusers groups them by resolution.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..files import Entry, Weights
from ..renaming import count

_RESNET = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
_OTHER = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "label_emb.0.0": "add_embedding.linear_1",
    "label_emb.0.2": "add_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}


def to_diffusers(weights: Weights) -> dict[str, Entry]:
    prefixes = dict(_prefixes(weights))
    result = {}
    for name, entry in weights.items():
        parts = name.split(".")
        block = ".".join(parts[:3] if parts[0] != "middle_block" else parts[:2])
        stem, _, leaf = name.rpartition(".")
        if stem in _OTHER:
            result[f"{_OTHER[stem]}.{leaf}"] = entry
        elif block in prefixes:
            inner = stem[len(block) + 1 :]
            inner = _RESNET.get(inner, "conv" if inner == "op" else inner)
            result[".".join(part for part in (prefixes[block], inner, leaf) if part)] = entry
        else:
            result[name] = entry
    return result


def _prefixes(weights: Weights) -> Iterable[tuple[str, str]]:
    """Pairs such as ("input_blocks.1.0", "down_blocks.0.resnets.0")."""
    level = layer = 0
    for i in range(1, count(weights, "input_blocks.*.")):
        block = f"input_blocks.{i}"
        if f"{block}.0.op.weight" in weights:
            yield f"{block}.0", f"down_blocks.{level}.downsamplers.0"
            level, layer = level + 1, 0
        else:
            yield f"{block}.0", f"down_blocks.{level}.resnets.{layer}"
            yield f"{block}.1", f"down_blocks.{level}.attentions.{layer}"
            layer += 1
    level = layer = 0
    for i in range(count(weights, "output_blocks.*.")):
        block = f"output_blocks.{i}"
        yield f"{block}.0", f"up_blocks.{level}.resnets.{layer}"
        upsampler = next((j for j in (1, 2) if f"{block}.{j}.conv.weight" in weights), None)
        if upsampler != 1:
            yield f"{block}.1", f"up_blocks.{level}.attentions.{layer}"
        layer += 1
        if upsampler is not None:
            yield f"{block}.{upsampler}", f"up_blocks.{level}.upsamplers.0"
            level, layer = level + 1, 0
    yield "middle_block.0", "mid_block.resnets.0"
    yield "middle_block.1", "mid_block.attentions.0"
    yield "middle_block.2", "mid_block.resnets.1"
