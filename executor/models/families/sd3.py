"""Stable Diffusion 3 and 3.5 (Stability AI), the multimodal diffusion transformer of arXiv:2403.03206."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ...sampling.model import LatentFormat
from ...sampling.prediction import DiscreteFlow, ModelSampling
from ..files import Entry, Weights
from ..renaming import Swapped, Target, below, count, renamed
from .base import Family, Inputs, Surroundings, pad_to_multiple, pooled

HEAD = 64  # every published size has heads of this width

_BLOCK: dict[str, Target] = {
    "x_block.adaLN_modulation.1": "norm1.linear",
    "x_block.attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "x_block.attn.ln_q.weight": "attn.norm_q.weight",
    "x_block.attn.ln_k.weight": "attn.norm_k.weight",
    "x_block.attn.proj": "attn.to_out.0",
    "x_block.attn2.qkv": ("attn2.to_q", "attn2.to_k", "attn2.to_v"),
    "x_block.attn2.ln_q.weight": "attn2.norm_q.weight",
    "x_block.attn2.ln_k.weight": "attn2.norm_k.weight",
    "x_block.attn2.proj": "attn2.to_out.0",
    "x_block.mlp.fc1": "ff.net.0.proj",
    "x_block.mlp.fc2": "ff.net.2",
    "context_block.adaLN_modulation.1": "norm1_context.linear",
    "context_block.attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "context_block.attn.ln_q.weight": "attn.norm_added_q.weight",
    "context_block.attn.ln_k.weight": "attn.norm_added_k.weight",
    "context_block.attn.proj": "attn.to_add_out",
    "context_block.mlp.fc1": "ff_context.net.0.proj",
    "context_block.mlp.fc2": "ff_context.net.2",
}
_OTHER: dict[str, Target] = {
    "pos_embed": "pos_embed.pos_embed",
    "x_embedder.proj": "pos_embed.proj",
    "t_embedder.mlp.0": "time_text_embed.timestep_embedder.linear_1",
    "t_embedder.mlp.2": "time_text_embed.timestep_embedder.linear_2",
    "y_embedder.mlp.0": "time_text_embed.text_embedder.linear_1",
    "y_embedder.mlp.2": "time_text_embed.text_embedder.linear_2",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": Swapped("norm_out.linear"),
}


class SD3(Family):
    name = "sd3"
    title = "Stable Diffusion 3"
    module_class = "SD3Transformer2DModel"
    text_prefixes = {
        "l": ("text_encoders.clip_l.transformer.",),
        "g": ("text_encoders.clip_g.transformer.",),
        "t5xxl": ("text_encoders.t5xxl.transformer.",),
    }
    text_optional = frozenset(text_prefixes)
    text = "sd3"

    def owns(self, weights: Weights) -> bool:
        return "joint_blocks.0.context_block.attn.qkv.weight" in weights or (
            "pos_embed.proj.weight" in weights and "transformer_blocks.0.attn.add_q_proj.weight" in weights
        )

    def rename(self, weights: Weights) -> dict[str, Entry]:
        if "pos_embed.proj.weight" in weights:
            return dict(weights)
        last = count(weights, "joint_blocks.*.") - 1
        # The last block only reads the text: its norm is of the kind whose halves are changed over.
        ending = {
            f"joint_blocks.{last}.context_block.adaLN_modulation.1": Swapped(
                f"transformer_blocks.{last}.norm1_context.linear"
            )
        }
        blocks = below("joint_blocks.*.", "transformer_blocks.*.", _BLOCK)
        return renamed(weights, {**_OTHER, **blocks, **ending})

    def configure(self, weights: Weights) -> dict[str, Any]:
        width, channels, patch, _ = weights["pos_embed.proj.weight"].shape
        caption, joint = weights["context_embedder.weight"].shape
        layers = count(weights, "transformer_blocks.*.")
        side = math.isqrt(weights["pos_embed.pos_embed"].shape[1])
        normed = "transformer_blocks.0.attn.norm_q.weight" in weights
        return {
            "sample_size": side,
            "patch_size": patch,
            "in_channels": channels,
            "out_channels": weights["proj_out.weight"].shape[0] // patch**2,
            "num_layers": layers,
            "attention_head_dim": HEAD,
            "num_attention_heads": width // HEAD,
            "joint_attention_dim": joint,
            "caption_projection_dim": caption,
            "pooled_projection_dim": weights["time_text_embed.text_embedder.linear_1.weight"].shape[1],
            "pos_embed_max_size": side,
            "dual_attention_layers": tuple(
                i for i in range(layers) if f"transformer_blocks.{i}.attn2.to_q.weight" in weights
            ),
            "qk_norm": "rms_norm" if normed else None,
        }

    def build(self, config: Mapping[str, Any]) -> torch.nn.Module:
        from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel

        return SD3Transformer2DModel.from_config(config)

    def latent(self, config: Mapping[str, Any]) -> LatentFormat:
        return LatentFormat(channels=config["in_channels"], scale=1.5305, shift=0.0609)

    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        return DiscreteFlow(shift=3.0)

    def prepare(
        self, module: torch.nn.Module, cond: torch.Tensor, options: Mapping[str, Any], around: Surroundings
    ) -> dict[str, torch.Tensor]:
        return {"context": cond, "pooled": pooled(options, module.config.pooled_projection_dim)}

    def call(
        self, module: torch.nn.Module, x: torch.Tensor, timestep: torch.Tensor, inputs: Inputs
    ) -> torch.Tensor:
        height, width = x.shape[-2:]
        output = module(
            hidden_states=pad_to_multiple(x, module.config.patch_size),
            encoder_hidden_states=inputs["context"],
            pooled_projections=inputs["pooled"],
            timestep=timestep,
            return_dict=False,
        )[0]
        return output[..., :height, :width]
