"""Flux.1 (Black Forest Labs): dev, schnell and models of other sizes built alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ...sampling.model import LatentFormat
from ...sampling.prediction import DiscreteFlow, FluxFlow, ModelSampling
from ..files import BadFile, Entry, Weights
from ..renaming import Swapped, Target, below, count, renamed
from .base import Family, Inputs, Surroundings, pad_to_multiple, pooled

PATCH = 2
GUIDANCE = 3.5  # where the conditioning states none

_DOUBLE = {
    "img_mod.lin": "norm1.linear",
    "txt_mod.lin": "norm1_context.linear",
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "img_attn.norm.query_norm.scale": "attn.norm_q.weight",
    "img_attn.norm.key_norm.scale": "attn.norm_k.weight",
    "txt_attn.norm.query_norm.scale": "attn.norm_added_q.weight",
    "txt_attn.norm.key_norm.scale": "attn.norm_added_k.weight",
    "img_attn.proj": "attn.to_out.0",
    "txt_attn.proj": "attn.to_add_out",
    "img_mlp.0": "ff.net.0.proj",
    "img_mlp.2": "ff.net.2",
    "txt_mlp.0": "ff_context.net.0.proj",
    "txt_mlp.2": "ff_context.net.2",
}
_SINGLE = {
    "modulation.lin": "norm.linear",
    "linear1": {"attn.to_q": 1, "attn.to_k": 1, "attn.to_v": 1, "proj_mlp": 4},
    "linear2": "proj_out",
    "norm.query_norm.scale": "attn.norm_q.weight",
    "norm.key_norm.scale": "attn.norm_k.weight",
}
_OTHER: dict[str, Target] = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "time_in.in_layer": "time_text_embed.timestep_embedder.linear_1",
    "time_in.out_layer": "time_text_embed.timestep_embedder.linear_2",
    "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
    "guidance_in.in_layer": "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer": "time_text_embed.guidance_embedder.linear_2",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": Swapped("norm_out.linear"),
}


class Flux(Family):
    name = "flux"
    title = "Flux"
    module_class = "FluxTransformer2DModel"
    dtypes = (torch.bfloat16,)
    vae_prefix = "vae."
    text_prefixes = {
        "l": ("text_encoders.clip_l.transformer.",),
        "t5xxl": ("text_encoders.t5xxl.transformer.",),
    }
    text = "flux"

    def owns(self, weights: Weights) -> bool:
        marks = (
            ("double_blocks.0.img_attn.norm.key_norm.scale", "img_in.weight", "vector_in.in_layer.weight"),
            (
                "single_transformer_blocks.0.proj_mlp.weight",
                "time_text_embed.text_embedder.linear_1.weight",
            ),
        )
        return any(all(name in weights for name in names) for names in marks)

    def rename(self, weights: Weights) -> dict[str, Entry]:
        return renamed(
            weights,
            {
                **_OTHER,
                **below("double_blocks.*.", "transformer_blocks.*.", _DOUBLE),
                **below("single_blocks.*.", "single_transformer_blocks.*.", _SINGLE),
            },
        )

    def configure(self, weights: Weights) -> dict[str, Any]:
        width, channels = weights["x_embedder.weight"].shape
        (head,) = weights["transformer_blocks.0.attn.norm_q.weight"].shape
        outputs = weights["proj_out.weight"].shape[0]
        if channels != outputs:
            raise BadFile(f"Flux with {channels} input channels (fill or control) is not supported")
        return {
            "patch_size": 1,  # packing happens outside the module
            "in_channels": channels,
            "out_channels": outputs,
            "num_layers": count(weights, "transformer_blocks.*."),
            "num_single_layers": count(weights, "single_transformer_blocks.*."),
            "attention_head_dim": head,
            "num_attention_heads": width // head,
            "joint_attention_dim": weights["context_embedder.weight"].shape[1],
            "pooled_projection_dim": weights["time_text_embed.text_embedder.linear_1.weight"].shape[1],
            "guidance_embeds": "time_text_embed.guidance_embedder.linear_1.weight" in weights,
            "axes_dims_rope": rope_axes(head),
        }

    def build(self, config: Mapping[str, Any]) -> torch.nn.Module:
        from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel

        return FluxTransformer2DModel.from_config(config)

    def latent(self, config: Mapping[str, Any]) -> LatentFormat:
        return LatentFormat(channels=config["in_channels"] // PATCH**2, scale=0.3611, shift=0.1159)

    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        if config["guidance_embeds"]:
            return FluxFlow(shift=1.15)
        return DiscreteFlow(shift=1.0, multiplier=1.0)

    def prepare(
        self, module: torch.nn.Module, cond: torch.Tensor, options: Mapping[str, Any], around: Surroundings
    ) -> dict[str, torch.Tensor]:
        inputs = {"context": cond, "pooled": pooled(options, module.config.pooled_projection_dim)}
        guidance = options.get("guidance", GUIDANCE)
        if module.config.guidance_embeds and guidance is not None:
            inputs["guidance"] = torch.tensor([float(guidance)])
        return inputs

    def call(
        self, module: torch.nn.Module, x: torch.Tensor, timestep: torch.Tensor, inputs: Inputs
    ) -> torch.Tensor:
        height, width = x.shape[-2:]
        padded = pad_to_multiple(x, PATCH)
        rows, columns = padded.shape[-2] // PATCH, padded.shape[-1] // PATCH
        guidance = inputs.get("guidance")
        disabled = module.config.guidance_embeds and guidance is None
        with _without_guidance(module) if disabled else nullcontext():
            output = module(
                hidden_states=pack(padded),
                encoder_hidden_states=inputs["context"],
                pooled_projections=inputs["pooled"],
                timestep=timestep,
                guidance=torch.zeros_like(timestep) if disabled else guidance,
                img_ids=grid(rows, columns, x.device),
                txt_ids=torch.zeros(inputs["context"].shape[1], 3, device=x.device),
                return_dict=False,
            )[0]
        return unpack(output, rows, columns)[..., :height, :width]


def rope_axes(head: int) -> tuple[int, int, int]:
    """Rotary dimensions for index, row and column: 16, 56, 56 of Flux.1's 128, in proportion elsewhere."""
    space = head * 7 // 16 // 2 * 2
    return head - 2 * space, space, space


def pack(x: torch.Tensor) -> torch.Tensor:
    """[B, C, 2H, 2W] -> [B, H*W, 4C]: a token is a 2x2 patch, channel major."""
    batch, channels, height, width = x.shape
    patches = x.view(batch, channels, height // PATCH, PATCH, width // PATCH, PATCH)
    return patches.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * PATCH**2)


def unpack(tokens: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The inverse of `pack`."""
    patches = tokens.view(len(tokens), rows, columns, -1, PATCH, PATCH)
    return patches.permute(0, 3, 1, 4, 2, 5).reshape(len(tokens), -1, rows * PATCH, columns * PATCH)


def grid(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Position ids [rows*columns, 3]: (0, row, column)."""
    ids = torch.zeros(rows, columns, 3, device=device)
    ids[..., 1] = torch.arange(rows, device=device)[:, None]
    ids[..., 2] = torch.arange(columns, device=device)[None, :]
    return ids.view(-1, 3)


@contextmanager
def _without_guidance(module: torch.nn.Module) -> Iterator[None]:
    """Have a guidance-distilled model add nothing for guidance, as FluxDisableGuidance asks."""
    handle = module.time_text_embed.guidance_embedder.register_forward_hook(
        lambda _module, _args, output: torch.zeros_like(output)
    )
    try:
        yield
    finally:
        handle.remove()
