"""The trained parts as a diffusers pipeline folder in float16, and back, to train on from such a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import data
import numpy as np
import torch
import torch.nn.functional as F
from autoencoder import LATENT
from autoencoder import build as build_autoencoder
from diffusers import AutoencoderKL, FluxTransformer2DModel
from distributed import save
from transformer import Model
from transformers import CLIPTextModel
from words import load_tokenizer


def _smooth_autoencoder(work: Path) -> AutoencoderKL:
    """The averaged autoencoder, its latents' mean and deviation folded into quant_conv.

    After that latents have mean 0 and deviation 1 in every channel, and the posterior is a point.
    """
    model = build_autoencoder()
    refined = work / "decoder_ema.pt"
    model.load_state_dict(
        torch.load(refined if refined.exists() else work / "autoencoder_ema.pt", weights_only=True)
    )
    statistics = torch.load(work / "latent_statistics.pt", weights_only=True)
    with torch.no_grad():
        weight, bias = model.quant_conv.weight, model.quant_conv.bias
        weight[:LATENT] /= statistics["std"].view(-1, 1, 1, 1)
        bias[:LATENT] = (bias[:LATENT] - statistics["mean"]) / statistics["std"]
        weight[LATENT:] = 0
        bias[LATENT:] = -30.0  # log variance
    return model


def read(folder: Path, work: Path) -> None:
    """Lay out an exported folder as what training in `work` starts from; optimizers start anew."""
    shutil.copytree(folder / "tokenizer", work / "tokenizer", dirs_exist_ok=True)
    vae = AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=torch.float32)
    save(work / "autoencoder_ema.pt", vae.state_dict())
    parts = {
        "transformer": FluxTransformer2DModel.from_pretrained(
            folder / "transformer", torch_dtype=torch.float32
        ),
        "text_encoder": CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32),
    }
    weights = {f"{part}.{n}": p for part, model in parts.items() for n, p in model.state_dict().items()}
    save(work / "transformer_start.pt", weights)


@torch.no_grad()
def preview_mix(vae: AutoencoderKL, pictures: int = 128) -> dict[str, list]:
    """How to mix latent channels into red, green and blue (-1..1) for a cheap look at a latent: least squares
    against the mean colour under each latent pixel."""
    rng = np.random.default_rng(9)
    drawn = np.stack([data.draw(data.sample(rng), rng) for _ in range(pictures)])
    pixels = torch.from_numpy(drawn).permute(0, 3, 1, 2) * 2 - 1
    latents = vae.encode(pixels).latent_dist.mode().permute(0, 2, 3, 1).reshape(-1, LATENT)
    colours = F.avg_pool2d(pixels, 8).permute(0, 2, 3, 1).reshape(-1, 3)
    mix = torch.linalg.lstsq(torch.cat([latents, torch.ones(len(latents), 1)], 1), colours).solution
    rounded = [[round(float(value), 4) for value in row] for row in mix]
    return {"rgb_factors": rounded[:-1], "rgb_bias": rounded[-1]}


def write(work: Path, folder: Path) -> None:
    tokenizer = load_tokenizer(work / "tokenizer")
    model = Model(tokenizer)
    model.load_state_dict(torch.load(work / "transformer.pt", weights_only=True)["average"])
    vae = _smooth_autoencoder(work)
    (folder / "vae").mkdir(parents=True, exist_ok=True)
    (folder / "vae" / "preview.json").write_text(json.dumps(preview_mix(vae)) + "\n")
    for name, part in (
        ("transformer", model.transformer),
        ("text_encoder", model.text_encoder),
        ("vae", vae),
    ):
        part.half().save_pretrained(folder / name, safe_serialization=True)
    shutil.copytree(work / "tokenizer", folder / "tokenizer", dirs_exist_ok=True)
    index = {
        "_class_name": "FluxPipeline",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": [None, None],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": [None, None],
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    schedule = {
        "_class_name": "FlowMatchEulerDiscreteScheduler",
        "num_train_timesteps": 1000,
        "shift": 1.0,
        "use_dynamic_shifting": False,
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    (folder / "scheduler").mkdir(exist_ok=True)
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(schedule, indent=2) + "\n")
