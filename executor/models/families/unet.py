"""The UNets of Stable Diffusion 1, 2 and XL, and models of other sizes built alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...sampling.model import LatentFormat
from ...sampling.parametrisation import Velocity
from ...sampling.prediction import Discrete, ModelSampling
from ..files import BadFile, Entry, Weights
from ..renaming import count
from .base import Family, Inputs, Surroundings, pooled
from .unet_layout import to_diffusers

HEADS = 8  # Stable Diffusion 1: their number is fixed
HEAD = 64  # later ones: their width is
TIME_ID = 256  # numbers that stand for one of the sizes in XL's conditioning
TIME_IDS = 6
OTHER_VECTORS = (2048, 2560)  # unCLIP's image vector, XL's refiner


class UNet(Family):
    """What the generations have in common."""

    module_class = "UNet2DConditionModel"

    def owns(self, weights: Weights) -> bool:
        if "input_blocks.0.0.weight" in weights:
            named = not any(".time_stack." in name or ".time_mixer." in name for name in weights)
            return named and self.generation(self.rename(weights))
        return "down_blocks.0.resnets.0.time_emb_proj.weight" in weights and self.generation(weights)

    def generation(self, weights: Weights) -> bool:
        """Whether a UNet in diffusers' layout is of this generation."""
        raise NotImplementedError

    def rename(self, weights: Weights) -> dict[str, Entry]:
        return to_diffusers(weights)

    def configure(self, weights: Weights) -> dict[str, Any]:
        levels = count(weights, "down_blocks.*.")
        channels = [weights[f"down_blocks.{i}.resnets.0.conv1.weight"].shape[0] for i in range(levels)]
        down = [_depths(weights, f"down_blocks.{i}") for i in range(levels)]
        up = [_depths(weights, f"up_blocks.{i}") for i in range(levels)]
        inputs = weights["conv_in.weight"].shape[1]
        outputs = weights["conv_out.weight"].shape[0]
        if inputs != outputs:
            raise BadFile(f"{self.title} with {inputs} input channels (an inpainting model) is not supported")
        linear = _is_linear(weights)
        middle = count(weights, "mid_block.attentions.0.transformer_blocks.*.")
        return {
            "in_channels": inputs,
            "out_channels": outputs,
            "block_out_channels": channels,
            "layers_per_block": [len(depths) for depths in down],
            "down_block_types": [f"{'CrossAttn' * any(depths)}DownBlock2D" for depths in down],
            "up_block_types": [f"{'CrossAttn' * any(depths)}UpBlock2D" for depths in up],
            "mid_block_type": _middle_type(weights, middle),
            # diffusers takes the middle's depth from the last entry, which then has none of its own.
            "transformer_layers_per_block": [[depth or middle or 1 for depth in depths] for depths in down],
            "reverse_transformer_layers_per_block": [[depth or 1 for depth in depths] for depths in up],
            "cross_attention_dim": next(
                entry.shape[1] for name, entry in weights.items() if name.endswith("attn2.to_k.weight")
            ),
            "use_linear_projection": linear,
            "attention_head_dim": [max(1, size // HEAD) for size in channels] if linear else HEADS,
        }

    def build(self, config: Mapping[str, Any]) -> torch.nn.Module:
        from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

        return UNet2DConditionModel.from_config(config)

    def latent(self, config: Mapping[str, Any]) -> LatentFormat:
        return LatentFormat(channels=config["in_channels"], scale=0.18215)

    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        return Discrete()

    def prepare(
        self, module: torch.nn.Module, cond: torch.Tensor, options: Mapping[str, Any], around: Surroundings
    ) -> dict[str, torch.Tensor]:
        return {"context": cond}

    def call(
        self, module: torch.nn.Module, x: torch.Tensor, timestep: torch.Tensor, inputs: Inputs
    ) -> torch.Tensor:
        added = {name: inputs[name] for name in ("text_embeds", "time_ids") if name in inputs}
        return module(
            x,
            timestep,
            encoder_hidden_states=inputs["context"],
            added_cond_kwargs=added or None,
            return_dict=False,
        )[0]


class SD1(UNet):
    name = "sd1"
    title = "Stable Diffusion 1"
    text_prefixes = {"l": ("cond_stage_model.transformer.",)}
    text = "single"

    def generation(self, weights: Weights) -> bool:
        return not _is_linear(weights) and "add_embedding.linear_1.weight" not in weights


class SD2(UNet):
    name = "sd2"
    title = "Stable Diffusion 2"
    text_prefixes = {"h": ("cond_stage_model.model.", "conditioner.embedders.0.model.")}
    text = "single"

    def generation(self, weights: Weights) -> bool:
        return _is_linear(weights) and "add_embedding.linear_1.weight" not in weights

    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        """Nothing in the file says whether it predicts v. The published v models differ from the others in
        how far this bias has moved from zero."""
        bias = self.rename(weights).get("up_blocks.3.attentions.2.transformer_blocks.0.norm1.bias")
        if bias is not None and bias.read().float().std(unbiased=False) > 0.09:
            return Discrete(parametrisation=Velocity())
        return Discrete()


class SDXL(UNet):
    name = "sdxl"
    title = "Stable Diffusion XL"
    text_prefixes = {
        "l": ("conditioner.embedders.0.transformer.",),
        "g": ("conditioner.embedders.1.model.",),
    }
    text = "sdxl"

    def generation(self, weights: Weights) -> bool:
        embedding = weights.get("add_embedding.linear_1.weight")
        if embedding is None or embedding.shape[1] in OTHER_VECTORS:
            return False
        return embedding.shape[1] > TIME_IDS * TIME_ID

    def configure(self, weights: Weights) -> dict[str, Any]:
        return {
            **super().configure(weights),
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": TIME_ID,
            "projection_class_embeddings_input_dim": weights["add_embedding.linear_1.weight"].shape[1],
        }

    def latent(self, config: Mapping[str, Any]) -> LatentFormat:
        return LatentFormat(channels=config["in_channels"], scale=0.13025)

    def sampling(self, config: Mapping[str, Any], weights: Weights) -> ModelSampling:
        """Empty tensors of these names mark checkpoints that predict v, with zero terminal SNR."""
        if "v_pred" in weights:
            return Discrete(parametrisation=Velocity(), zero_snr="ztsnr" in weights)
        return Discrete()

    def prepare(
        self, module: torch.nn.Module, cond: torch.Tensor, options: Mapping[str, Any], around: Surroundings
    ) -> dict[str, torch.Tensor]:
        """Sizes the picture is told to have had: those of the conditioning, else the picture's own."""
        width = options.get("width", around.noise.shape[-1] * around.spatial_ratio)
        height = options.get("height", around.noise.shape[-2] * around.spatial_ratio)
        sizes = (
            height,
            width,
            options.get("crop_h", 0),
            options.get("crop_w", 0),
            options.get("target_height", height),
            options.get("target_width", width),
        )
        text = module.config.projection_class_embeddings_input_dim - TIME_IDS * TIME_ID
        vector = pooled(options, text)
        return {
            "context": cond,
            "text_embeds": vector,
            "time_ids": torch.tensor([sizes], dtype=torch.float32).repeat(len(vector), 1),
        }


def _is_linear(weights: Weights) -> bool:
    """Whether the transformers' projections are linear layers (they were 1x1 convolutions at first)."""
    return any(name.endswith(".proj_in.weight") and len(entry.shape) == 2 for name, entry in weights.items())


def _depths(weights: Weights, block: str) -> list[int]:
    """Transformer blocks after each residual block of one resolution."""
    layers = count(weights, f"{block}.resnets.*.")
    return [count(weights, f"{block}.attentions.{i}.transformer_blocks.*.") for i in range(layers)]


def _middle_type(weights: Weights, depth: int) -> str | None:
    if depth:
        return "UNetMidBlock2DCrossAttn"
    return "UNetMidBlock2D" if "mid_block.resnets.0.conv1.weight" in weights else None
