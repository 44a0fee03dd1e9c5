"""Stage 2: the Flux transformer and its text encoder, trained jointly on cached latents (rectified flow)."""

from __future__ import annotations

import math
import pickle
import time
from pathlib import Path

import data
import numpy as np
import torch
from autoencoder import build as build_autoencoder
from autoencoder import encode
from diffusers import FluxTransformer2DModel
from distributed import average_gradients, save
from optim import Average, Optimizers, plan
from torch import nn
from words import LENGTH, WIDTH, build_text_encoder, load_tokenizer

GRID = data.SIZE // 16  # tokens along a side
DROPOUT = 0.1  # captions left out, for guidance
SHARD = 1024


def build_transformer() -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        in_channels=64,
        num_layers=2,
        num_single_layers=6,
        num_attention_heads=4,
        attention_head_dim=64,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        axes_dims_rope=(16, 24, 24),
        guidance_embeds=False,
    )


def pack(latent: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) to Flux's tokens (B, H/2 * W/2, 4 C)."""
    b, c, h, w = latent.shape
    return latent.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)


def unpack(tokens: torch.Tensor, height: int, width: int) -> torch.Tensor:
    b, _, d = tokens.shape
    tokens = tokens.view(b, height // 2, width // 2, d // 4, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return tokens.reshape(b, d // 4, height, width)


def positions(height: int, width: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(height // 2), torch.arange(width // 2), indexing="ij")
    return torch.stack([torch.zeros_like(y), y, x], -1).reshape(-1, 3).float()


class Model(nn.Module):
    """Transformer and text encoder as one thing to train: predicts noise - latent."""

    def __init__(self, tokenizer):
        super().__init__()
        self.transformer = build_transformer()
        self.text_encoder = build_text_encoder(tokenizer)

    def forward(self, latent: torch.Tensor, sigma: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        text = self.text_encoder(ids)
        height, width = latent.shape[-2:]
        tokens = self.transformer(
            hidden_states=pack(latent),
            encoder_hidden_states=text.last_hidden_state,
            pooled_projections=text.pooler_output,
            timestep=sigma,
            img_ids=positions(height, width),
            txt_ids=torch.zeros(ids.shape[1], 3),
            return_dict=False,
        )[0]
        return unpack(tokens, height, width)


def tokenize(tokenizer, texts: list[str]) -> torch.Tensor:
    return tokenizer(
        texts, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"
    ).input_ids


def write_latents(rank: int, world: int, folder: Path, pictures: int) -> None:
    """Draw `pictures` training pictures, encode them, and keep latents and what they show, in shards."""
    model = build_autoencoder()
    model.load_state_dict(torch.load(folder / "autoencoder_ema.pt", weights_only=True))
    model = model.to(memory_format=torch.channels_last)
    (folder / "latents").mkdir(exist_ok=True)
    for shard in range(rank, math.ceil(pictures / SHARD), world):
        path = folder / "latents" / f"{shard:04}.pkl"
        if path.exists():
            continue
        rng = np.random.default_rng((3, shard))
        shown, latents = [], []
        while len(shown) < SHARD:
            batch = []
            while len(batch) < 32:
                picture = data.sample(rng, blurry=0.03)
                if not picture.held_out:
                    batch.append(picture)
            images = np.stack([data.draw(p, rng) for p in batch])
            pixels = torch.from_numpy(images).permute(0, 3, 1, 2) * 2 - 1
            with torch.no_grad():
                latents.append(encode(model, pixels.contiguous(memory_format=torch.channels_last)).half())
            shown += batch
        temporary = path.with_suffix(".partial")
        temporary.write_bytes(pickle.dumps((shown, torch.cat(latents).contiguous().numpy())))
        temporary.replace(path)
        print(f"latents: shard {shard} done", flush=True)


class Latents:
    """All cached pictures, standardised channel by channel."""

    def __init__(self, folder: Path):
        self.shown: list[data.Picture] = []
        shards = []
        for path in sorted((folder / "latents").glob("*.pkl")):
            shown, latents = pickle.loads(path.read_bytes())  # written by write_latents
            self.shown += shown
            shards.append(torch.from_numpy(latents))
        self.values = torch.cat(shards)
        statistics = folder / "latent_statistics.pt"
        if not statistics.exists():
            first = self.values[:8192].float()
            save(statistics, {"mean": first.mean((0, 2, 3)), "std": first.std((0, 2, 3))})
        state = torch.load(statistics, weights_only=True)
        self.mean, self.std = (state[k].view(1, -1, 1, 1) for k in ("mean", "std"))

    def batch(self, rng: np.random.Generator, count: int) -> tuple[torch.Tensor, list[str]]:
        rows = rng.integers(0, len(self.shown), count)
        texts = [
            "" if rng.random() < DROPOUT and not self.shown[i].blurry else data.caption(self.shown[i], rng)
            for i in rows
        ]
        return (self.values[torch.from_numpy(rows)].float() - self.mean) / self.std, texts


def train(rank: int, world: int, folder: Path, steps: int, batch: int) -> None:
    tokenizer = load_tokenizer(folder / "tokenizer")
    latents = Latents(folder)
    torch.manual_seed(4)
    model = Model(tokenizer)
    optimizers = Optimizers(
        model,
        muon_lr=0.015,
        adam_lr=1.5e-3,
        adam_names=("text_encoder", "embedder", "norm", "transformer.proj_out"),
        decay=0.01,
    )
    average = Average(model, 0.999)
    path, start = folder / "transformer.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizers.load_state_dict(state["optimizers"])
        average.values, start = state["average"], state["step"]
    began, seen = time.time(), 0.0
    for step in range(start, steps):
        rng = np.random.default_rng((5, step, rank))
        latent, texts = latents.batch(rng, batch)
        sigma = torch.from_numpy(1 / (1 + np.exp(-rng.normal(0.2, 1.1, batch)))).float()
        noise = torch.from_numpy(rng.standard_normal(latent.shape, np.float32))
        at = sigma.view(-1, 1, 1, 1)
        output = model((1 - at) * latent + at * noise, sigma, tokenize(tokenizer, texts))
        loss = (output - (noise - latent)).square().mean()
        loss.backward()
        average_gradients(model)
        optimizers.step(plan(step, steps, warmup=100))
        average.update(model, step)
        seen += loss.item()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"transformer {step + 1}/{steps} loss {seen / 50:.4f} {time.time() - began:.0f} s", flush=True)
            seen = 0.0
        if rank == 0 and ((step + 1) % 500 == 0 or step + 1 == steps):
            state = {
                "model": model.state_dict(),
                "optimizers": optimizers.state_dict(),
                "average": average.values,
                "step": step + 1,
            }
            save(path, state)
